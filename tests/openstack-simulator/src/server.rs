//! HTTP listener: converts between bytes and requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin;
use crate::cloud::{CallOutcome, SimulatedCloud};
use crate::http::{Query, Reply, Request};

/// Largest body that is read, in bytes. User data have 64 KiB at most, and no other body is near the limit.
const BODY_LIMIT: usize = 4 << 20;

/// Injected error that closes the connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection was dropped on purpose")]
struct InjectedDisconnect;

/// Accepts connections until stopped.
pub(crate) async fn run(listener: TcpListener, cloud: Arc<SimulatedCloud>, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.map(|(stream, _)| stream),
            () = stop.cancelled() => break,
        };
        match stream {
            Ok(stream) => {
                connections.spawn(serve(stream, Arc::clone(&cloud), stop.clone()));
            }
            Err(error) => {
                // The usual cause is a lack of file descriptors, which become free as connections close.
                tracing::warn!(error = %error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn serve(stream: TcpStream, cloud: Arc<SimulatedCloud>, stop: CancellationToken) {
    let Ok(local) = stream.local_addr() else { return };
    // Small responses to small requests must not wait for more bytes.
    let _ = stream.set_nodelay(true);
    let service = hyper::service::service_fn(move |request| handle(request, Arc::clone(&cloud), local));
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(error = %error, "a connection ended early");
            }
        }
        // Calls that hang would never end by themselves, so connections are cut.
        () = stop.cancelled() => {}
    }
}

async fn handle(
    request: http::Request<Incoming>,
    cloud: Arc<SimulatedCloud>,
    local: SocketAddr,
) -> Result<http::Response<Full<Bytes>>, InjectedDisconnect> {
    let head = request.method() == http::Method::HEAD;
    let request = read(request, local).await.map_err(|_| InjectedDisconnect)?;
    let outcome = if request.path.starts_with("/simulator") {
        CallOutcome::Reply(admin::handle(&cloud, &request).unwrap_or_else(|refused| refused))
    } else {
        cloud.call(&request).await
    };
    match outcome {
        CallOutcome::Reply(reply) => Ok(respond(reply, head)),
        CallOutcome::Drop => Err(InjectedDisconnect),
    }
}

async fn read(request: http::Request<Incoming>, local: SocketAddr) -> io::Result<Request> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_LIMIT).collect().await.map_err(io::Error::other)?.to_bytes();
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let host = parts.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let base_url = match host.or(authority) {
        Some(host) => format!("http://{host}"),
        None => format!("http://{local}"),
    };
    let raw_query = parts.uri.query().unwrap_or_default().to_owned();
    Ok(Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Query::parse(&raw_query),
        raw_query,
        headers: parts.headers,
        body,
        request_id: format!("req-{}", uuid::Uuid::new_v4()),
        base_url,
    })
}

fn respond(reply: Reply, head: bool) -> http::Response<Full<Bytes>> {
    let body = if head { Bytes::new() } else { reply.body };
    let mut response = http::Response::new(Full::new(body));
    *response.status_mut() = reply.status;
    for (name, value) in reply.headers {
        response.headers_mut().append(name, value);
    }
    response
}
