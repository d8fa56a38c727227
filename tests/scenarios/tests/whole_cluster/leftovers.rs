//! Objects that are left of a cluster in the API.

use std::sync::LazyLock;

use apiserver_machinery::resource::Resource;
use kube::Client;
use serde_json::Value;

/// Kind that reports what was, and whose objects are deleted by their age.
const REPORTS: &str = "events";

/// Kind, API version and plural of all objects in namespaces. A registry takes long to make.
static KINDS: LazyLock<Vec<(String, String, String)>> = LazyLock::new(|| {
    let registry = apiserver_registry::registry();
    let kept = |kind: &&Resource| kind.namespaced && !kind.strategy.is_read_only() && kind.plural != REPORTS;
    let kinds = registry.stored().iter().map(AsRef::as_ref).filter(kept);
    kinds.map(|kind| (kind.kind.clone(), kind.api_version(), kind.plural.clone())).collect()
});

/// Returns the objects of a namespace, each as `Kind name`. Events are left out.
pub(crate) async fn objects(client: &Client, namespace: &str) -> Vec<String> {
    let mut objects = Vec::new();
    for (kind, version, plural) in KINDS.iter() {
        let root = if version.contains('/') { "apis" } else { "api" };
        let path = format!("/{root}/{version}/namespaces/{namespace}/{plural}");
        let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        let names = list["items"].as_array().into_iter().flatten().map(|item| &item["metadata"]["name"]);
        objects.extend(names.map(|name| format!("{kind} {}", name.as_str().unwrap_or_default())));
    }
    objects
}
