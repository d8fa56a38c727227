//! What series are told apart by. Whatever a client can make up is no label: series stay for ever.

use apiserver_machinery::reviews;
use prometheus_client::encoding::EncodeLabelSet;

use crate::query::Query;
use crate::request_info::{RequestInfo, ResourcePath};
use crate::server::ApiServer;

/// Who answers, in upstream's words.
const COMPONENT: &str = "apiserver";

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct RequestLabels {
    pub(crate) verb: &'static str,
    pub(crate) dry_run: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
    pub(crate) component: &'static str,
}

impl RequestLabels {
    /// The labels of a request; `apply`: its patch is an apply.
    pub(crate) fn new(server: &ApiServer, info: &RequestInfo, query: &Query, apply: bool) -> Self {
        let Some(path) = info.resource() else {
            let (verb, subresource) = (verb(info.verb, apply), known_path(&info.path).to_owned());
            return Self { verb, subresource, ..Self::default() };
        };
        let path = if is_served(server, info.verb, path) { path.clone() } else { ResourcePath::default() };
        // A list of the one object of a name is a question for that object.
        let is_narrowed = info.verb == "list" && !path.name.is_empty();
        Self {
            verb: if is_narrowed { "GET" } else { verb(info.verb, apply) },
            dry_run: if query.text("dryRun") == "All" { "All" } else { "" },
            scope: scope(info.verb, &path),
            component: if path.resource.is_empty() { "" } else { COMPONENT },
            group: path.group,
            version: path.version,
            resource: path.resource,
            subresource: path.subresource,
        }
    }

    pub(crate) fn is_long_running(&self) -> bool {
        self.verb == "WATCH"
    }

    /// Whether the answer is what was asked for, and not what became of it.
    pub(super) fn is_read(&self) -> bool {
        matches!(self.verb, "GET" | "LIST")
    }

    /// Whether it is a request that upstream counts: one for something that there is, except for most
    /// paths that are no resources.
    pub(crate) fn is_counted(&self) -> bool {
        !self.component.is_empty() || COUNTED_PATHS.contains(&self.subresource.as_str())
    }
}

/// Whether there is such a resource or subresource, with such a verb.
fn is_served(server: &ApiServer, verb: &str, path: &ResourcePath) -> bool {
    if verb.is_empty() {
        return false;
    }
    if reviews::find(&path.group, &path.version, &path.resource).is_some() {
        return verb == "create" && path.subresource.is_empty();
    }
    let Some(kind) = server.parts.objects.kind(&path.group, &path.version, &path.resource) else {
        return false;
    };
    matches!(path.subresource.as_str(), "" | "status" | "scale" | "finalize")
        || kind.resource.verb(&path.subresource).is_some()
}

/// Paths that upstream counts requests for, as it names them.
const COUNTED_PATHS: [&str; 5] = ["/healthz", "/livez", "/readyz", "openapi/v3", "openapi/v3/"];

/// A path as a label.
fn known_path(path: &str) -> &'static str {
    const PATHS: [&str; 9] =
        ["/", "/healthz", "/livez", "/readyz", "/metrics", "/version", "/api", "/apis", "/openapi/v2"];
    match path.strip_prefix("/openapi/v3") {
        Some("") => "openapi/v3",
        Some(rest) if rest.starts_with('/') => "openapi/v3/",
        _ => PATHS.into_iter().find(|known| *known == path).unwrap_or_default(),
    }
}

/// The method, except where it does not tell.
fn verb(verb: &str, apply: bool) -> &'static str {
    match verb {
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" if apply => "APPLY",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        _ => "other",
    }
}

fn scope(verb: &str, path: &ResourcePath) -> &'static str {
    if path.resource.is_empty() {
        ""
    } else if !path.name.is_empty() || verb == "create" {
        "resource"
    } else if !path.namespace.is_empty() {
        "namespace"
    } else {
        "cluster"
    }
}

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
}

/// What a request was for, whatever came of it.
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
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DeprecatedLabels {
    group: String,
    version: String,
    resource: String,
    subresource: String,
    /// The release of Kubernetes that has it no more: none is planned for ours.
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
    pub(super) fn new(request: &RequestLabels, code: u16) -> Self {
        let ScopeLabels { verb, group, version, resource, subresource, scope, component: _ } =
            ScopeLabels::new(request);
        Self {
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            component: COMPONENT,
            code: u32::from(code),
        }
    }
}

/// What a watch tells of.
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
    /// Of `machines.cluster.x-k8s.io`.
    pub(super) fn of(qualified: &str) -> Self {
        let (resource, group) = qualified.split_once('.').unwrap_or((qualified, ""));
        Self { group: group.to_owned(), resource: resource.to_owned() }
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

/// There is one flow schema: every user is a flow.
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
    /// Whether the request was served in the end.
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
