//! Accepting connections and serving HTTP/1.1 and HTTP/2 on them.

use std::net::IpAddr;
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

/// Longest a request's headers may take: upstream's limit. Whoever sends them byte by byte holds up
/// nobody but itself, and not for long.
const HEADERS: Duration = Duration::from_secs(32);

/// Largest headers of a request. A host tells all of a user's groups, each in a header of its own.
const LARGEST_HEADERS: u16 = u16::MAX;

/// Most headers of a request in HTTP/1.1, likewise.
const MOST_HEADERS: usize = 1000;

/// Streams on one HTTP/2 connection. A host multiplexes all its users' watches on one or two.
const STREAMS: u32 = 1000;

/// Dead peers are noticed after two of these.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Pause after a failed accept, e.g. without file descriptors: long enough for some to be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` and the delay after it, in which readiness fails; then lets requests in
/// flight finish for at most `grace`.
pub async fn serve(
    server: Arc<ApiServer>,
    listener: TcpListener,
    tls: Arc<ReloadableTls>,
    shutdown: CancellationToken,
    grace: Duration,
) {
    let connections = TaskTracker::new();
    let ending = CancellationToken::new();
    let over = delayed(&server, &shutdown);
    tokio::pin!(over);
    loop {
        let (stream, from) = tokio::select! {
            () = &mut over => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let (server, tls, ending) = (Arc::clone(&server), Arc::clone(&tls), ending.clone());
        connections.spawn(async move {
            if let Err(reason) = connection(server, stream, from.ip(), &tls, ending).await {
                tracing::debug!(reason, "connection closed");
            }
        });
    }
    drop(listener);
    server.refuse();
    ending.cancel();
    connections.close();
    if tokio::time::timeout(grace, connections.wait()).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "connections were still open at the end of the grace period"
        );
    }
}

/// Waits until nothing new is to be taken: whoever spreads the load has seen by then that this server
/// is not ready any more.
async fn delayed(server: &ApiServer, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    let delay = server.settings.shutdown_delay;
    if !delay.is_zero() {
        tracing::info!(seconds = delay.as_secs(), "not ready any more, and serving on for a while");
    }
    tokio::select! {
        () = server.settings.hurry.cancelled() => {}
        () = tokio::time::sleep(delay) => {}
    }
}

async fn connection(
    server: Arc<ApiServer>,
    stream: TcpStream,
    from: IpAddr,
    tls: &ReloadableTls,
    ending: CancellationToken,
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
    // Closed by itself, or with all.
    let close = ending.child_token();
    let connection = Connection { peer, internal: None, address: Some(from), close: close.clone() };
    let service = service_fn(move |request| {
        let (server, connection) = (Arc::clone(&server), connection.clone());
        async move { Ok::<_, std::convert::Infallible>(server.handle(request, &connection).await) }
    });
    let builder = builder();
    let serving = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(serving);
    tokio::select! {
        result = serving.as_mut() => return result.map_err(|error| error.to_string()),
        () = close.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    serving.await.map_err(|error| error.to_string())
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_headers(MOST_HEADERS)
        .max_buf_size(usize::from(LARGEST_HEADERS));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::from(LARGEST_HEADERS))
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    builder
}
