//! Admission control of the server: the present snapshot, and the requests that it is for.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver_machinery::admission_control::{
    AdmissionControl, AdmissionNotes, AdmissionRequest, AdmittedWrite, RequestAdmission,
};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::ObjectStore;
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::one_request::OneRequest;
use crate::snapshot::Configurations;

/// Subresources that are parts of the object itself. All others are actions, which may write objects of other kinds.
const PARTS: [&str; 4] = ["", "status", "scale", "finalize"];

/// Identity of the server that keeps its leases. A webhook that is down must not end the leadership.
const ELECTION: &str = "system:capstan:leader-election";

/// Longest wait of a write for the configurations. They are read within milliseconds after the start.
const PATIENCE: Duration = Duration::from_secs(5);

/// Interval between two looks for them.
const LOOK: Duration = Duration::from_millis(5);

/// Admission control of the server.
#[derive(Debug)]
pub struct Admission {
    store: Arc<ObjectStore>,
    /// `None` until all configurations have been read.
    configurations: Arc<ArcSwapOption<Configurations>>,
}

impl Admission {
    /// Creates an admission control that has read no configurations: writes wait until it has, and get 503 after five
    /// seconds.
    pub fn new(store: Arc<ObjectStore>) -> Self {
        Self { store, configurations: Arc::default() }
    }

    /// Replaces all configurations.
    pub fn set(&self, configurations: Configurations) {
        let configurations = Arc::new(configurations);
        let before = self.configurations.swap(Some(Arc::clone(&configurations)));
        configurations.log_uncompiled(before.as_deref());
    }

    /// Returns true once all configurations have been read.
    pub fn is_read(&self) -> bool {
        self.configurations.load().is_some()
    }
}

impl AdmissionControl for Admission {
    fn admission(&self, request: AdmissionRequest) -> Option<Arc<dyn RequestAdmission>> {
        if is_exempt(&request) {
            return None;
        }
        let Some(configurations) = self.configurations.load_full() else {
            let (store, configurations) = (Arc::clone(&self.store), Arc::clone(&self.configurations));
            let (request, ready) = (Mutex::new(Some(request)), OnceCell::new());
            return Some(Arc::new(Early { store, configurations, request, ready }));
        };
        let is_action = !PARTS.contains(&request.subresource.as_str());
        let is_spared = if is_action {
            configurations.is_empty()
        } else {
            configurations.spares(&request.group, &request.resource)
        };
        if is_spared {
            return None;
        }
        Some(Arc::new(OneRequest::new(Arc::clone(&self.store), configurations, request)))
    }
}

/// Returns true for requests that no configuration may see.
fn is_exempt(request: &AdmissionRequest) -> bool {
    let is_own_note = matches!(
        (request.group.as_str(), request.resource.as_str()),
        ("coordination.k8s.io", "leases") | ("" | "events.k8s.io", "events")
    );
    let is_internal = request.requester.is_internal;
    request.group == crate::GROUP || is_internal && (is_own_note || request.requester.username == ELECTION)
}

/// Admission of a request that came before the configurations were read. It waits for them.
struct Early {
    store: Arc<ObjectStore>,
    configurations: Arc<ArcSwapOption<Configurations>>,
    request: Mutex<Option<AdmissionRequest>>,
    ready: OnceCell<OneRequest>,
}

impl std::fmt::Debug for Early {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Early").finish_non_exhaustive()
    }
}

impl Early {
    /// Waits until the configurations are read.
    ///
    /// # Errors
    /// 503 if that takes too long.
    async fn ready(&self) -> ApiResult<&OneRequest> {
        let unread = || {
            ApiError::unavailable("the admission configurations have not been read yet; nothing was changed")
        };
        let reading = self.ready.get_or_try_init(|| async {
            loop {
                if let Some(configurations) = self.configurations.load_full() {
                    let request = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
                    let request = request.ok_or_else(unread)?;
                    return Ok(OneRequest::new(Arc::clone(&self.store), configurations, request));
                }
                tokio::time::sleep(LOOK).await;
            }
        });
        tokio::time::timeout(PATIENCE, reading).await.map_err(|_| unread())?
    }
}

#[async_trait]
impl RequestAdmission for Early {
    async fn mutate(&self, write: AdmittedWrite<'_>, object: Option<&Value>) -> ApiResult<Option<Value>> {
        self.ready().await?.mutate(write, object).await
    }

    async fn validate(&self, write: AdmittedWrite<'_>, object: Option<&Value>) -> ApiResult<()> {
        self.ready().await?.validate(write, object).await
    }

    async fn bypassed(&self, what: &str, name: &str, why: &str, place: &str) -> bool {
        match self.ready().await {
            Ok(ready) => ready.bypassed(what, name, why, place).await,
            Err(_) => false,
        }
    }

    fn warn(&self, warning: String) {
        if let Some(ready) = self.ready.get() {
            ready.warn(warning);
        }
    }

    fn notes(&self) -> AdmissionNotes {
        self.ready.get().map(RequestAdmission::notes).unwrap_or_default()
    }
}
