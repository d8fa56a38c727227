//! Discovery documents, legacy and aggregated, computed from the registry.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::resource::{Registry, Resource};

/// Verbs of every stored kind.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// Verbs of the status subresource.
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Verbs of the subresource that writes `spec.finalizers`.
const FINALIZE_VERBS: [&str; 1] = ["update"];

/// `GET /apis`: the groups, without core.
pub fn group_list(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| bare_group(group, versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/<group>`; `None` when there is no such group.
pub fn group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = registry.groups();
    let (group, versions) = groups.iter().find(|(group, _)| group == name && !group.is_empty())?;
    let mut document = bare_group(group, versions);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

fn bare_group(group: &str, versions: &[String]) -> Value {
    let entry = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": group, "versions": all, "preferredVersion": all.first()})
}

/// `GET /api`: the versions of core; `None` when core is not served. `address` is where clients reach us.
pub fn core_versions(registry: &Registry, address: &str) -> Option<Value> {
    let groups = registry.groups();
    let (_, versions) = groups.iter().find(|(group, _)| group.is_empty())?;
    Some(json!({"kind": "APIVersions", "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]}))
}

/// `GET /apis/<group>/<version>` or `/api/v1`; `None` when nothing of it is served.
pub fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for resource in registry.of_version(group, version) {
        resources.push(entry(resource));
        if resource.status_subresource {
            resources.push(json!({"name": format!("{}/status", resource.plural), "singularName": "",
                "namespaced": resource.namespaced, "kind": resource.kind, "verbs": STATUS_VERBS}));
        }
        if resource.strategy.has_spec_finalizers() {
            resources.push(json!({"name": format!("{}/finalize", resource.plural), "singularName": "",
                "namespaced": resource.namespaced, "kind": resource.kind, "verbs": FINALIZE_VERBS}));
        }
        for verb in &resource.verbs {
            let (group, version, kind) = verb.request_kind();
            resources.push(
                json!({"name": format!("{}/{}", resource.plural, verb.name()), "singularName": "",
                "namespaced": resource.namespaced, "group": group, "version": version, "kind": kind,
                "verbs": ["create"]}),
            );
        }
    }
    if resources.is_empty() {
        return None;
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

fn entry(resource: &Resource) -> Value {
    let mut entry = json!({"name": resource.plural, "singularName": resource.singular,
        "namespaced": resource.namespaced, "kind": resource.kind, "verbs": VERBS,
        "storageVersionHash": storage_version_hash(resource)});
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    entry
}

/// Tells clients when the stored form changed: upstream's formula.
fn storage_version_hash(resource: &Resource) -> String {
    let text = format!("{}/{}/{}", resource.group, resource.version, resource.kind);
    STANDARD.encode(digest(&SHA256, text.as_bytes()).as_ref().get(..8).unwrap_or_default())
}

/// Aggregated discovery v2 of the named groups (`core`: of `/api`, else of `/apis`).
pub fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups = registry.groups();
    let items: Vec<Value> = groups
        .iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|version| aggregated_version(registry, group, version)).collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let resources: Vec<Value> =
        registry.of_version(group, version).map(|resource| aggregated_entry(resource)).collect();
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

fn aggregated_entry(resource: &Resource) -> Value {
    let own = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let mut subresources = Vec::new();
    if resource.status_subresource {
        subresources.push(json!({"subresource": "status", "responseKind": own, "verbs": STATUS_VERBS}));
    }
    if resource.strategy.has_spec_finalizers() {
        subresources.push(json!({"subresource": "finalize", "responseKind": own, "verbs": FINALIZE_VERBS}));
    }
    for verb in &resource.verbs {
        let (group, version, kind) = verb.response_kind();
        let response = json!({"group": group, "version": version, "kind": kind});
        subresources.push(json!({"subresource": verb.name(), "responseKind": response, "verbs": ["create"]}));
    }
    let mut entry = json!({"resource": resource.plural, "responseKind": own,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular, "verbs": VERBS});
    let optional = [
        ("shortNames", json!(resource.short_names), resource.short_names.is_empty()),
        ("categories", json!(resource.categories), resource.categories.is_empty()),
        ("subresources", json!(subresources), subresources.is_empty()),
    ];
    for (field, value, empty) in optional {
        if !empty {
            entry[field] = value;
        }
    }
    entry
}
