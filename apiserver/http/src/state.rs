//! State of the API server: its parts and what it keeps between requests. `chain` serves requests with it.

use std::sync::Arc;

use apiserver_access::{Authenticator, Authorizer};
use apiserver_executor::Supervisor;
use apiserver_machinery::resource::Registry;
use apiserver_machinery::store::ObjectStore;

use crate::documents::{Documents, Identity};
use crate::flow_control::FlowControl;
use crate::lifecycle::Lifecycle;
use crate::observe::Telemetry;
use crate::observe::metrics::Metrics;
use crate::observe::storage_health::StorageHealth;
use crate::settings::Settings;

/// Readiness check beyond those of the server itself.
#[derive(Clone)]
pub struct Check {
    /// Name of the check in the path and the response.
    pub name: &'static str,
    /// Reports whether it passes. Called for every health request, so it must not block.
    pub is_well: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Parts that a server is made of.
#[derive(Debug)]
pub struct Parts {
    /// Object store.
    pub objects: Arc<ObjectStore>,
    /// Authenticator of all requests.
    pub authenticator: Arc<Authenticator>,
    /// Authorizer of requests on the direct endpoint.
    pub authorizer: Arc<dyn Authorizer>,
    /// Authorizer of requests through the host's front proxy. The front proxy authenticates the user; it does not
    /// authorize the request.
    pub hosted_authorizer: Arc<dyn Authorizer>,
    /// Identity, as documents publish it.
    pub identity: Identity,
    /// Readiness checks beyond the server's own.
    pub checks: Vec<Check>,
    /// Supervisor of the process's tasks. Its token is cancelled when the server begins to shut down.
    pub supervisor: Supervisor,
}

/// API server.
#[derive(Debug)]
pub struct ApiServer {
    pub(crate) parts: Parts,
    pub(crate) settings: Settings,
    pub(crate) documents: Documents,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) flow_control: FlowControl,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) storage: Arc<StorageHealth>,
}

impl ApiServer {
    /// Creates a server with default settings. Discovery is computed here, once, and OpenAPI when it is first
    /// requested.
    pub fn new(parts: Parts) -> Self {
        Self::with_settings(parts, Settings::default())
    }

    /// Creates a server with `settings`, and starts to probe storage.
    pub fn with_settings(parts: Parts, mut settings: Settings) -> Self {
        let documents = Documents::new(parts.objects.registry(), &parts.identity);
        let storage = Arc::new(StorageHealth::new());
        // It ends with the objects, when there is nothing left to serve.
        let probing = Arc::clone(&storage).probe_all(Arc::downgrade(&parts.objects));
        parts.supervisor.spawn_finite("storage health", probing);
        let metrics = Metrics::new(std::mem::take(&mut settings.metrics));
        let shutdown = parts.supervisor.shutdown().clone();
        Self {
            documents,
            telemetry: Arc::new(Telemetry { metrics, audit: settings.audit.take() }),
            flow_control: settings.flow_control(),
            lifecycle: Lifecycle::new(shutdown, settings.force.clone(), settings.watch_grace),
            storage,
            parts,
            settings,
        }
    }

    /// Returns the objects that it serves.
    pub fn objects(&self) -> &Arc<ObjectStore> {
        &self.parts.objects
    }

    /// Returns the kinds that it serves.
    pub fn registry(&self) -> &Arc<Registry> {
        self.parts.objects.registry()
    }

    /// Starts to close each connection of HTTP/1.1 with its next response.
    pub fn start_draining(&self) {
        self.lifecycle.start_draining();
    }

    /// Refuses new requests from now on and ends watches. Requests in flight are finished.
    pub fn stop_accepting(&self) {
        self.lifecycle.stop_accepting();
    }
}
