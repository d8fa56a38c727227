//! Discovery documents, legacy and aggregated, computed from the served resources.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::action::ActionMethod;
use crate::resource::{Registry, Resource};
use crate::reviews::{self, Review};
use crate::scale;

/// Verbs of every stored kind, in upstream's order for custom resources.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// Verbs of a kind whose objects the server defines.
const READ_VERBS: [&str; 3] = ["get", "list", "watch"];

/// Verbs of the subresources `status` and `scale`.
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// Verbs of the subresource that writes `spec.finalizers`.
const FINALIZE_VERBS: [&str; 1] = ["update"];

/// Verbs of resources that can only be posted.
const POSTED_VERBS: [&str; 1] = ["create"];

/// Resources that one endpoint serves.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// The stored kinds.
    pub registry: &'a Registry,
    /// The reviews.
    pub reviews: &'a [Review],
}

/// A subresource, as both forms of discovery describe it.
struct Part {
    name: String,
    group: String,
    version: String,
    kind: String,
    /// True if group and version differ from those of the resource.
    foreign: bool,
    verbs: &'static [&'static str],
    /// Group, version and kind of the response, if they differ from those of the request.
    answer: (String, String, String),
}

impl Served<'_> {
    /// Returns the groups with their versions, the preferred version first.
    pub fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups = self.registry.groups();
        for review in self.reviews {
            if !groups.iter().any(|(group, _)| group == review.group) {
                groups.push((review.group.to_owned(), vec![reviews::VERSION.to_owned()]));
            }
        }
        groups
    }

    /// Returns the document at `/apis`: the groups, without core.
    pub fn group_list(&self) -> Value {
        let groups = self.groups();
        let named = groups.iter().filter(|(group, _)| !group.is_empty());
        let groups: Vec<Value> = named.map(|(group, versions)| bare_group(group, versions)).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// Returns the document at `/apis/<group>`, or `None` if there is no such group.
    pub fn group(&self, name: &str) -> Option<Value> {
        let groups = self.groups();
        let (group, versions) = groups.iter().find(|(group, _)| group == name && !group.is_empty())?;
        let mut document = bare_group(group, versions);
        document["kind"] = json!("APIGroup");
        document["apiVersion"] = json!("v1");
        Some(document)
    }

    /// Returns the document at `/api`: the versions of core, or `None` if core is not served. Clients reach the server
    /// at `address`.
    pub fn core_versions(&self, address: &str) -> Option<Value> {
        let groups = self.registry.groups();
        let (_, versions) = groups.iter().find(|(group, _)| group.is_empty())?;
        Some(json!({"kind": "APIVersions", "versions": versions,
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]}))
    }

    /// Returns the document at `/apis/<group>/<version>` or `/api/v1`, or `None` if it has no resources.
    pub fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let mut resources = Vec::new();
        for resource in self.registry.of_version(group, version) {
            resources.push(self.entry(resource));
            for part in parts(resource) {
                let mut entry = json!({"name": format!("{}/{}", resource.plural, part.name), "singularName": "",
                    "namespaced": resource.namespaced, "kind": part.kind, "verbs": part.verbs});
                if part.foreign {
                    entry["group"] = json!(part.group);
                    entry["version"] = json!(part.version);
                }
                resources.push(entry);
            }
        }
        for review in self.reviews_of(group, version) {
            resources.push(json!({"name": review.plural, "singularName": review.singular,
                "namespaced": review.namespaced, "kind": review.kind, "verbs": POSTED_VERBS}));
        }
        if resources.is_empty() {
            return None;
        }
        let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Some(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
            "resources": resources}))
    }

    fn reviews_of(&self, group: &str, version: &str) -> impl Iterator<Item = &Review> {
        self.reviews.iter().filter(move |review| review.group == group && version == reviews::VERSION)
    }

    fn entry(&self, resource: &Resource) -> Value {
        let mut entry = json!({"name": resource.plural, "singularName": resource.singular,
            "namespaced": resource.namespaced, "kind": resource.kind, "verbs": verbs(resource),
            "storageVersionHash": self.storage_version_hash(resource)});
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        entry
    }

    /// Returns a hash that changes with the stored version: upstream's formula.
    fn storage_version_hash(&self, resource: &Resource) -> String {
        let stored = self.registry.stored_of(resource).map_or(resource, |(_, stored)| stored);
        let text = format!("{}/{}/{}", stored.group, stored.version, stored.kind);
        STANDARD.encode(digest(&SHA256, text.as_bytes()).as_ref().get(..8).unwrap_or_default())
    }

    /// Returns the aggregated discovery v2: of `/api` if `core`, else of `/apis`.
    pub fn aggregated(&self, core: bool) -> Value {
        let groups = self.groups();
        let wanted = groups.iter().filter(|(group, _)| group.is_empty() == core);
        let items: Vec<Value> = wanted
            .map(|(group, versions)| {
                let versions: Vec<Value> =
                    versions.iter().map(|version| self.aggregated_version(group, version)).collect();
                let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
                json!({"metadata": metadata, "versions": versions})
            })
            .collect();
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
            "items": items})
    }

    fn aggregated_version(&self, group: &str, version: &str) -> Value {
        let stored = self.registry.of_version(group, version).map(|resource| aggregated_entry(resource));
        let posted = self.reviews_of(group, version).map(|review| {
            json!({"resource": review.plural, "scope": scope(review.namespaced), "verbs": POSTED_VERBS,
                "responseKind": {"group": group, "version": version, "kind": review.kind},
                "singularResource": review.singular})
        });
        let resources: Vec<Value> = stored.chain(posted).collect();
        json!({"version": version, "resources": resources, "freshness": "Current"})
    }
}

