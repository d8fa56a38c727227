//! Whose an object is: owner references and the cluster's label.

use std::fmt::Debug;

use controllers_runtime::ReconcileError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::CLUSTER_NAME_LABEL;

/// A reference to an owner. `controller`: whether it is the one that manages the object.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(owner: &K, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: controller.then_some(true),
        block_owner_deletion: Some(true),
    }
}

/// Returns true if an object refers to this very owner.
pub(crate) fn is_owned<K: Resource, O: Resource>(object: &K, owner: &O) -> bool {
    refers_to(object.meta(), owner)
}

/// Returns true if the metadata of an object refers to this very owner.
pub(crate) fn refers_to<O: Resource>(object: &ObjectMeta, owner: &O) -> bool {
    let uid = owner.meta().uid.as_ref();
    let mut references = object.owner_references.iter().flatten();
    uid.is_some() && references.any(|reference| Some(&reference.uid) == uid)
}

/// Makes an object bear its cluster's label and refer to its owner.
///
/// # Errors
/// `Waiting` when another object controls it already.
pub(crate) async fn take<K>(
    api: &Api<K>,
    object: &mut K,
    owner: OwnerReference,
    cluster: &str,
) -> Result<(), ReconcileError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let labelled = object.labels().get(CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster);
    let owned = object.owner_references().iter().any(|known| known.uid == owner.uid);
    if labelled && owned {
        return Ok(());
    }
    let other = object
        .owner_references()
        .iter()
        .find(|known| known.controller == Some(true) && known.uid != owner.uid);
    if let Some(other) = other.filter(|_| owner.controller == Some(true)) {
        let message = format!(
            "{} {} is controlled by {} {} already. Refer to another",
            K::kind(&()),
            object.name_any(),
            other.kind,
            other.name
        );
        return Err(ReconcileError::waiting("ControlledByAnother", message));
    }
    let mut owners = object.owner_references().to_vec();
    if !owned {
        owners.push(owner);
    }
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "uid": object.uid(),
        "labels": {CLUSTER_NAME_LABEL: cluster}, "ownerReferences": owners,
    }});
    *object = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}
