//! Listener of the workload API.

use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::{self, LaterVerifier, User};
use super::failure::Failure;
use super::faulty;
use super::request::Request;
use super::{handle, portforward};
use crate::calls::{Calls, WorkloadCall};
use crate::cluster::Cluster;

/// Body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// Largest body that is read, as kube-apiserver has it.
const BODY_LIMIT: usize = 3 << 20;

/// Returns a response with a JSON body.
pub(crate) fn json_response(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync());
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

/// Returns a response with plain text.
pub(crate) fn text_response(body: &str) -> Response<Body> {
    Response::new(Full::new(Bytes::from(body.to_owned())).boxed_unsync())
}

/// Everything that a connection needs.
#[derive(Debug)]
pub(crate) struct ApiServer {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) verifier: Arc<LaterVerifier>,
    pub(crate) acceptor_config: Arc<rustls::ServerConfig>,
    /// Ends the listener and all of its connections.
    pub(crate) stop: CancellationToken,
    /// Tasks of connections that have changed their protocol.
    pub(crate) tasks: TaskTracker,
    pub(crate) calls: Arc<Calls>,
}

/// Accepts connections until the server is stopped.
pub(crate) async fn run(server: Arc<ApiServer>, listener: TcpListener) {
    let acceptor = TlsAcceptor::from(Arc::clone(&server.acceptor_config));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = server.stop.cancelled() => return,
        };
        match stream {
            Ok((stream, _)) => {
                connections.spawn(connection(Arc::clone(&server), acceptor.clone(), stream));
            }
            Err(error) => {
                // The usual cause is a lack of file descriptors, which become free as connections close.
                tracing::warn!(error = %error, "cannot accept a connection");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(server: Arc<ApiServer>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Some(socket) = second_handle(&stream) else { return };
    let broken = CancellationToken::new();
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let identity = if chain.is_empty() {
        Credential::None
    } else {
        server.verifier.user(chain).map_or(Credential::Invalid, Credential::Certificate)
    };
    let (shared, resets) = (Arc::clone(&server), broken.clone());
    let service = hyper::service::service_fn(move |request| {
        let (server, identity, broken) = (Arc::clone(&shared), identity.clone(), resets.clone());
        async move { Ok::<_, std::convert::Infallible>(respond(&server, &identity, &broken, request).await) }
    });
    let builder = auto::Builder::new(TokioExecutor::new());
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(error = %error, "a connection ended early");
            }
        }
        () = broken.cancelled() => {
            // Without a linger, the end of the last handle resets the connection.
            let _ = socket.set_zero_linger();
        }
        () = server.stop.cancelled() => {}
    }
}

/// Returns another handle of a connection, which TLS and HTTP do not wrap.
fn second_handle(stream: &TcpStream) -> Option<TcpStream> {
    let socket = std::net::TcpStream::from(stream.as_fd().try_clone_to_owned().ok()?);
    TcpStream::from_std(socket).ok()
}

/// Credential of a connection.
#[derive(Debug, Clone)]
enum Credential {
    None,
    /// A certificate that the authority has not signed, or that is not valid now.
    Invalid,
    Certificate(User),
}

async fn respond(
    server: &ApiServer,
    credential: &Credential,
    broken: &CancellationToken,
    mut request: http::Request<Incoming>,
) -> Response<Body> {
    let upgrade = portforward::is_upgrade(&request).then(|| hyper::upgrade::on(&mut request));
    let request = match read(request).await {
        Ok(request) => request,
        Err(failure) => return json_response(failure.code, &failure.status()),
    };
    let effect = server.calls.record(server.cluster.address, WorkloadCall::of(&request));
    if let Some(effect) = &effect
        && let Some(response) = faulty::before(effect, broken).await
    {
        return response;
    }
    let handled = authenticate(server, credential, &request).and_then(|()| match upgrade {
        Some(upgrade) => portforward::handle(server, &request, upgrade),
        None => handle(server, &request),
    });
    let response = handled.unwrap_or_else(|failure| json_response(failure.code, &failure.status()));
    match &effect {
        Some(effect) => faulty::after(effect, response, broken).await,
        None => response,
    }
}

/// Returns an error unless the user is known and may send the request.
fn authenticate(server: &ApiServer, credential: &Credential, request: &Request) -> Result<(), Failure> {
    let store = &server.cluster.store;
    let bearer = request.header("authorization").strip_prefix("Bearer ").map(str::trim);
    let user = match (bearer, credential) {
        (Some(bearer), _) => access::user_of_token(store, bearer).ok_or_else(Failure::unauthorized)?,
        (None, Credential::Certificate(user)) => user.clone(),
        (None, Credential::None | Credential::Invalid) if access::is_public(request) => return Ok(()),
        (None, Credential::None | Credential::Invalid) => return Err(Failure::unauthorized()),
    };
    access::authorize(store, &user, request)
}

async fn read(request: http::Request<Incoming>) -> Result<Request, Failure> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_LIMIT).collect().await;
    let body = body.map_err(|error| Failure::bad_request(format!("the body cannot be read: {error}")))?;
    Ok(Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: Request::parse_query(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        body: body.to_bytes(),
    })
}
