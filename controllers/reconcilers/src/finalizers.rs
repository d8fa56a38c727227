//! Finalizers, which keep an object until its resources are deleted.

use std::fmt::Debug;

use controllers_runtime::{OwnershipTag, ReconcileError};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

/// Adds a finalizer if it is not there.
pub(crate) async fn add<K>(api: &Api<K>, object: &mut K, finalizer: &str) -> Result<(), ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    if object.finalizers().iter().any(|known| known == finalizer) {
        return Ok(());
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    *object = write(api, object, &finalizers).await?;
    Ok(())
}

/// Returns true if an object has all of these finalizers.
pub(crate) fn has_all<K: Resource>(object: &K, finalizers: &[&str]) -> bool {
    finalizers.iter().all(|finalizer| object.finalizers().iter().any(|known| known == finalizer))
}

/// Returns true if an object has one of these finalizers.
pub(crate) fn has_any<K: Resource>(object: &K, finalizers: &[&str]) -> bool {
    object.finalizers().iter().any(|known| finalizers.contains(&known.as_str()))
}

/// Adds the finalizers that are not there, in one write.
pub(crate) async fn add_all<K>(
    api: &Api<K>,
    object: &mut K,
    finalizers: &[&str],
) -> Result<(), ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut all = object.finalizers().to_vec();
    let missing = finalizers.iter().filter(|finalizer| !all.iter().any(|known| known == *finalizer));
    let missing: Vec<String> = missing.map(|&finalizer| finalizer.to_owned()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    all.extend(missing);
    *object = write(api, object, &all).await?;
    Ok(())
}

/// Removes several finalizers in one write. An object that does not exist any more is no error.
pub(crate) async fn remove_all<K>(api: &Api<K>, object: &K, finalizers: &[&str]) -> Result<(), ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let left = object.finalizers().iter().filter(|known| !finalizers.contains(&known.as_str()));
    let left: Vec<String> = left.cloned().collect();
    match write(api, object, &left).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => Ok(result.map(|_| ())?),
    }
}

/// Adds a finalizer, and the annotation with the id of the ownership tag, if they are not there. Both are written before
/// the first resource is created.
pub(crate) async fn add_with_tag<K>(
    api: &Api<K>,
    object: &mut K,
    finalizer: &str,
) -> Result<(), ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let mut finalizers = object.finalizers().to_vec();
    if !finalizers.iter().any(|known| known == finalizer) {
        finalizers.push(finalizer.to_owned());
    } else if object.annotations().contains_key(OwnershipTag::ANNOTATION) {
        return Ok(());
    }
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "uid": object.uid(), "finalizers": finalizers,
        "annotations": {OwnershipTag::ANNOTATION: OwnershipTag::id(object)},
    }});
    *object = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// Removes a finalizer. An object that does not exist any more is no error.
pub(crate) async fn remove<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<(), ReconcileError>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let left: Vec<String> = object.finalizers().iter().filter(|known| *known != finalizer).cloned().collect();
    match write(api, object, &left).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => Ok(result.map(|_| ())?),
    }
}

async fn write<K>(api: &Api<K>, object: &K, finalizers: &[String]) -> Result<K, kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "uid": object.uid(), "finalizers": finalizers,
    }});
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await
}
