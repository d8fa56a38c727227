//! Listener: accepts connections and serves HTTP/1.1 and HTTP/2 on them.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apiserver_access::{Peer, PeerCertificate};
use apiserver_executor::{InlineExecutor, Spawner};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, Version};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chain;
use crate::connection::drain_on_drop::DrainOnDrop;
use crate::connection::handshake_budget::HandshakeBudget;
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

/// Time limit of a handshake, which takes milliseconds.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Time limit of a request's headers, and of a connection's first request: upstream's limit. A client that sends them
/// byte by byte delays itself alone.
const HEADERS: Duration = Duration::from_secs(32);

/// Largest headers of a request: upstream's limit. A host sends each of a user's groups in a header of its own. Unit:
/// bytes.
const LARGEST_HEADERS: usize = 1 << 20;

/// Maximum number of headers of a request in HTTP/1.1: upstream's limit.
const MOST_HEADERS: usize = 1000;

/// Maximum number of streams on one HTTP/2 connection. A host multiplexes the watches of all its users on one or two.
const STREAMS: u32 = 1000;

/// Largest part of a response that waits to be sent: as much as is sent in a time slice. So a body that is made as
/// fast as it is sent is still in a core's cache. Unit: bytes.
const SEND_BUFFER: usize = 128 * 1024;

/// Interval of keepalives. A dead peer is noticed after two of them.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Time for which a client that must close its connection can read the last responses.
const CLOSE_GRACE: Duration = Duration::from_secs(1);

/// Length of the draining step at the end of a shutdown delay. An idle connection of HTTP/1.1 cannot be notified, and a
/// client that sends on it while it is closed gets no response.
const DRAINING: Duration = Duration::from_secs(5);

/// Pause after a failed accept, e.g. without file descriptors: long enough for some to be freed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until `shutdown` and the delay after it, in which readiness fails. Then requests in flight may finish for at
/// most `grace`.
///
/// The future is boxed so that connections are compiled in this crate: the body of an `async fn` is compiled in the
/// crate that polls it.
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
    let mut budget = HandshakeBudget::default();
    let ending = CancellationToken::new();
    let shutdown_delay = delayed(&server, &shutdown);
    tokio::pin!(shutdown_delay);
    loop {
        let (stream, from) = tokio::select! {
            () = &mut shutdown_delay => break,
            accepted = next(&server, &listener, &mut budget) => accepted,
        };
        let (server, tls, ending) = (Arc::clone(&server), Arc::clone(&tls), ending.clone());
        connections.spawn(async move {
            if let Err(reason) = connection(server, stream, from, &tls, ending).await {
                tracing::debug!(reason, "connection closed");
            }
        });
    }
    drop(listener);
    server.stop_accepting();
    ending.cancel();
    connections.close();
    if tokio::time::timeout(grace, connections.wait()).await.is_err() {
        tracing::warn!(open = connections.len(), "grace period is over; dropping open connections");
    }
}

/// Accepts the next connection of an address that has handshakes left. Others are closed before they cost more.
async fn next(
    server: &ApiServer,
    listener: &TcpListener,
    budget: &mut HandshakeBudget,
) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) if budget.admits(from.ip(), Instant::now()) => return (stream, from.ip()),
            Ok((_, address)) => {
                server.telemetry.metrics.handshake_refused();
                tracing::debug!(%address, "connection refused: its address has opened too many");
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; retrying");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits until new requests are to be refused: by then, load balancers have seen that this server is not ready.
async fn delayed(server: &ApiServer, shutdown: &CancellationToken) {
    shutdown.cancelled().await;
    let delay = server.settings.shutdown_delay;
    if !delay.is_zero() {
        tracing::info!(
            seconds = delay.as_secs(),
            "readiness fails from now on; serving until the shutdown delay is over"
        );
    }
    let draining = (delay / 4).min(DRAINING);
    let over = async {
        tokio::time::sleep(delay.saturating_sub(draining)).await;
        server.start_draining();
        tokio::time::sleep(draining).await;
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
    let acceptor = TlsAcceptor::from(tls.config());
    let accepted = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream))
        .await
        .map_err(|_| "the TLS handshake took too long".to_owned())
        .and_then(|accepted| accepted.map_err(|error| error.to_string()));
    let stream = accepted.inspect_err(|_| server.telemetry.metrics.handshake_failed())?;
    let session = stream.get_ref().1;
    let chain = session.peer_certificates().unwrap_or_default();
    let certificate = (!chain.is_empty()).then(|| Arc::new(PeerCertificate::new(chain, tls.pools())));
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    // Cancelled alone, or with all connections.
    let close = ending.child_token();
    let in_flight = TaskTracker::new();
    let streams = is_http2.then(InlineExecutor::default);
    let flush = streams.as_ref().map(InlineExecutor::flush_deferral).unwrap_or_default();
    let peer = Arc::new(Peer::Unidentified);
    let connection =
        Connection { peer, certificate, internal: None, address: Some(from), close, in_flight, flush };
    let begun = Arc::new(AtomicBool::new(false));
    let service = {
        let (connection, begun) = (connection.clone(), Arc::clone(&begun));
        service_fn(move |request| {
            begun.store(true, Ordering::Relaxed);
            // Boxed: the future is large, and hyper moves it several times.
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

/// Serves a connection until it ends. `stop` stops it from accepting requests.
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
    let without_request = async {
        tokio::time::sleep(HEADERS).await;
        if begun.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // Responses in flight then go out together with `GOAWAY`.
        biased;
        () = connection.close.cancelled() => stop(serving.as_mut()),
        result = serving.as_mut() => return result.map_err(|error| error.to_string()),
        () = without_request => return Err("no request was received".to_owned()),
    }
    let over = async {
        // The tracker is closed only when the connection takes no more requests.
        connection.in_flight.wait().await;
        tokio::time::sleep(CLOSE_GRACE).await;
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
        // The request was not processed: a client may send it again on another connection.
        return Err(h2::Reason::REFUSED_STREAM.into());
    }
    let token = connection.in_flight.token();
    // `GOAWAY` is sent with the response, and not before.
    let end = CancellationToken::new();
    let mut of_request = Connection { close: end.clone(), ..connection.clone() };
    if let Some(certificate) = &connection.certificate {
        of_request.peer = certificate.peer();
    }
    let asks_for_tunnel = *request.method() == Method::CONNECT;
    let mut answer = match request_validation::refusal(&request) {
        Some(refusal) => refusal,
        None if request.version() == Version::HTTP_2 => {
            chain::handle(&server, request.map(|body| DrainOnDrop(Some(body))), &of_request).await
        }
        None => chain::handle(&server, request, &of_request).await,
    };
    // A success would promise a tunnel.
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
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    builder
}
