//! What series are told apart by. Whatever a client can make up is no label: series stay for ever.

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
        let path = info.resource().filter(|path| is_served(server, path));
        let subresource = match (path, info.resource()) {
            (Some(path), _) => known_subresource(server, path),
            (None, None) => known_path(&info.path),
            (None, Some(_)) => String::new(),
        };
        let path = path.cloned().unwrap_or_default();
        Self {
            verb: verb(info.verb, apply),
            dry_run: if query.text("dryRun") == "All" { "All" } else { "" },
            scope: scope(info.verb, &path),
            component: if path.resource.is_empty() { "" } else { COMPONENT },
            group: path.group,
            version: path.version,
            resource: path.resource,
            subresource,
        }
    }

    pub(crate) fn is_long_running(&self) -> bool {
        self.verb == "WATCH"
    }
}

fn is_served(server: &ApiServer, path: &ResourcePath) -> bool {
    server.parts.objects.kind(&path.group, &path.version, &path.resource).is_some()
}

fn known_subresource(server: &ApiServer, path: &ResourcePath) -> String {
    let own = matches!(path.subresource.as_str(), "status" | "scale" | "finalize");
    let kind = server.parts.objects.kind(&path.group, &path.version, &path.resource);
    let is_known = own || kind.is_some_and(|kind| kind.resource.verb(&path.subresource).is_some());
    if is_known { path.subresource.clone() } else { String::new() }
}

fn known_path(path: &str) -> String {
    const PATHS: [&str; 10] = [
        "/",
        "/healthz",
        "/livez",
        "/readyz",
        "/metrics",
        "/version",
        "/api",
        "/apis",
        "/openapi/v2",
        "/openapi/v3",
    ];
    let found = PATHS.iter().find(|known| **known == path);
    found.map(|known| (*known).to_owned()).unwrap_or_default()
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
