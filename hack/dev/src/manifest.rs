//! Manifest applier: creates absent objects, and leaves existing ones unchanged.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use kube::api::{DynamicObject, GroupVersionKind, PostParams};
use kube::core::TypeMeta;
use kube::discovery::{Scope, oneshot};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

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

/// Creates every document of the files that does not exist yet. If the Cluster is of the class in the file `class`, creates
/// this class, too.
pub(crate) async fn apply(client: &Client, files: &[PathBuf], class: &Path) -> anyhow::Result<Applied> {
    let mut objects = Vec::new();
    for file in files {
        objects.extend(read(file)?);
    }
    let found = objects.iter().find(|object| kind(object) == "Cluster").cloned();
    let cluster = found.with_context(|| {
        let shown: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        format!("{} has no Cluster", shown.join(" and "))
    })?;
    objects.extend(class_of(&cluster, &objects, class)?);
    // A Namespace comes before its objects, and a class before its Clusters.
    objects.sort_by_key(|object| match kind(object) {
        "Namespace" => 0,
        "Cluster" => 2,
        _ => 1,
    });
    let mut is_new = false;
    for object in &objects {
        let made = create(client, object)
            .await
            .with_context(|| format!("{} {} cannot be created", kind(object), object.name_any()))?;
        is_new |= made && kind(object) == "Cluster";
    }
    Ok(Applied { namespace: namespace(&cluster), cluster: cluster.name_any(), is_new })
}

/// Returns the documents of a file.
fn read(path: &Path) -> anyhow::Result<Vec<DynamicObject>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| anyhow!("{shown}: {error}"))?;
    let documents = documents.into_iter().filter(|document| !document.is_null());
    documents.map(|it| serde_json::from_value(it).with_context(|| format!("{shown}"))).collect()
}

/// Returns the documents of the file `class` in the namespace in which the Cluster expects its class. Returns none if the
/// Cluster is of another class, or if its own manifest has the class.
fn class_of(
    cluster: &DynamicObject,
    own: &[DynamicObject],
    class: &Path,
) -> anyhow::Result<Vec<DynamicObject>> {
    let text = |pointer: &str| cluster.data.pointer(pointer).and_then(Value::as_str);
    let Some(name) = text("/spec/topology/classRef/name").or_else(|| text("/spec/topology/class")) else {
        return Ok(Vec::new());
    };
    let is_class = |object: &DynamicObject| kind(object) == "ClusterClass" && object.name_any() == name;
    let mut objects = read(class)?;
    if own.iter().any(is_class) || !objects.iter().any(is_class) {
        return Ok(Vec::new());
    }
    let namespace =
        text("/spec/topology/classRef/namespace").map_or_else(|| namespace(cluster), str::to_owned);
    for object in &mut objects {
        object.metadata.namespace = Some(namespace.clone());
    }
    Ok(objects)
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default()
}

fn namespace(object: &DynamicObject) -> String {
    object.namespace().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// Creates an object. Returns false if it exists.
async fn create(client: &Client, object: &DynamicObject) -> anyhow::Result<bool> {
    let types: &TypeMeta = object.types.as_ref().context("a document has no apiVersion and kind")?;
    let (resource, capabilities) = oneshot::pinned_kind(client, &GroupVersionKind::try_from(types)?).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => Api::namespaced_with(client.clone(), &namespace(object), &resource),
    };
    match api.create(&PostParams::default(), object).await {
        // The object is from an earlier run, and may have been changed since.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        result => Ok(result.map(|_| true)?),
    }
}
