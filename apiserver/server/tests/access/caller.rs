//! Caller: sends requests of one identity, one after the other, and returns the meaning of the responses.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::routes::Probe;

/// Number of times that a request is sent: the server may have closed the connection after the last response.
const TRIES: usize = 3;

/// Longest wait for the head of a response. hyper's client of HTTP/2 never answers a request that it takes while the
/// server closes the connection, about once in ten thousand; the request is sent again then.
const PATIENCE: Duration = Duration::from_secs(20);

/// Meaning of a response for the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// There is no such route, or no such method of it.
    Absent,
    /// The request was admitted. Its object may be missing or invalid.
    Served,
    /// The server could not answer.
    Failed,
}

impl Verdict {
    fn of(code: u16, body: &[u8]) -> Self {
        match code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            405 => Self::Absent,
            404 if !names_an_object(body) => Self::Absent,
            429 | 500.. => Self::Failed,
            _ => Self::Served,
        }
    }
}

/// Returns true if a `Status` is about an object, and not about a route.
fn names_an_object(body: &[u8]) -> bool {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    status.pointer("/details/name").and_then(Value::as_str).is_some_and(|name| !name.is_empty())
}

enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Sends a request; `None` if the server has closed the connection.
    async fn send(&mut self, request: Request<Full<Bytes>>) -> Option<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await.ok()
            }
            Self::Http2(sender) => {
                sender.ready().await.ok()?;
                sender.send_request(request).await.ok()
            }
        }
    }
}

/// Client with the credentials of one identity.
#[derive(Clone)]
pub(crate) struct Caller {
    port: u16,
    tls: Arc<rustls::ClientConfig>,
    headers: Vec<(&'static str, String)>,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl Caller {
    /// Creates a caller. It speaks HTTP/2, and HTTP/1.1 after [`Caller::over_http1`].
    pub(crate) fn new(port: u16, tls: rustls::ClientConfig) -> Self {
        let mut tls = tls;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Self { port, tls: Arc::new(tls), headers: Vec::new(), connection: Arc::default() }
    }

    /// Returns the port of the server.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Speaks HTTP/1.1. On HTTP/2 the server closes each connection without credentials after one response.
    pub(crate) fn over_http1(mut self) -> Self {
        let mut tls = (*self.tls).clone();
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        self.tls = Arc::new(tls);
        self
    }

    /// Adds a header to all requests.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends a request. Returns the meaning and the code of the response.
    pub(crate) async fn verdict(&self, probe: &Probe) -> (Verdict, u16) {
        let form = if probe.verb == "apply" { "application/apply-patch+yaml" } else { probe.content_type() };
        let is_watch = probe.verb == "watch";
        let (code, body) = self.exchange(probe.method, &probe.path, form, &probe.body, is_watch).await;
        (Verdict::of(code, &body), code)
    }

    /// Sends a request with a body in JSON. Returns the code and the body of the response.
    pub(crate) async fn json(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (code, body) = self.exchange(method, path, "application/json", &body.to_string(), false).await;
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Reads a document that is no JSON.
    pub(crate) async fn text(&self, path: &str) -> String {
        let (code, body) = self.exchange("GET", path, "application/json", "", false).await;
        assert_eq!(code, 200, "{path}");
        String::from_utf8_lossy(&body).into_owned()
    }

    async fn exchange(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &str,
        is_endless: bool,
    ) -> (u16, Bytes) {
        let mut connection = self.connection.lock().await;
        for _ in 0..TRIES {
            let mut open = match connection.take() {
                Some(open) => open,
                None => match self.connect().await {
                    Some(open) => open,
                    None => continue,
                },
            };
            let mut request = Request::builder().method(method).header("content-type", content_type);
            request = match open {
                Connection::Http1(_) => request.uri(path).header("host", "127.0.0.1"),
                Connection::Http2(_) => request.uri(format!("https://127.0.0.1{path}")),
            };
            for (name, value) in &self.headers {
                request = request.header(*name, value);
            }
            let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
            let Ok(Some(response)) = tokio::time::timeout(PATIENCE, open.send(request)).await else {
                continue;
            };
            let code = response.status().as_u16();
            let body = match is_endless && code == 200 {
                true => Bytes::new(),
                false => response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
            };
            *connection = Some(open);
            return (code, body);
        }
        panic!("{method} {path}: the server gives no response");
    }

    async fn connect(&self) -> Option<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        let stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.ok()?;
        let stream = TokioIo::new(stream);
        if self.tls.alpn_protocols[0] == b"h2" {
            let (sender, serving) = http2::handshake(TokioExecutor::new(), stream).await.ok()?;
            tokio::spawn(serving);
            Some(Connection::Http2(sender))
        } else {
            let (sender, serving) = http1::handshake(stream).await.ok()?;
            tokio::spawn(serving);
            Some(Connection::Http1(sender))
        }
    }
}
