//! All objects of a namespace as JSON, whatever their kind.

use std::time::{Duration, Instant};

use kube::Client;
use serde_json::{Value, json};
use tests_scenarios::World;

use super::looks::Looks;

/// Time without a write after which the objects count as being at rest. Controllers react to each other in less.
const REST: Duration = Duration::from_secs(4);

/// Kinds whose objects report something and belong to nothing.
const REPORTS: [&str; 2] = ["events", "leases"];

/// Objects of a namespace.
pub(crate) struct Objects {
    client: Client,
    /// Path of the objects of each kind, and the name of the kind.
    kinds: Vec<(String, String)>,
}

/// Object with the path that it is at.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) path: String,
    pub(crate) kind: String,
    pub(crate) metadata: Value,
}

impl Object {
    /// Returns kind and name, as `kubectl` shows them.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind, self.metadata["name"].as_str().unwrap_or_default())
    }

    /// Returns a list of the metadata. The order of its entries means nothing.
    pub(crate) fn list(&self, field: &str) -> Vec<Value> {
        let mut list = self.metadata[field].as_array().cloned().unwrap_or_default();
        list.sort_by_key(Value::to_string);
        list
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.get("deletionTimestamp").is_some()
    }
}

impl Objects {
    pub(crate) fn new(world: &World, namespace: &str) -> Self {
        let registry = apiserver_registry::registry();
        let stored = registry.stored().iter().filter(|kind| {
            kind.namespaced && !kind.strategy.is_read_only() && !REPORTS.contains(&kind.plural.as_str())
        });
        let kinds = stored.map(|kind| {
            let root = if kind.group.is_empty() { "api" } else { "apis" };
            let path = format!("/{root}/{}/namespaces/{namespace}/{}", kind.api_version(), kind.plural);
            (path, kind.kind.clone())
        });
        Self { client: world.admin(), kinds: kinds.collect() }
    }

    pub(crate) async fn all(&self) -> Vec<Object> {
        let mut all = Vec::new();
        for (path, kind) in &self.kinds {
            let request = http::Request::get(path).body(Vec::new()).unwrap();
            let list: Value = self.client.request(request).await.unwrap();
            for item in list["items"].as_array().into_iter().flatten() {
                let metadata = item["metadata"].clone();
                let path = format!("{path}/{}", metadata["name"].as_str().unwrap());
                all.push(Object { path, kind: kind.clone(), metadata });
            }
        }
        all
    }

    /// Returns the objects of a kind.
    pub(crate) async fn of(&self, kind: &str) -> Vec<Object> {
        self.all().await.into_iter().filter(|object| object.kind == kind).collect()
    }

    /// Changes the metadata of an object by a merge patch. It does not matter if the object is gone.
    pub(crate) async fn change(&self, object: &Object, metadata: &Value) {
        let body = serde_json::to_vec(&json!({ "metadata": metadata })).unwrap();
        let request = http::Request::patch(&object.path);
        let request = request.header("content-type", "application/merge-patch+json").body(body).unwrap();
        match self.client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => drop(result.unwrap()),
        }
    }

    /// Waits until no client writes anything any more, and returns the objects.
    pub(crate) async fn at_rest(&self) -> Vec<Object> {
        let revision = |it: &Object| (it.path.clone(), it.metadata["resourceVersion"].clone());
        let (mut looks, mut since, mut known) = (Looks::begin(), Instant::now(), Vec::new());
        loop {
            let all = self.all().await;
            let now: Vec<_> = all.iter().map(revision).collect();
            let changed: Vec<String> =
                now.iter().filter(|it| !known.contains(*it)).map(|(path, _)| path.clone()).collect();
            if now != known {
                (known, since) = (now, Instant::now());
            } else if since.elapsed() >= REST {
                return all;
            }
            looks.again(&format!("rest; written since: {}", changed.join(", "))).await;
        }
    }
}
