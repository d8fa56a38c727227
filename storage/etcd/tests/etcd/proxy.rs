//! Proxy between the store and its etcd that can cut connections, or drop the data of one direction.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// State of the network.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct NetworkState {
    /// Connections made before the last cut are dead.
    cuts: u64,
    drop_requests: bool,
    drop_responses: bool,
}

/// Forwards connections to a server.
pub(crate) struct Proxy {
    port: u16,
    network: Arc<watch::Sender<NetworkState>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server_port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let network = Arc::new(watch::Sender::new(NetworkState::default()));
        let kept = Arc::clone(&network);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await {
                    tokio::spawn(forward(client, server, kept.subscribe()));
                }
            }
        });
        Self { port, network, accepting }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends every connection, and accepts new ones.
    pub(crate) fn cut(&self) {
        self.network.send_modify(|network| network.cuts += 1);
    }

    /// Drops all responses from now on; requests still arrive.
    pub(crate) fn drop_responses(&self) {
        self.network.send_modify(|network| network.drop_responses = true);
    }

    /// Drops all requests and responses from now on.
    pub(crate) fn drop_everything(&self) {
        self.network.send_modify(|network| {
            network.drop_requests = true;
            network.drop_responses = true;
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

async fn forward(client: TcpStream, server: TcpStream, mut network: watch::Receiver<NetworkState>) {
    let born = network.borrow_and_update().cuts;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let requests = copy(from_client, to_server, network.clone(), |network| network.drop_requests);
    let answers = copy(from_server, to_client, network.clone(), |network| network.drop_responses);
    tokio::select! {
        () = requests => {}
        () = answers => {}
        _ = network.wait_for(|network| network.cuts != born) => {}
    }
}

async fn copy(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    network: watch::Receiver<NetworkState>,
    is_dropped: fn(&NetworkState) -> bool,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let lost = is_dropped(&network.borrow());
        if !lost && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
