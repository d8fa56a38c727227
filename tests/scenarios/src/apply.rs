//! Server-side apply of a manifest, with the requests that `kubectl apply --server-side` sends.

use anyhow::Context;
use apiserver_machinery::resource::Resource;
use kube::Client;
use serde_json::{Value, json};

use crate::World;

/// Options of kubectl: its field manager, and an error for each unknown field.
const OPTIONS: &str = "fieldManager=kubectl&fieldValidation=Strict";

/// Applies documents in a namespace, and creates the namespace first.
///
/// # Errors
/// The refusal of a document, with its kind and name.
pub async fn apply(client: &Client, namespace: &str, documents: &[Value]) -> anyhow::Result<()> {
    let registry = apiserver_registry::registry();
    let meta = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    for document in [&meta].into_iter().chain(documents) {
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let about = || format!("cannot apply {} {name}", document["kind"]);
        let mut kinds = registry.resources().iter().map(AsRef::as_ref);
        let kind = kinds.find(|kind| is_of_kind(kind, document)).context("the server has no such kind");
        let path = path(kind.with_context(about)?, namespace);
        let request = http::Request::patch(format!("{path}/{name}?{OPTIONS}"))
            .header("content-type", "application/apply-patch+yaml")
            .body(serde_json::to_vec(document)?)?;
        let _: Value = client.request(request).await.with_context(about)?;
    }
    Ok(())
}

impl World {
    /// Applies documents as [`apply`] does, with all permissions.
    ///
    /// # Errors
    /// The refusal of a document, with its kind and name.
    pub async fn apply(&self, namespace: &str, documents: &[Value]) -> anyhow::Result<()> {
        apply(&self.admin(), namespace, documents).await
    }
}

/// Returns the path of the objects of a kind.
fn path(kind: &Resource, namespace: &str) -> String {
    let version = kind.api_version();
    let root = if version.contains('/') { "apis" } else { "api" };
    let scope = if kind.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    format!("/{root}/{version}{scope}/{}", kind.plural)
}

fn is_of_kind(kind: &Resource, document: &Value) -> bool {
    document["apiVersion"] == kind.api_version() && document["kind"] == kind.kind.as_str()
}
