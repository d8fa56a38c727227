//! HTTP/1.1 over TLS with a client certificate, a connection for each request: nothing of one answer
//! can depend on another's connection.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Longest an answer may take; streams of cases end after a few seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A way to one server, as one user.
#[derive(Clone)]
pub struct Client {
    address: String,
    tls: TlsConnector,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or as much of a stream as was asked for.
    pub body: Vec<u8>,
}

impl Client {
    /// A client of `host:port` that trusts `ca` and shows a certificate; all are PEM files.
    ///
    /// # Errors
    /// When a file cannot be used.
    pub fn new(address: &str, ca: &Path, certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        // Another client of this process may have done so.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let read =
            |path: &Path| std::fs::read(path).with_context(|| format!("{} cannot be read", path.display()));
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(&read(ca)?) {
            roots.add(root?)?;
        }
        let chain = CertificateDer::pem_slice_iter(&read(certificate)?).collect::<Result<Vec<_>, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&read(key)?)?;
        let config =
            ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key)?;
        Ok(Self { address: address.to_owned(), tls: TlsConnector::from(Arc::new(config)) })
    }

    /// Sends one request. `lines`: the answer is a stream that is read so far, or to its end.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn send(&self, request: Request<Full<Bytes>>, lines: Option<usize>) -> anyhow::Result<Answer> {
        let line = format!("{} {}", request.method(), request.uri());
        tokio::time::timeout(PATIENCE, self.exchange(request, lines))
            .await
            .map_err(|_| anyhow!("no answer within {} s", PATIENCE.as_secs()))
            .and_then(|answer| answer)
            .with_context(|| format!("{line} at {}", self.address))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>, lines: Option<usize>) -> anyhow::Result<Answer> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let stream = self.tls.connect(name, stream).await?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driver = tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let (head, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            bytes.extend(frame?.into_data().unwrap_or_default());
            let seen = bytes.iter().filter(|byte| **byte == b'\n').count();
            if lines.is_some_and(|wanted| seen >= wanted) {
                break;
            }
        }
        driver.abort();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: bytes })
    }
}