fn verbs(resource: &Resource) -> Vec<&'static str> {
    if resource.strategy.is_read_only() {
        return READ_VERBS.to_vec();
    }
    let mut verbs = VERBS.to_vec();
    if !resource.strategy.deletes_collections() {
        verbs.retain(|verb| *verb != "deletecollection");
    }
    // Kinds of core are listed in another order than custom resources.
    if !resource.hosted {
        verbs.sort_unstable();
    }
    verbs
}

fn bare_group(group: &str, versions: &[String]) -> Value {
    let entry = |version: &String| json!({"groupVersion": format!("{group}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": group, "versions": all, "preferredVersion": all.first()})
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}

fn parts(resource: &Resource) -> Vec<Part> {
    let kinded = |name: &str, (group, version, kind): (&str, &str, &str), verbs| Part {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        foreign: (group, version) != (resource.group.as_str(), resource.version.as_str()),
        verbs,
        answer: (group.to_owned(), version.to_owned(), kind.to_owned()),
    };
    let own = (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str());
    let mut parts = Vec::new();
    if resource.status_subresource {
        parts.push(kinded("status", own, &PART_VERBS));
    }
    if resource.strategy.has_approval() {
        parts.push(kinded("approval", own, &PART_VERBS));
    }
    if resource.scale.is_some() {
        parts.push(kinded("scale", (scale::GROUP, scale::VERSION, scale::KIND), &PART_VERBS));
    }
    if resource.strategy.has_spec_finalizers() {
        parts.push(kinded("finalize", own, &FINALIZE_VERBS));
    }
    for verb in &resource.verbs {
        let (group, version, kind) = verb.response_kind();
        let mut part = kinded(verb.name(), verb.request_kind(), action_verbs(verb.method()));
        part.foreign = true;
        part.answer = (group.to_owned(), version.to_owned(), kind.to_owned());
        parts.push(part);
    }
    parts
}

/// Returns the verbs of an action.
fn action_verbs(method: ActionMethod) -> &'static [&'static str] {
    match method {
        ActionMethod::Post => &POSTED_VERBS,
        ActionMethod::Get => &["get"],
    }
}

fn aggregated_entry(resource: &Resource) -> Value {
    let own = json!({"group": resource.group, "version": resource.version, "kind": resource.kind});
    let subresources: Vec<Value> = parts(resource)
        .into_iter()
        .map(|part| {
            let (group, version, kind) = part.answer;
            json!({"subresource": part.name, "verbs": part.verbs,
                "responseKind": {"group": group, "version": version, "kind": kind}})
        })
        .collect();
    let mut entry = json!({"resource": resource.plural, "responseKind": own, "scope": scope(resource.namespaced),
        "singularResource": resource.singular, "verbs": verbs(resource)});
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
