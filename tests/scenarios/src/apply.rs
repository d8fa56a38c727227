//! Server-side apply of a manifest, with the requests that `kubectl apply --server-side` sends.

use anyhow::Context;
use serde_json::{Value, json};

use crate::World;

/// Options of kubectl: its field manager, and an error for each unknown field.
const OPTIONS: &str = "fieldManager=kubectl&fieldValidation=Strict";

impl World {
    /// Applies documents in a namespace, and creates the namespace first.
    ///
    /// # Errors
    /// The refusal of a document, with its kind and name.
    pub async fn apply(&self, namespace: &str, documents: &[Value]) -> anyhow::Result<()> {
        let meta = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        for document in [&meta].into_iter().chain(documents) {
            let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
            let about = || format!("cannot apply {} {name}", document["kind"]);
            let path = self.path_of_kind(document, namespace).with_context(about)?;
            let request = http::Request::patch(format!("{path}/{name}?{OPTIONS}"))
                .header("content-type", "application/apply-patch+yaml")
                .body(serde_json::to_vec(document)?)?;
            let _: Value = self.admin().request(request).await.with_context(about)?;
        }
        Ok(())
    }

    /// Returns the path of the objects of a document's kind.
    fn path_of_kind(&self, document: &Value, namespace: &str) -> anyhow::Result<String> {
        let version = document["apiVersion"].as_str().context("it has no apiVersion")?;
        let resources = self.server.registry().resources();
        let is_kind = |kind: &&_| same_kind(kind, version, document);
        let kind =
            resources.iter().map(AsRef::as_ref).find(is_kind).context("the server has no such kind")?;
        let root = if version.contains('/') { "apis" } else { "api" };
        let scope = if kind.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        Ok(format!("/{root}/{version}{scope}/{}", kind.plural))
    }
}

fn same_kind(kind: &apiserver_machinery::resource::Resource, version: &str, document: &Value) -> bool {
    kind.api_version() == version && document["kind"] == kind.kind.as_str()
}
