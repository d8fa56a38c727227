//! Manifest applier: creates absent objects, and leaves existing ones unchanged.

use std::path::Path;

use anyhow::{Context, anyhow};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, PostParams};
use kube::core::TypeMeta;
use kube::{Api, Client, ResourceExt};

/// Creates every document of a file that does not exist yet.
pub(crate) async fn apply(client: &Client, path: &Path) -> anyhow::Result<()> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?;
    let documents: Vec<serde_json::Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    for document in documents.into_iter().filter(|document| !document.is_null()) {
        let object: DynamicObject = serde_json::from_value(document).with_context(|| format!("{shown}"))?;
        apply_one(client, &object).await.with_context(|| {
            let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
            format!("{kind} {} cannot be applied", object.name_any())
        })?;
    }
    Ok(())
}

async fn apply_one(client: &Client, object: &DynamicObject) -> anyhow::Result<()> {
    let types: &TypeMeta = object.types.as_ref().context("a document has no apiVersion and kind")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    match api.create(&PostParams::default(), object).await {
        // The object is from an earlier run, and may have been upgraded since.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        result => Ok(result.map(|_| ())?),
    }
}
