//! Routes of a server: derived from its registry, its actions, its reviews and its own index of paths.

use std::collections::BTreeSet;

use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::reviews;
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::world::{NAME_OF_OBJECTS, TEAM};

/// Methods with a meaning of their own, and one without.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"];

/// Subresource that no kind has.
const UNKNOWN_SUBRESOURCE: &str = "nonsense";

/// Request that the walk makes of every caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) path: String,
    pub(crate) method: &'static str,
    /// Body, valid as far as the walk can tell.
    pub(crate) body: String,
}

impl Route {
    fn new(method: &'static str, path: impl Into<String>, body: &Value) -> Self {
        let body = if matches!(method, "POST" | "PUT" | "PATCH") { body.to_string() } else { String::new() };
        Self { path: path.into(), method, body }
    }

    pub(crate) fn content_type(&self) -> &'static str {
        if self.method == "PATCH" { "application/merge-patch+json" } else { "application/json" }
    }
}

/// Returns every route of the server.
pub(crate) async fn all(registry: &Registry, admin: &Caller) -> BTreeSet<Route> {
    let mut routes = BTreeSet::new();
    for resource in registry.resources() {
        routes.extend(of_kind(resource));
    }
    routes.extend(of_reviews());
    for path in documents(admin).await {
        routes.extend(METHODS.map(|method| Route::new(method, path.clone(), &json!({}))));
    }
    routes
}

fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

fn of_kind(resource: &Resource) -> Vec<Route> {
    let root = root(&resource.group, &resource.version);
    let plural = &resource.plural;
    let (name, within) = match (resource.namespaced, plural.as_str()) {
        (true, _) => (NAME_OF_OBJECTS, format!("/namespaces/{TEAM}")),
        (false, "namespaces") => (TEAM, String::new()),
        (false, _) => (NAME_OF_OBJECTS, String::new()),
    };
    let object = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"name": name}, "spec": {}});
    let mut routes = Vec::new();
    let mut collections = BTreeSet::from([format!("{root}/{plural}"), format!("{root}{within}/{plural}")]);
    // A cluster-scoped kind has no path in a namespace, and requests for one are refused too.
    collections.insert(format!("{root}/namespaces/{TEAM}/{plural}"));
    for collection in &collections {
        routes.extend(METHODS.map(|method| Route::new(method, collection.clone(), &object)));
        routes.push(Route::new("GET", format!("{collection}?watch=true&timeoutSeconds=1"), &object));
        let selected = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        routes.push(Route::new("GET", selected.clone(), &object));
        routes.push(Route::new("DELETE", selected, &object));
    }
    let path = format!("{root}{within}/{plural}/{name}");
    routes.extend(METHODS.map(|method| Route::new(method, path.clone(), &object)));
    routes.push(Route::new("GET", format!("{root}/watch{within}/{plural}"), &object));
    routes.push(Route::new("GET", format!("{root}/watch{within}/{plural}/{name}"), &object));
    routes.push(Route::new("GET", format!("{root}/proxy{within}/{plural}/{name}"), &object));
    for subresource in subresources(resource) {
        let path = format!("{path}/{subresource}");
        let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        routes.extend(methods.map(|method| Route::new(method, path.clone(), &json!({}))));
        routes.push(Route::new("POST", format!("{path}?dryRun=All"), &json!({})));
    }
    routes
}

fn subresources(resource: &Resource) -> Vec<String> {
    let known = ["status", "scale", "finalize", "approval", UNKNOWN_SUBRESOURCE].map(str::to_owned);
    let actions = resource.verbs.iter().map(|action| action.name().to_owned());
    known.into_iter().chain(actions).collect()
}

fn of_reviews() -> Vec<Route> {
    let mut routes = Vec::new();
    for review in reviews::ALL {
        let within = if review.namespaced { format!("/namespaces/{TEAM}") } else { String::new() };
        let path = format!("{}{within}/{}", root(review.group, reviews::VERSION), review.plural);
        let body = json!({"apiVersion": format!("{}/{}", review.group, reviews::VERSION), "kind": review.kind,
            "metadata": if review.namespaced { json!({"namespace": TEAM}) } else { json!({}) },
            "spec": {"user": "admin", "namespace": TEAM, "resourceAttributes": {"namespace": TEAM, "verb": "get",
                "resource": "secrets"}}});
        routes.extend(METHODS.map(|method| Route::new(method, path.clone(), &body)));
    }
    routes
}

/// Every path of the index, of discovery and of OpenAPI, and some that do not exist.
async fn documents(admin: &Caller) -> BTreeSet<String> {
    let index = admin.get("/").await.json();
    let texts = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()).collect()
    };
    let mut paths: BTreeSet<String> = texts(&index["paths"]).into_iter().collect();
    let open_api = admin.get("/openapi/v3").await.json();
    for document in open_api["paths"].as_object().unwrap().values() {
        let path = document["serverRelativeURL"].as_str().unwrap();
        // Without the hash, which changes with every schema.
        paths.insert(path.split('?').next().unwrap().to_owned());
    }
    let others = [
        "/",
        "/version/",
        "/nope",
        "/api/",
        "/apis/",
        "/apis/nope",
        "/apis/nope/v1",
        "/apis/nope/v1/x",
        "/.well-known/openid-configuration",
        // Words of paths that name no resource.
        "/apis/cluster.x-k8s.io/v1beta2/watch",
        "/api/v1/watch",
        "/logs",
        "/debug/pprof",
        "//api",
        "/apis//v1/x",
    ];
    paths.extend(others.map(str::to_owned));
    assert!(paths.contains("/metrics") && paths.contains("/readyz/etcd"), "{paths:?}");
    paths
}
