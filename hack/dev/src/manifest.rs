//! Manifest applier: creates absent objects, and leaves existing ones unchanged.

use std::path::Path;

use anyhow::{Context, anyhow};
use kube::api::{DynamicObject, GroupVersionKind, PostParams};
use kube::core::TypeMeta;
use kube::discovery::{Scope, oneshot};
use kube::{Api, Client, ResourceExt};

/// Namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// Result of a manifest.
#[derive(Debug)]
pub(crate) struct Applied {
    /// Namespace of the Cluster.
    pub(crate) namespace: String,
    /// Name of the Cluster.
    pub(crate) cluster: String,
    /// True unless the Cluster is from an earlier run.
    pub(crate) is_new: bool,
}

/// Creates every document of a file that does not exist yet.
pub(crate) async fn apply(client: &Client, path: &Path) -> anyhow::Result<Applied> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?;
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    let mut applied = None;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let object: DynamicObject = serde_json::from_value(document).with_context(|| format!("{shown}"))?;
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let is_new = create(client, &object)
            .await
            .with_context(|| format!("{kind} {} cannot be created", object.name_any()))?;
        if kind == "Cluster" {
            let namespace = object.namespace().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
            applied = Some(Applied { namespace, cluster: object.name_any(), is_new });
        }
    }
    applied.with_context(|| format!("{shown} has no Cluster"))
}

/// Creates an object. Returns false if it exists.
async fn create(client: &Client, object: &DynamicObject) -> anyhow::Result<bool> {
    let types: &TypeMeta = object.types.as_ref().context("a document has no apiVersion and kind")?;
    let (resource, capabilities) = oneshot::pinned_kind(client, &GroupVersionKind::try_from(types)?).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    match api.create(&PostParams::default(), object).await {
        // The object is from an earlier run, and may have been changed since.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        result => Ok(result.map(|_| true)?),
    }
}
