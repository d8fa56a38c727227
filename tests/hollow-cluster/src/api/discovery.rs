//! Paths without objects: discovery, version, the list of paths.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::kinds::{KINDS, Kind};
use super::request::Request;
use super::serve::{Body, json_response};
use crate::cluster::Cluster;

/// Verbs of each kind, as discovery lists them.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Returns the groups, in the order of the list.
fn groups() -> Vec<&'static str> {
    let mut groups: Vec<&str> =
        KINDS.iter().map(|kind| kind.group).filter(|group| !group.is_empty()).collect();
    groups.dedup();
    groups
}

fn group(name: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

fn resource(kind: &Kind) -> Vec<Value> {
    let mut found = vec![json!({
        "name": kind.plural, "singularName": kind.kind.to_lowercase(), "namespaced": kind.namespaced,
        "kind": kind.kind, "verbs": VERBS, "shortNames": kind.short,
    })];
    let mut add = |name: &str, type_name: &str, verbs: &[&str]| {
        found.push(json!({
            "name": format!("{}/{name}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
            "kind": type_name, "verbs": verbs,
        }));
    };
    if kind.status {
        add("status", kind.kind, &["get", "patch", "update"]);
    }
    if kind.plural == "pods" {
        add("eviction", "Eviction", &["create"]);
        add("portforward", "PodPortForwardOptions", &["create", "get"]);
    }
    found
}

fn resources(group: &str) -> Option<Value> {
    let found: Vec<Value> = KINDS.iter().filter(|kind| kind.group == group).flat_map(resource).collect();
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    let list =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": found});
    (!found.is_empty()).then_some(list)
}

fn version(cluster: &Cluster) -> Value {
    let version = cluster.version();
    let mut parts = version.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    json!({
        "major": major, "minor": minor, "gitVersion": version, "gitCommit": "0", "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z", "goVersion": "go1.24", "compiler": "gc", "platform": "linux/amd64",
    })
}

fn paths() -> Value {
    let groups =
        groups().into_iter().flat_map(|group| [format!("/apis/{group}"), format!("/apis/{group}/v1")]);
    let fixed = ["/api", "/api/v1", "/apis"].map(str::to_owned).into_iter();
    let health = ["/healthz", "/livez", "/readyz", "/version"].map(str::to_owned);
    json!({"paths": fixed.chain(groups).chain(health).collect::<Vec<_>>()})
}

/// Answers a request for one of these paths.
pub(crate) fn handle(cluster: &Cluster, request: &Request) -> Option<Response<Body>> {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let body = match segments.as_slice() {
        [] => paths(),
        ["version"] => version(cluster),
        ["api"] => json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}),
        ["api", "v1"] => resources("")?,
        ["apis"] => {
            let groups: Vec<Value> = groups().into_iter().map(group).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["apis", name] if groups().contains(name) => {
            let mut body = group(name);
            crate::json::set(&mut body, &["kind"], "APIGroup");
            crate::json::set(&mut body, &["apiVersion"], "v1");
            body
        }
        ["apis", name, "v1"] => resources(name)?,
        _ => return None,
    };
    Some(json_response(StatusCode::OK, &body))
}
