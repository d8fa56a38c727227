//! Listener for programs that are clients of a whole Capstan.

use std::net::Ipv4Addr;
use std::sync::Arc;

use apiserver_access::User;
use apiserver_http::InProcess;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::World;

impl World {
    /// Serves the API on a free port of loopback without TLS, until `connections` is dropped. Every client has all
    /// permissions. Returns a kubeconfig.
    ///
    /// # Errors
    /// The failure to listen.
    pub async fn listen(&self, connections: &mut JoinSet<()>) -> std::io::Result<String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let user = User::authenticated("admin", ["system:masters".to_owned()]);
        let service = InProcess::new(Arc::clone(&self.server), user);
        connections.spawn(accept(listener, service));
        Ok(format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: capstan\n\
             contexts: [{{name: capstan, context: {{cluster: capstan, user: admin}}}}]\n\
             clusters: [{{name: capstan, cluster: {{server: 'http://{address}'}}}}]\n\
             users: [{{name: admin, user: {{}}}}]\n"
        ))
    }
}

async fn accept(listener: TcpListener, service: InProcess) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let service = TowerToHyperService::new(service.clone());
        connections.spawn(async move {
            // A client may end its connection at any time.
            drop(
                auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}
