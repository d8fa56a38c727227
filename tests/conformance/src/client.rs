//! HTTP/1.1 client over TLS with a client certificate. It opens a connection for each request, so that no
//! response depends on the connection of another one.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

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

/// Longest wait for a response; the streams of the cases end after a few seconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Client of one server, as one user.
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

/// Response of a server.
#[derive(Debug, Clone)]
pub struct ReceivedResponse {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, or the requested number of lines of a stream.
    pub body: Vec<u8>,
}

impl Client {
    /// Creates a client of `host:port` that trusts `ca` and presents a certificate; all are PEM files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be used.
    pub fn new(address: &str, ca: &Path, certificate: &Path, key: &Path) -> anyhow::Result<Self> {
        // Another client of this process may have installed the provider already.
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

    /// Sends one request. With `lines`, the response is a stream that is read up to that number of lines, or
    /// to its end.
    ///
    /// # Errors
    /// Returns an error if there is no response.
    pub async fn send(
        &self,
        request: Request<Full<Bytes>>,
        lines: Option<usize>,
    ) -> anyhow::Result<ReceivedResponse> {
        let line = format!("{} {}", request.method(), request.uri());
        tokio::time::timeout(RESPONSE_TIMEOUT, self.send_once(request, lines))
            .await
            .map_err(|_| anyhow!("no response within {} s", RESPONSE_TIMEOUT.as_secs()))
            .and_then(|response| response)
            .with_context(|| format!("{line} at {}", self.address))
    }

    async fn send_once(
        &self,
        request: Request<Full<Bytes>>,
        lines: Option<usize>,
    ) -> anyhow::Result<ReceivedResponse> {
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
            let read = bytes.iter().filter(|byte| **byte == b'\n').count();
            if lines.is_some_and(|limit| read >= limit) {
                break;
            }
        }
        driver.abort();
        Ok(ReceivedResponse { status: head.status.as_u16(), headers: head.headers, body: bytes })
    }
}
