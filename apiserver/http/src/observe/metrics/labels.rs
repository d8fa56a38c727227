//! Metric labels of series. Text that a client can choose is never a label, because series are kept for ever.

use prometheus_client::encoding::EncodeLabelSet;

use super::request_labels::{COMPONENT, RequestLabels, SeriesKey};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CodeLabels {
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
    code: u32,
}

impl CodeLabels {
    pub(super) fn new(request: &RequestLabels, code: u16) -> Self {
        let RequestLabels { verb, dry_run, group, version, resource, subresource, scope, component } =
            request.clone();
        Self { verb, dry_run, group, version, resource, subresource, scope, component, code: u32::from(code) }
    }

    /// Creates the labels of a request that was refused by flow control. All paths without a resource are one, as in
    /// upstream.
    pub(super) fn dropped(request: &SeriesKey, code: u16) -> Self {
        let is_path = request.labels.resource.is_empty();
        let subresource = if is_path { String::new() } else { request.labels.subresource.clone() };
        let labels = Self::new(&request.labels, code);
        Self { verb: request.initial_verb, subresource, component: COMPONENT, ..labels }
    }
}

/// Target of a request, whatever its result.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ScopeLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
}

impl ScopeLabels {
    pub(super) fn new(request: &RequestLabels) -> Self {
        let RequestLabels { verb, group, version, resource, subresource, scope, component, .. } =
            request.clone();
        Self { verb, group, version, resource, subresource, scope, component }
    }

    /// Creates the labels of a request that has no response yet.
    pub(super) fn initial_verb(request: &SeriesKey) -> Self {
        Self { verb: request.initial_verb, ..Self::new(&request.labels) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DeprecatedLabels {
    group: String,
    version: String,
    resource: String,
    subresource: String,
    /// Release of Kubernetes that removes the version: none is planned for ours.
    removed_release: &'static str,
}

impl DeprecatedLabels {
    pub(super) fn new(request: &RequestLabels) -> Self {
        let RequestLabels { group, version, resource, subresource, .. } = request.clone();
        Self { group, version, resource, subresource, removed_release: "" }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct TerminationLabels {
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    component: &'static str,
    code: u32,
}

impl TerminationLabels {
    pub(super) fn new(request: &SeriesKey, code: u16) -> Self {
        let ScopeLabels { verb, group, version, resource, mut subresource, scope, component: _ } =
            ScopeLabels::initial_verb(request);
        // This metric has the path itself.
        if resource.is_empty() && !subresource.is_empty() && !subresource.starts_with('/') {
            subresource.insert(0, '/');
        }
        let (component, code) = (COMPONENT, u32::from(code));
        Self { verb, group, version, resource, subresource, scope, component, code }
    }
}

/// Labels of a request body.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct BodyLabels {
    group: String,
    resource: String,
    verb: &'static str,
}

impl BodyLabels {
    pub(super) fn new(request: &RequestLabels, verb: &'static str) -> Self {
        let RequestLabels { group, resource, .. } = request.clone();
        Self { group, resource, verb }
    }
}

/// Labels of watch events.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WatchedLabels {
    group: String,
    version: String,
    resource: String,
}

impl WatchedLabels {
    pub(super) fn new(request: &RequestLabels) -> Self {
        let RequestLabels { group, version, resource, .. } = request.clone();
        Self { group, version, resource }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct KindLabels {
    pub(super) group: String,
    pub(super) resource: String,
}

impl KindLabels {
    /// Splits a qualified plural such as `machines.cluster.x-k8s.io`.
    pub(super) fn of(qualified: &str) -> Self {
        let (resource, group) = qualified.split_once('.').unwrap_or((qualified, ""));
        Self { group: group.to_owned(), resource: resource.to_owned() }
    }
}

/// Part of the memory that the watch cache needs for a kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct CachePartLabels {
    group: String,
    resource: String,
    part: &'static str,
}

impl CachePartLabels {
    pub(super) fn new(kind: &KindLabels, part: &'static str) -> Self {
        let KindLabels { group, resource } = kind.clone();
        Self { group, resource, part }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResourceLabels {
    pub(super) resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RequestKindLabels {
    pub(super) request_kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct PluginLabels {
    pub(super) plugin: &'static str,
}

/// Name of the only flow schema: every user is a flow.
const FLOWS: &str = "users";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct LevelLabels {
    priority_level: &'static str,
    flow_schema: &'static str,
}

impl LevelLabels {
    pub(super) fn new(priority_level: &'static str) -> Self {
        Self { priority_level, flow_schema: FLOWS }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct WaitLabels {
    priority_level: &'static str,
    flow_schema: &'static str,
    /// `true` if the request was executed after its wait.
    execute: &'static str,
}

impl WaitLabels {
    pub(super) fn new(priority_level: &'static str) -> Self {
        Self { priority_level, flow_schema: FLOWS, execute: "true" }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RefusalLabels {
    priority_level: &'static str,
    flow_schema: &'static str,
    reason: &'static str,
}

impl RefusalLabels {
    pub(super) fn new(priority_level: &'static str, reason: &'static str) -> Self {
        Self { priority_level, flow_schema: FLOWS, reason }
    }
}
