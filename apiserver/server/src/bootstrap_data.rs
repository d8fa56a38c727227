//! Listener from which machines fetch their bootstrap data. It has an address of its own, so machines need no route to
//! the API.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver_access::InFlight;
use apiserver_http::HandshakeBudget;
use bytes::Bytes;
use controllers_reconcilers::bootstrap_data::{Delivery, IDENTITY, deliver};
use controllers_runtime::{ControllerContext, UserDataSource};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, Patch, PatchParams};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::authorities::{Known, Purpose};
use crate::config::ServerConfiguration;
use crate::pki::{self, Authority};

/// Time limit of a connection: a document is sent in less than a second.
const LIMIT: Duration = Duration::from_secs(30);

/// Maximum number of connections that are served at once. A machine has one, for a moment.
const CONNECTIONS: usize = 256;

/// Maximum number of them from one address: a router can hide the machines of many clusters behind its address, and must
/// leave room for others.
const OF_ONE_ADDRESS: usize = 64;

/// Maximum number of connections that wait, for two seconds at most. Others are closed, and the machines try again.
const WAITING: usize = 256;

/// Pause after a failure to listen, to accept or to publish the address.
const PAUSE: Duration = Duration::from_secs(5);

/// Listener with its certificate.
pub(crate) struct BootstrapDataListener {
    listen: SocketAddr,
    url: String,
    ca: String,
    tls: Arc<rustls::ServerConfig>,
}

impl BootstrapDataListener {
    /// Reads the settings; `None` if there are none.
    pub(crate) fn open(
        configuration: &ServerConfiguration,
        data: &Path,
        authorities: &Known,
    ) -> anyhow::Result<Option<Self>> {
        let Some(settings) = &configuration.bootstrap_data else { return Ok(None) };
        let (certificate, key, ca) = match (&settings.cert_file, &settings.key_file, &settings.ca_file) {
            (Some(certificate), Some(key), Some(ca)) => {
                (pki::read(certificate)?, pki::read(key)?, pki::read(ca)?)
            }
            _ => {
                let authority = match &authorities.authorities {
                    Some(found) => found.signer(Purpose::Serving, data)?,
                    // Machines do not trust the temporary one. They try again, and the next start has another.
                    None => Authority::read(data).or_else(|_| Authority::temporary(data))?,
                };
                let pair = authority.for_host(settings.host()?)?;
                (pair.certificate, pair.key, authority.certificate().to_owned())
            }
        };
        let chain = pki::certificates(&certificate, "bootstrapData.certFile")?;
        let key = pki::key(&key, "bootstrapData.keyFile")?;
        let tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        let tls = Arc::new(tls.context("bootstrapData: the certificate cannot be used")?);
        Ok(Some(Self { listen: settings.address()?, url: settings.url.clone(), ca, tls }))
    }

    /// Publishes the address, and serves until `end`.
    pub(crate) async fn run(self: Arc<Self>, context: ControllerContext, end: CancellationToken) {
        tokio::select! {
            () = end.cancelled() => {}
            () = self.serve(context) => {}
        }
    }

    async fn serve(&self, context: ControllerContext) {
        while let Err(error) = self.publish(&context).await {
            tracing::warn!(%error, "the address for bootstrap data is not published; retrying");
            tokio::time::sleep(PAUSE).await;
        }
        let listener = self.bind().await;
        tracing::info!(listen = %self.listen, url = self.url, "serving bootstrap data");
        let in_flight = Arc::new(InFlight::new(CONNECTIONS, OF_ONE_ADDRESS, WAITING));
        let (mut connections, mut budget) = (JoinSet::new(), HandshakeBudget::default());
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, from)) if budget.admits(from.ip(), Instant::now()) => {
                    let acceptor = TlsAcceptor::from(Arc::clone(&self.tls));
                    let serving = Box::pin(connection(context.clone(), acceptor, stream, from.ip()));
                    connections.spawn(bounded(Arc::clone(&in_flight), from.ip(), serving));
                }
                Ok((_, address)) => {
                    tracing::debug!(%address, "connection closed: its address has opened too many");
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a machine's connection; retrying");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn bind(&self) -> TcpListener {
        loop {
            match TcpListener::bind(self.listen).await {
                Ok(listener) => break listener,
                Err(error) => {
                    tracing::warn!(%error, listen = %self.listen, "cannot listen for machines; retrying");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Writes the address where the controllers of all replicas find it.
    async fn publish(&self, context: &ControllerContext) -> Result<(), kube::Error> {
        let values = [(UserDataSource::URL, &self.url), (UserDataSource::CA, &self.ca)];
        let address = ConfigMap {
            metadata: ObjectMeta {
                name: Some(UserDataSource::NAME.to_owned()),
                namespace: Some(UserDataSource::NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(values.map(|(key, value)| (key.to_owned(), value.clone())).into()),
            ..ConfigMap::default()
        };
        let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), UserDataSource::NAMESPACE);
        let params = PatchParams::apply(IDENTITY).force();
        api.patch(UserDataSource::NAME, &params, &Patch::Apply(&address)).await.map(drop)
    }
}

/// Serves a connection as soon as there is room for it. Closes it if there is none, and at the time limit.
async fn bounded(in_flight: Arc<InFlight>, from: IpAddr, serving: impl Future<Output = ()>) {
    let source = InFlight::source(Some(from));
    let Ok(_permit) = in_flight.enter(&source).await else {
        tracing::debug!(%from, "connection closed: too many are open");
        return;
    };
    let _ = tokio::time::timeout(LIMIT, serving).await;
}

async fn connection(context: ControllerContext, acceptor: TlsAcceptor, stream: TcpStream, from: IpAddr) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| {
        let context = context.clone();
        async move { respond(&context, &request, from).await }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).keep_alive(false);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a machine's connection ended");
    }
}

/// Responds to a request. After an error the connection is closed without a response, and the machine tries again.
async fn respond(
    context: &ControllerContext,
    request: &Request<Incoming>,
    from: IpAddr,
) -> Result<Response<Full<Bytes>>, kube::Error> {
    let response = |status, body: Vec<u8>| {
        let mut response = Response::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response
    };
    if *request.method() != Method::GET {
        return Ok(response(StatusCode::METHOD_NOT_ALLOWED, Vec::new()));
    }
    let delivery = deliver(context, request.uri().path(), from).await;
    Ok(match delivery.inspect_err(|error| tracing::warn!(%error, "bootstrap data not delivered"))? {
        Delivery::Document(document) => response(StatusCode::OK, document),
        Delivery::Unknown => response(StatusCode::NOT_FOUND, b"unknown\n".to_vec()),
        Delivery::Fetched => response(StatusCode::GONE, b"fetched before\n".to_vec()),
    })
}
