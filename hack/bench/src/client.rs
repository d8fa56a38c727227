//! HTTP/2 client over verified TLS with a client certificate, like client-go.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use bytes::Bytes;
use clap::Args;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CipherSuite, ClientConfig, RootCertStore};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Flow-control window that client-go's HTTP/2 gives each stream.
const STREAM_WINDOW: u32 = 4 << 20;

/// Flow-control window that client-go's HTTP/2 gives a connection.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Size of one read from a socket, in bytes. By default TLS reads four KiB, and the events of a hundred
/// watches would take more than a hundred system calls.
const READ_SIZE: usize = 64 << 10;

/// Server to load, and the credentials of its user.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadTarget {
    /// `host:port` of the server
    #[arg(long)]
    pub(crate) server: String,
    /// The CA of its certificate, PEM
    #[arg(long)]
    pub(crate) ca: PathBuf,
    /// A client certificate, PEM
    #[arg(long)]
    pub(crate) cert: PathBuf,
    /// Its key, PEM
    #[arg(long)]
    pub(crate) key: PathBuf,
}

/// One connection, which its clones share.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects to the server.
    pub(crate) async fn connect(target: &LoadTarget) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&target.server).await?;
        stream.set_nodelay(true)?;
        let host = target.server.rsplit_once(':').map_or(target.server.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.to_owned())?;
        let stream = BufReader::with_capacity(READ_SIZE, stream);
        let tls = TlsConnector::from(Arc::new(configuration(target)?)).connect(name, stream).await?;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        let (sender, connection) = builder.handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Sends a request, and returns the response without reading its body.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request, and reads the response.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.send(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a request, and reads the response. A status other than success is an error with the response's
    /// body.
    pub(crate) async fn expect(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Bytes> {
        let line = format!("{} {}", request.method(), request.uri());
        let (status, body) = self.exchange(request).await?;
        ensure!(status.is_success(), "{line}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}

/// Builds a request with a body of this content type, or without a body.
pub(crate) fn request(
    target: &LoadTarget,
    method: Method,
    path: &str,
    content: Option<(&'static str, Bytes)>,
    accept: &'static str,
) -> anyhow::Result<Request<Full<Bytes>>> {
    let uri = format!("https://{}{path}", target.server);
    let request = Request::builder().method(method).uri(uri).header("accept", accept);
    Ok(match content {
        Some((content_type, body)) => request.header("content-type", content_type).body(Full::new(body)),
        None => request.body(Full::default()),
    }?)
}

fn configuration(target: &LoadTarget) -> anyhow::Result<ClientConfig> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    // The order of Go's clients. A server that leaves the choice of the cipher to the client must not use
    // another one than a server that chooses itself, such as kube-apiserver.
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&target.ca)? {
        roots.add(certificate)?;
    }
    let key = PrivateKeyDer::from_pem_file(&target.key)
        .with_context(|| format!("{}: no private key", target.key.display()))?;
    let mut configuration = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&target.cert)?, key)?;
    configuration.alpn_protocols = vec![b"h2".to_vec()];
    Ok(configuration)
}

/// Reads the certificates of a file.
pub(crate) fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .with_context(|| format!("{}: no certificates", path.display()))
}
