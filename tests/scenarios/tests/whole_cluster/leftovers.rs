//! Objects that are left of a cluster in the API.

use apiserver_machinery::resource::Resource;
use kube::Client;
use serde_json::Value;

/// Kinds that report what was, and are deleted by their age.
const REPORTS: &str = "events";

/// Returns the objects of a namespace, each as `Kind name`. Events are left out.
pub(crate) async fn objects(client: &Client, namespace: &str) -> Vec<String> {
    let registry = apiserver_registry::registry();
    let kinds = registry.stored().iter().map(AsRef::as_ref).filter(|kind: &&Resource| {
        kind.namespaced && !kind.strategy.is_read_only() && kind.plural != REPORTS
    });
    let mut objects = Vec::new();
    for kind in kinds {
        let version = kind.api_version();
        let root = if version.contains('/') { "apis" } else { "api" };
        let path = format!("/{root}/{version}/namespaces/{namespace}/{}", kind.plural);
        let list: Value = client.request(http::Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        let names = list["items"].as_array().into_iter().flatten().map(|item| &item["metadata"]["name"]);
        objects.extend(names.map(|name| format!("{} {}", kind.kind, name.as_str().unwrap_or_default())));
    }
    objects
}
