//! Requests of the matrix: every verb on every resource, subresource and path, derived from the registry, from discovery
//! and from the server's own index of paths.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_machinery::reviews;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::host::TEAM;

/// Name of the object of each request. It exists in no kind but Namespace.
const NAME: &str = "m1";

/// Namespace in which no identity of the team has permissions.
const ELSEWHERE: &str = "elsewhere";

/// Subresource that no kind has.
const UNKNOWN: &str = "nonsense";

/// Paths that no index lists.
const OTHER_PATHS: [&str; 13] = [
    "/",
    "/nope",
    "/capstan/v1/backup",
    "/capstan/v1/join",
    "/capstan/v1/report",
    "/configz",
    "/metrics/slis",
    "/logs",
    "/debug/pprof",
    "/.well-known/openid-configuration",
    "/openid/v1/jwks",
    "/version/",
    "/apis/nope.example/v1",
];

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    /// `group/plural`, `group/plural/subresource`, or the path of a document. The core group has no name.
    pub(crate) target: String,
    /// Verb of the table. `elsewhere` reads in another namespace, `everywhere` in all of them.
    pub(crate) verb: &'static str,
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Probe {
    /// Returns the media type of the body.
    pub(crate) fn content_type(&self) -> &'static str {
        if self.method == "PATCH" { "application/merge-patch+json" } else { "application/json" }
    }
}

/// Resource, as discovery has it.
struct Resource {
    group: String,
    version: String,
    plural: String,
    kind: String,
    namespaced: bool,
    subresources: BTreeSet<String>,
}

/// Subresources that are tried of every resource, also if discovery does not list them.
const ALWAYS_TRIED: [&str; 3] = ["status", "scale", UNKNOWN];

/// Returns every request.
pub(crate) async fn all(admin: &Caller) -> Vec<Probe> {
    let resources = discovered(admin).await;
    compare_with_registry(&resources);
    let mut probes: Vec<Probe> = resources.values().flat_map(of_resource).collect();
    probes.extend(reviews::ALL.iter().map(of_review));
    for path in paths(admin).await {
        for (verb, method) in [("get", "GET"), ("post", "POST"), ("put", "PUT"), ("delete", "DELETE")] {
            probes.push(probe(&path, verb, method, path.clone(), &json!({})));
        }
    }
    probes
}

/// Every kind of the registry must be in discovery, and so in the matrix.
fn compare_with_registry(resources: &BTreeMap<(String, String), Resource>) {
    let registry = apiserver_registry::registry();
    for resource in registry.resources() {
        let key = (resource.group.clone(), resource.plural.clone());
        let found = resources.get(&key).unwrap_or_else(|| panic!("{key:?} is in no discovery document"));
        for action in &resource.verbs {
            assert!(found.subresources.contains(action.name()), "{key:?} {} is not listed", action.name());
        }
    }
}

/// Returns the resources in the preferred version of each group, by group and plural.
async fn discovered(admin: &Caller) -> BTreeMap<(String, String), Resource> {
    let mut versions = vec![(String::new(), "v1".to_owned())];
    let (_, groups) = admin.json("GET", "/apis", &json!({})).await;
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            versions.push((text(&group["name"]), text(&version["version"])));
        }
    }
    let mut found = BTreeMap::new();
    for (group, version) in versions {
        let root = root(&group, &version);
        let (code, list) = admin.json("GET", &root, &json!({})).await;
        assert_eq!(code, 200, "{root}");
        let entries = list["resources"].as_array().unwrap();
        let name = |entry: &Value| entry["name"].as_str().unwrap().to_owned();
        for entry in entries.iter().filter(|entry| !name(entry).contains('/')) {
            let plural = name(entry);
            let is_review = reviews::ALL.iter().any(|it| it.group == group && it.plural == plural);
            if is_review || found.contains_key(&(group.clone(), plural.clone())) {
                continue;
            }
            let own = entries.iter().map(name);
            let own = own.filter_map(|name| name.strip_prefix(&format!("{plural}/")).map(str::to_owned));
            let resource = Resource {
                group: group.clone(),
                version: version.clone(),
                kind: entry["kind"].as_str().unwrap().to_owned(),
                namespaced: entry["namespaced"].as_bool().unwrap(),
                subresources: own.collect(),
                plural: plural.clone(),
            };
            found.insert((group.clone(), plural), resource);
        }
    }
    found
}

