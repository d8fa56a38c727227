//! Test callers: clients with or without a certificate, and with headers that they add to every request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// Name of the server, in its certificate and in requests.
pub(crate) const NAME: &str = "capstan.example";

/// Longest wait for the rest of a response: a watch has no end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Version of HTTP that a caller speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// Response, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// A client.
pub(crate) struct Caller {
    port: u16,
    tls: Arc<rustls::ClientConfig>,
    protocol: Protocol,
    headers: Vec<(&'static str, String)>,
    connection: Mutex<Option<Connection>>,
    connections: AtomicU64,
}

impl Caller {
    pub(crate) fn new(port: u16, tls: &rustls::ClientConfig, protocol: Protocol) -> Self {
        let mut tls = tls.clone();
        let alpn: &[u8] = if protocol == Protocol::Http2 { b"h2" } else { b"http/1.1" };
        tls.alpn_protocols = vec![alpn.to_vec()];
        Self {
            port,
            tls: Arc::new(tls),
            protocol,
            headers: Vec::new(),
            connection: Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }

    /// Adds a header to all requests.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Returns the number of connections that the caller has opened.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], String::new()).await
    }

    /// Sends a request; a second time, if the server has closed the connection since the last one.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let body = body.into();
        let mut connection = self.connection.lock().await;
        for _ in 0..2 {
            let open = match connection.take() {
                Some(open) => open,
                None => self.connect().await,
            };
            if let Some((answer, open)) =
                exchange(open, self.request(method, path, headers, body.clone())).await
            {
                *connection = open;
                return answer;
            }
        }
        panic!("{method} {path}: the server closed the connection twice");
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::builder().method(method);
        request = match self.protocol {
            Protocol::Http1 => request.uri(path).header("host", NAME),
            Protocol::Http2 => request.uri(format!("https://{NAME}{path}")),
        };
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body)).unwrap()
    }

    async fn connect(&self) -> Connection {
        self.connections.fetch_add(1, Ordering::Relaxed);
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        // A request of two packets would wait 40 ms for the acknowledgement of the first.
        stream.set_nodelay(true).unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::clone(&self.tls));
        let stream = connector.connect(ServerName::try_from(NAME).unwrap(), stream).await.unwrap();
        let stream = TokioIo::new(stream);
        match self.protocol {
            Protocol::Http1 => {
                let (sender, serving) = http1::handshake(stream).await.unwrap();
                tokio::spawn(serving.with_upgrades());
                Connection::Http1(sender)
            }
            Protocol::Http2 => {
                let (sender, serving) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
                tokio::spawn(serving);
                Connection::Http2(sender)
            }
        }
    }
}

/// Sends one request and reads the response; `None` if the connection was closed. The connection is dropped after a
/// response that has no end.
async fn exchange(
    mut connection: Connection,
    request: Request<Full<Bytes>>,
) -> Option<(Answer, Option<Connection>)> {
    let response = match &mut connection {
        Connection::Http1(sender) => {
            sender.ready().await.ok()?;
            sender.send_request(request).await.ok()?
        }
        Connection::Http2(sender) => {
            sender.ready().await.ok()?;
            sender.send_request(request).await.ok()?
        }
    };
    let (head, body) = response.into_parts();
    let code = head.status.as_u16();
    if code == 101 {
        return Some((Answer { code, body: Bytes::new() }, None));
    }
    match tokio::time::timeout(PATIENCE, body.collect()).await {
        Ok(Ok(body)) => Some((Answer { code, body: body.to_bytes() }, Some(connection))),
        Ok(Err(_)) | Err(_) => Some((Answer { code, body: Bytes::new() }, None)),
    }
}
