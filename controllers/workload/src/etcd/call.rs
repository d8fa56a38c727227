//! Calls of one etcd member.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use controllers_infrastructure::without_present_time;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use kube::Client;
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::forward::Forwarded;

/// Port on which kubeadm lets etcd listen for clients.
const PORT: u16 = 2379;

/// Longest duration from the first byte to the end of the TLS handshake, as upstream has it.
const DIAL: Duration = Duration::from_secs(10);

/// Longest duration of a call, as upstream has it: etcd waits that long for a quorum.
const CALL: Duration = Duration::from_secs(15);

/// Connects to the etcd member of a Node.
pub(super) async fn connect(client: &Client, node: &str, tls: &Arc<ClientConfig>) -> Result<Channel, String> {
    let dialled = timeout(DIAL, dial(client, node, tls)).await;
    dialled.map_err(|_| format!("no connection within {} s", DIAL.as_secs()))?
}

async fn dial(client: &Client, node: &str, tls: &Arc<ClientConfig>) -> Result<Channel, String> {
    let stream = Forwarded::open(client, &format!("etcd-{node}"), PORT).await?;
    // The name is not verified, but TLS wants one.
    let name = ServerName::try_from("etcd").map_err(|error| error.to_string())?;
    let stream = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
    let stream = stream.map_err(|error| {
        format!("TLS handshake with etcd failed: {}", without_present_time(error.to_string()))
    })?;
    let endpoint = Endpoint::from_static("http://etcd").timeout(CALL);
    let stream = Arc::new(Mutex::new(Some(TokioIo::new(stream))));
    let once = tower::service_fn(move |_| {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        async move { stream.ok_or_else(|| std::io::Error::other("the connection was lost")) }
    });
    endpoint.connect_with_connector(once).await.map_err(|error| causes(&error))
}

/// Makes a call.
pub(super) async fn call<Q, A>(channel: Channel, path: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let answer = timeout(CALL, async {
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| Status::unavailable(causes(&error)))?;
        let path = PathAndQuery::from_static(path);
        grpc.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await
    });
    let answer =
        answer.await.map_err(|_| Status::deadline_exceeded(format!("no answer in {} s", CALL.as_secs())))?;
    answer.map(tonic::Response::into_inner)
}

/// Returns the innermost cause, after the error itself.
fn causes(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let (outer, inner) = (error.to_string(), innermost.to_string());
    if outer == inner { outer } else { format!("{outer}: {inner}") }
}