pub(crate) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

pub(crate) fn probe(
    target: &str,
    verb: &'static str,
    method: &'static str,
    path: String,
    body: &Value,
) -> Probe {
    let has_body = matches!(method, "POST" | "PUT" | "PATCH");
    let body = if has_body { body.to_string() } else { String::new() };
    Probe { target: target.to_owned(), verb, method, path, body }
}

fn of_resource(resource: &Resource) -> Vec<Probe> {
    let Resource { group, version, plural, kind, namespaced, .. } = resource;
    let (root, target) = (root(group, version), format!("{group}/{plural}"));
    let name = if plural == "namespaces" { TEAM } else { NAME };
    let within = |namespace: &str| {
        if *namespaced {
            format!("{root}/namespaces/{namespace}/{plural}")
        } else {
            format!("{root}/{plural}")
        }
    };
    let api_version = if group.is_empty() { version.clone() } else { format!("{group}/{version}") };
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    let collection = within(TEAM);
    let one = format!("{collection}/{name}");
    let mut probes = Vec::new();
    let mut add = |verb, method, path: String| probes.push(probe(&target, verb, method, path, &object));
    add("get", "GET", one.clone());
    add("list", "GET", collection.clone());
    add("watch", "GET", format!("{collection}?watch=true&timeoutSeconds=1"));
    add("create", "POST", format!("{collection}?dryRun=All"));
    add("update", "PUT", format!("{one}?dryRun=All"));
    add("patch", "PATCH", format!("{one}?dryRun=All"));
    add("apply", "PATCH", format!("{one}?dryRun=All&fieldManager=matrix"));
    add("delete", "DELETE", format!("{one}?dryRun=All"));
    add("deletecollection", "DELETE", format!("{collection}?dryRun=All"));
    if *namespaced {
        add("elsewhere", "GET", format!("{}/{name}", within(ELSEWHERE)));
        add("elsewhere", "GET", within(ELSEWHERE));
        add("everywhere", "GET", format!("{root}/{plural}"));
    }
    let unlisted = ALWAYS_TRIED.iter().filter(|name| !resource.subresources.contains(**name));
    for subresource in unlisted.copied().chain(resource.subresources.iter().map(String::as_str)) {
        let (target, path) = (format!("{target}/{subresource}"), format!("{one}/{subresource}"));
        probes.push(probe(&target, "get", "GET", path.clone(), &object));
        let verbs = [("create", "POST"), ("update", "PUT"), ("patch", "PATCH"), ("delete", "DELETE")];
        let verbs = if resource.subresources.contains(subresource) { &verbs[..] } else { &verbs[..1] };
        for (verb, method) in verbs {
            probes.push(probe(&target, verb, method, format!("{path}?dryRun=All"), &json!({})));
        }
    }
    probes
}

fn of_review(review: &reviews::Review) -> Probe {
    let within = if review.namespaced { format!("/namespaces/{TEAM}") } else { String::new() };
    let path = format!("{}{within}/{}", root(review.group, reviews::VERSION), review.plural);
    let body = json!({"apiVersion": format!("{}/{}", review.group, reviews::VERSION), "kind": review.kind,
        "metadata": if review.namespaced { json!({"namespace": TEAM}) } else { json!({}) },
        "spec": {"user": "carol", "namespace": TEAM, "token": "unknown",
            "resourceAttributes": {"namespace": TEAM, "verb": "get", "resource": "secrets"}}});
    probe(&format!("{}/{}", review.group, review.plural), "create", "POST", path, &body)
}

/// Returns the paths of the server's index, and some that it does not list.
async fn paths(admin: &Caller) -> BTreeSet<String> {
    let (_, index) = admin.json("GET", "/", &json!({})).await;
    let listed = index["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned());
    listed.chain(OTHER_PATHS.map(str::to_owned)).collect()
}
