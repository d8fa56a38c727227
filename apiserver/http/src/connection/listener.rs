//! Accepting connections and serving HTTP/1.1 and HTTP/2 on them.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver_executor::{InlineExecutor, Spawner};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::UnixTime;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chain;
use crate::connection::drain_on_drop::DrainOnDrop;
use crate::connection::http1_error_body::Http1ErrorBody;
use crate::connection::http2_driver::Http2Driver;
use crate::connection::in_flight_body::InFlight;
use crate::connection::lingering_close::{End, Socket};
use crate::connection::request_validation;
use crate::connection::tls::ReloadableTls;
use crate::connection::write_coalescer::WriteCoalescer;
use crate::request::connection::Connection;
use crate::response;
use crate::state::ApiServer;

/// A handshake takes milliseconds; who needs longer is not a client.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Longest a request's headers may take, and a connection's first request: upstream's limit. Whoever sends them byte by byte holds up
/// nobody but itself, and not for long.
const HEADERS: Duration = Duration::from_secs(32);

/// Largest headers of a request. A host tells all of a user's groups, each in a header of its own.
/// Upstream's limit.
const LARGEST_HEADERS: usize = 1 << 20;

/// Most headers of a request in HTTP/1.1, likewise.
const MOST_HEADERS: usize = 1000;

/// Streams on one HTTP/2 connection. A host multiplexes all its users' watches on one or two.
const STREAMS: u32 = 1000;

/// Most of an answer that waits to be sent: as much as is sent in a turn. What is made only as fast as it is sent is still
/// in a core's cache by then. Unit: bytes.
const UNSENT: usize = 128 * 1024;

/// Dead peers are noticed after two of these.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// How long a client that is to go has to take what was sent to it.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// For how long before the end clients of HTTP/1.1 are told that it comes: an idle connection can be told
/// nothing, and whoever sends on it as it is closed learns only that it is.
const PARTING: Duration = Duration::from_secs(5);

/// Pause after a failed accept, e.g. without file descriptors: long enough for some to be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` and the delay after it, in which readiness fails; then lets requests in
/// flight finish for at most `grace`.
///
/// It is boxed so that connections are compiled in this crate, for speed: the body of an `async fn` is compiled
/// where it is polled, and who calls this is built for size.
pub fn serve(
    server: Arc<ApiServer>,
    listener: TcpListener,
    tls: Arc<ReloadableTls>,
    shutdown: CancellationToken,
    grace: Duration,
) -> BoxFuture<'static, ()> {
    accept(server, listener, tls, shutdown, grace).boxed()
}

async fn accept(
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
    server.stop_accepting();
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
    let parting = (delay / 4).min(PARTING);
    let over = async {
        tokio::time::sleep(delay.saturating_sub(parting)).await;
        server.start_draining();
        tokio::time::sleep(parting).await;
    };
    tokio::select! {
        () = server.settings.force.cancelled() => {}
        () = over => {}
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
    let accepted = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream))
        .await
        .map_err(|_| "the handshake took too long".to_owned())
        .and_then(|accepted| accepted.map_err(|error| error.to_string()));
    let stream = accepted.inspect_err(|_| server.telemetry.metrics.handshake_failed())?;
    let session = stream.get_ref().1;
    let chain = session.peer_certificates().unwrap_or_default();
    let peer = Arc::new(loaded.pools.classify(chain, UnixTime::now()));
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    // Closed by itself, or with all.
    let close = ending.child_token();
    let in_flight = TaskTracker::new();
    let streams = is_http2.then(InlineExecutor::default);
    let flush = streams.as_ref().map(InlineExecutor::flush_deferral).unwrap_or_default();
    let connection = Connection { peer, internal: None, address: Some(from), close, in_flight, flush };
    let begun = Arc::new(AtomicBool::new(false));
    let service = {
        let (connection, begun) = (connection.clone(), Arc::clone(&begun));
        service_fn(move |request| {
            begun.store(true, Ordering::Relaxed);
            // In a place of its own: it is large, and hyper hands it on several times.
            Box::pin(answer(Arc::clone(&server), connection.clone(), request))
        })
    };
    if let Some(streams) = streams {
        let stream = WriteCoalescer::new(Socket::new(stream, End::Listen));
        let serve = |streams| http2(streams).serve_connection(TokioIo::new(stream), service);
        let serving =
            Http2Driver::new(streams, serve, http2::Connection::graceful_shutdown, connection.close.clone());
        let stop = |mut serving: Pin<&mut Http2Driver<_>>| serving.stop();
        drive(serving, stop, &connection, &begun).await
    } else {
        let serving = http1()
            .serve_connection(TokioIo::new(Http1ErrorBody::new(Socket::new(stream, End::Close))), service)
            .with_upgrades();
        let stop = |serving: Pin<&mut http1::UpgradeableConnection<_, _>>| serving.graceful_shutdown();
        drive(serving, stop, &connection, &begun).await
    }
}

/// Serves a connection until its end. `stop` tells it to take nothing more.
async fn drive<S>(
    serving: S,
    stop: impl FnOnce(Pin<&mut S>),
    connection: &Connection,
    begun: &AtomicBool,
) -> Result<(), String>
where
    S: Future<Output = Result<(), hyper::Error>>,
{
    let mut serving = std::pin::pin!(serving);
    let silent = async {
        tokio::time::sleep(HEADERS).await;
        if begun.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // What is on its way then goes out together with that it is to end.
        biased;
        () = connection.close.cancelled() => stop(serving.as_mut()),
        result = serving.as_mut() => return result.map_err(|error| error.to_string()),
        () = silent => return Err("no request came".to_owned()),
    }
    let over = async {
        // Closed only when nothing more is to be taken on it.
        connection.in_flight.wait().await;
        tokio::time::sleep(LAST_WORDS).await;
    };
    tokio::select! {
        result = serving => result.map_err(|error| error.to_string()),
        () = over => Ok(()),
    }
}

async fn answer(
    server: Arc<ApiServer>,
    connection: Connection,
    request: Request<Incoming>,
) -> Result<Response<InFlight>, h2::Error> {
    if connection.in_flight.is_closed() {
        // Nothing of it was looked at: a client may send it again on another connection.
        return Err(h2::Reason::REFUSED_STREAM.into());
    }
    let token = connection.in_flight.token();
    // That it is to end is told with the answer, and not before.
    let end = CancellationToken::new();
    let asked = Connection { close: end.clone(), ..connection.clone() };
    let asks_for_tunnel = *request.method() == Method::CONNECT;
    let mut answer = match request_validation::refusal(&request) {
        Some(refusal) => refusal,
        None if request.version() == Version::HTTP_2 => {
            chain::handle(&server, request.map(|body| DrainOnDrop(Some(body))), &asked).await
        }
        None => chain::handle(&server, request, &asked).await,
    };
    // Success would promise one.
    if asks_for_tunnel && answer.status().is_success() {
        answer = response::not_found();
    }
    let end = end.is_cancelled().then_some(connection.close);
    Ok(answer.map(|body| InFlight::new(body, end, token)))
}

fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_headers(MOST_HEADERS)
        .max_buf_size(LARGEST_HEADERS);
    builder
}

fn http2(streams: Spawner) -> http2::Builder<Spawner> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(LARGEST_HEADERS).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .max_send_buf_size(UNSENT)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    builder
}
