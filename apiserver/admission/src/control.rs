//! Admission control of the server: the present snapshot, and the requests that it is for.

use std::sync::Arc;

use apiserver_machinery::admission_control::{
    AdmissionControl, AdmissionNotes, AdmissionRequest, AdmittedWrite, RequestAdmission,
};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::ObjectStore;
use arc_swap::ArcSwapOption;
use async_trait::async_trait;
use serde_json::Value;

use crate::one_request::OneRequest;
use crate::snapshot::Configurations;

/// Subresources that are parts of the object itself. All others are actions, which may write objects of other kinds.
const PARTS: [&str; 4] = ["", "status", "scale", "finalize"];

/// Identity of the server that keeps its leases. A webhook that is down must not end the leadership.
const ELECTION: &str = "system:capstan:leader-election";

/// Admission control of the server.
#[derive(Debug)]
pub struct Admission {
    store: Arc<ObjectStore>,
    /// `None` until all configurations have been read.
    configurations: ArcSwapOption<Configurations>,
}

impl Admission {
    /// Creates an admission control that has read no configurations: it refuses writes with 503 until it has.
    pub fn new(store: Arc<ObjectStore>) -> Self {
        Self { store, configurations: ArcSwapOption::empty() }
    }

    /// Replaces all configurations.
    pub fn set(&self, configurations: Configurations) {
        self.configurations.store(Some(Arc::new(configurations)));
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
        let Some(configurations) = self.configurations.load_full() else { return Some(Arc::new(NotRead)) };
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

/// Admission before the configurations have been read.
#[derive(Debug)]
struct NotRead;

impl NotRead {
    fn refusal() -> ApiError {
        ApiError::unavailable("the admission configurations have not been read yet; nothing was changed")
    }
}

#[async_trait]
impl RequestAdmission for NotRead {
    async fn mutate(&self, _: AdmittedWrite<'_>, _: Option<&Value>) -> ApiResult<Option<Value>> {
        Err(Self::refusal())
    }

    async fn validate(&self, _: AdmittedWrite<'_>, _: Option<&Value>) -> ApiResult<()> {
        Err(Self::refusal())
    }

    fn warn(&self, _: String) {}

    fn notes(&self) -> AdmissionNotes {
        AdmissionNotes::default()
    }
}
