//! Read limit: a server that returns bytes from memory, through the same TLS and HTTP libraries as Capstan.
//!
//! It shows the cost of the connection, and the rate that this load generator can receive. The rate of a
//! measured server must stay well below it.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::client::certificates;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Address and port to listen on
    #[arg(long)]
    listen: String,
    /// The serving certificate, PEM
    #[arg(long)]
    cert: PathBuf,
    /// Its key, PEM
    #[arg(long)]
    key: PathBuf,
    /// Bytes of a response, unless the path contains `bytes-N`
    #[arg(long, default_value_t = 1550)]
    size: usize,
}

/// Serves until the process is killed.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let key = PrivateKeyDer::from_pem_file(&arguments.key)
        .with_context(|| format!("{}: no private key", arguments.key.display()))?;
    let mut configuration = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(certificates(&arguments.cert)?, key)?;
    configuration.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(configuration));
    let listener = TcpListener::bind(&arguments.listen).await?;
    let largest = Arc::new(std::sync::Mutex::new(body(arguments.size)));
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(acceptor.clone(), stream, largest.clone(), arguments.size));
    }
}

type SharedBody = Arc<std::sync::Mutex<Bytes>>;

async fn serve(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    largest: SharedBody,
    size: usize,
) -> Result<(), std::io::Error> {
    stream.set_nodelay(true)?;
    let stream = acceptor.accept(stream).await?;
    let service = service_fn(move |request| respond(request, largest.clone(), size));
    let builder = Builder::new(TokioExecutor::new());
    builder.serve_connection(TokioIo::new(stream), service).await.map_err(std::io::Error::other)
}

async fn respond(
    request: Request<Incoming>,
    largest: SharedBody,
    size: usize,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let requested = request
        .uri()
        .path()
        .split('/')
        .find_map(|segment| segment.strip_prefix("bytes-")?.parse().ok())
        .unwrap_or(size);
    // The request body is read, as by a real server.
    let _ = request.into_body().collect().await;
    let bytes = {
        let mut largest = largest.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if largest.len() < requested {
            *largest = body(requested);
        }
        largest.slice(..requested)
    };
    Ok(Response::new(Full::new(bytes)))
}

/// Returns a body that begins like an object, for clients that look for its revision.
fn body(size: usize) -> Bytes {
    let mut bytes = br#"{"metadata":{"resourceVersion":"1"},"spec":""#.to_vec();
    bytes.resize(size.max(bytes.len()), b'x');
    Bytes::from(bytes)
}
