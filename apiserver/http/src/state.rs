//! The API server: what it is made of, and the one door every request comes in by.

use std::sync::Arc;

use apiserver_access::{Authenticator, Authorizer};
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::ObjectStore;
use bytes::Bytes;
use http::Request;
use http_body::Body;
use tokio_util::sync::CancellationToken;

use crate::chain;
use crate::connection::Connection;
use crate::documents::Documents;
use crate::flow_control::FlowControl;
use crate::handlers::health::Check;
use crate::lifecycle::Lifecycle;
use crate::observe::metrics::Metrics;
use crate::observe::storage_health::StorageHealth;
use crate::response::Answer;
use crate::settings::Settings;

/// What the server says of itself at `/version`.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The Kubernetes version whose API behaviour this is, e.g. `v1.36.0+capstan-0.1.0`.
    pub git_version: String,
    /// `host:port` where clients of the direct face reach it.
    pub address: String,
}

/// What a server is made of.
#[derive(Debug)]
pub struct Parts {
    /// The objects.
    pub objects: Arc<ObjectStore>,
    /// Who.
    pub authenticator: Arc<Authenticator>,
    /// May they, when they come to us directly.
    pub authorizer: Arc<dyn Authorizer>,
    /// May they, when they come through a host's front proxy. The host vouches for who they are,
    /// not for what they may do.
    pub hosted_authorizer: Arc<dyn Authorizer>,
    /// What it says of itself.
    pub identity: Identity,
    /// Checks beyond the server's own.
    pub checks: Vec<Check>,
    /// Cancelled when the server begins to stop.
    pub shutdown: CancellationToken,
}

/// The server.
#[derive(Debug)]
pub struct ApiServer {
    pub(crate) parts: Parts,
    pub(crate) settings: Settings,
    pub(crate) documents: Documents,
    pub(crate) metrics: Metrics,
    pub(crate) flow_control: FlowControl,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) storage: Arc<StorageHealth>,
}

impl ApiServer {
    /// A server of these parts, with nothing set. Discovery is computed here, once, and OpenAPI when it is first
    /// asked for.
    pub fn new(parts: Parts) -> Self {
        Self::with_settings(parts, Settings::default())
    }

    /// The same, with settings. From here on storage is asked whether it is well.
    pub fn with_settings(parts: Parts, mut settings: Settings) -> Self {
        let documents = Documents::new(parts.objects.registry(), &parts.identity);
        let storage = Arc::new(StorageHealth::new());
        tokio::spawn(Arc::clone(&storage).follow(Arc::downgrade(&parts.objects)));
        Self {
            documents,
            metrics: Metrics::new(std::mem::take(&mut settings.metrics)),
            flow_control: FlowControl::new(settings.reads_at_once, settings.writes_at_once),
            lifecycle: Lifecycle::new(parts.shutdown.clone(), settings.force.clone(), settings.watch_grace),
            storage,
            parts,
            settings,
        }
    }

    /// The kinds it serves.
    pub fn registry(&self) -> &Registry {
        self.parts.objects.registry()
    }

    /// From now on a connection of HTTP/1.1 ends with the next answer on it.
    pub fn start_draining(&self) {
        self.lifecycle.start_draining();
    }

    /// From now on nothing new is begun, and watches end; what runs is finished.
    pub fn stop_accepting(&self) {
        self.lifecycle.stop_accepting();
    }

    /// Serves one request.
    pub async fn handle<B>(self: &Arc<Self>, request: Request<B>, connection: &Connection) -> Answer
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        chain::run(self, request, connection).await
    }
}
