//! Accepting connections and serving HTTP/1.1 and HTTP/2 on them.

use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::pki_types::UnixTime;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::connection::Connection;
use crate::server::ApiServer;
use crate::tls::ReloadableTls;

/// A handshake takes milliseconds; who needs longer is not a client.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Streams on one HTTP/2 connection. A host multiplexes all its users' watches on one or two.
const STREAMS: u32 = 1000;

/// Dead peers are noticed after two of these.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Pause after a failed accept, e.g. without file descriptors: long enough for some to be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown`, then lets requests in flight finish for at most `grace`.
pub async fn serve(
    server: Arc<ApiServer>,
    listener: TcpListener,
    tls: Arc<ReloadableTls>,
    shutdown: CancellationToken,
    grace: Duration,
) {
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (server, tls, shutdown) = (Arc::clone(&server), Arc::clone(&tls), shutdown.clone());
        connections.spawn(async move {
            if let Err(reason) = connection(server, stream, &tls, shutdown).await {
                tracing::debug!(reason, "connection closed");
            }
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(grace, connections.wait()).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "connections were still open at the end of the grace period"
        );
    }
}

async fn connection(
    server: Arc<ApiServer>,
    stream: TcpStream,
    tls: &ReloadableTls,
    shutdown: CancellationToken,
) -> Result<(), String> {
    let _ = stream.set_nodelay(true);
    let loaded = tls.current();
    let acceptor = TlsAcceptor::from(Arc::clone(&loaded.config));
    let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream))
        .await
        .map_err(|_| "the handshake took too long".to_owned())?
        .map_err(|error| error.to_string())?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = loaded.pools.classify(chain, UnixTime::now()).map(Arc::new);
    let connection = Connection { peer, internal: None };
    let service = service_fn(move |request| {
        let (server, connection) = (Arc::clone(&server), connection.clone());
        async move { Ok::<_, std::convert::Infallible>(server.handle(request, &connection).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    tokio::select! {
        result = serving.as_mut() => return result.map_err(|error| error.to_string()),
        () = shutdown.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    serving.await.map_err(|error| error.to_string())
}
