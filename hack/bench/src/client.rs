//! HTTP/2 over verified TLS with a client certificate, as client-go speaks it.

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

/// What client-go's HTTP/2 gives a stream before the server must wait for it.
const STREAM_WINDOW: u32 = 4 << 20;

/// The same for a whole connection.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Bytes taken from a socket at a time. By itself TLS asks for four KiB, and what a hundred watchers are told would be more
/// than a hundred system calls.
const READ_AT_A_TIME: usize = 64 << 10;

/// Which server, as whom.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
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

/// One connection. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    /// Connects.
    pub(crate) async fn connect(target: &Target) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&target.server).await?;
        stream.set_nodelay(true)?;
        let host = target.server.rsplit_once(':').map_or(target.server.as_str(), |(host, _)| host);
        let name = ServerName::try_from(host.to_owned())?;
        let stream = BufReader::with_capacity(READ_AT_A_TIME, stream);
        let tls = TlsConnector::from(Arc::new(configuration(target)?)).connect(name, stream).await?;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        let (sender, connection) = builder.handshake(TokioIo::new(tls)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Sends a request; the answer's body is still to come.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Response<Incoming>> {
        self.sender.ready().await?;
        Ok(self.sender.send_request(request).await?)
    }

    /// Sends a request and takes in the answer.
    pub(crate) async fn ask(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.send(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// The same; anything but success is an error with the server's words.
    pub(crate) async fn expect(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Bytes> {
        let line = format!("{} {}", request.method(), request.uri());
        let (status, body) = self.ask(request).await?;
        ensure!(status.is_success(), "{line}: {status} {}", String::from_utf8_lossy(&body));
        Ok(body)
    }
}

/// A request with a body of this type, or none.
pub(crate) fn request(
    target: &Target,
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

fn configuration(target: &Target) -> anyhow::Result<ClientConfig> {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    // As Go's clients do: a server that leaves the choice to its client is to take no other cipher than one that
    // chooses by itself, as kube-apiserver does.
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

/// The certificates in a file.
pub(crate) fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .with_context(|| format!("{}: no certificates", path.display()))
}
