//! Ownership of objects: owner references, and the label with the Cluster's name.

use std::fmt::Debug;

use apiserver_types::Cluster;
use controllers_runtime::ReconcileError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::CLUSTER_NAME_LABEL;

/// State of an object's adoption by an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// The object refers to the owner and has the label.
    Complete,
    /// The object lacks the reference or the label.
    Due,
    /// Another owner controls the object. For people.
    Refused(String),
}

/// Returns a reference to an owner. `controller`: the owner is the one that manages the object.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(owner: &K, controller: bool) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: controller.then_some(true),
        block_owner_deletion: controller.then_some(true),
    }
}

/// Returns a reference to a Cluster as one of several owners. Upstream's form, which does not hold up the owner's deletion.
pub(crate) fn shared<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference { block_owner_deletion: None, ..reference(owner, false) }
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

/// Returns true if the metadata of an object refers to this very owner, in the version that Capstan writes. Clients that
/// delete or describe by references, like the garbage collector of a host, find no owner of a version that is not served.
pub(crate) fn is_adopted<O: Resource<DynamicType = ()>>(object: &ObjectMeta, owner: &O) -> bool {
    let references = object.owner_references.as_deref().unwrap_or_default();
    owner.meta().uid.is_some() && has(references, &reference(owner, false))
}

/// Returns true if one of the references is to this owner, in the same version.
pub(crate) fn has(references: &[OwnerReference], owner: &OwnerReference) -> bool {
    let same = |known: &OwnerReference| known.uid == owner.uid && known.api_version == owner.api_version;
    references.iter().any(same)
}

/// Returns the references with this owner. A reference that exists gets the owner's version, and stays as it is otherwise.
pub(crate) fn with_owner(references: &[OwnerReference], owner: OwnerReference) -> Vec<OwnerReference> {
    let mut references = references.to_vec();
    match references.iter_mut().find(|known| known.uid == owner.uid) {
        Some(known) => known.api_version = owner.api_version,
        None => references.push(owner),
    }
    references
}

/// Returns the state of an object's adoption by `owner`, in the Cluster of this name.
pub(crate) fn adoption<K>(object: &K, owner: &OwnerReference, cluster: &str) -> Adoption
where
    K: Resource<DynamicType = ()>,
{
    let references = object.owner_references();
    let labelled = object.labels().get(CLUSTER_NAME_LABEL).map(String::as_str) == Some(cluster);
    if labelled && has(references, owner) {
        return Adoption::Complete;
    }
    let controls = |known: &&OwnerReference| known.controller == Some(true) && known.uid != owner.uid;
    let other = references.iter().find(controls).filter(|_| owner.controller == Some(true));
    other.map_or(Adoption::Due, |other| {
        let (kind, name) = (K::kind(&()), object.name_any());
        let message = format!(
            "{kind} {name} is already controlled by {} {}. Refer to another one",
            other.kind, other.name
        );
        Adoption::Refused(message)
    })
}

/// Returns the state of the adoption of an object that a Cluster names: its infrastructure or its control plane. The
/// Cluster owns it without controlling it, but no two Clusters share one.
pub(crate) fn part_adoption<K>(object: &K, cluster: &Cluster) -> Adoption
where
    K: Resource<DynamicType = ()>,
{
    let mut references = object.owner_references().iter();
    let other =
        references.find(|owner| owner.kind == "Cluster" && Some(&owner.uid) != cluster.uid().as_ref());
    match other {
        Some(other) => {
            let (kind, name) = (K::kind(&()), object.name_any());
            let message =
                format!("{kind} {name} already belongs to Cluster {}. Refer to another one", other.name);
            Adoption::Refused(message)
        }
        None => adoption(object, &reference(cluster, false), &cluster.name_any()),
    }
}

/// Adds the reference and the label to an object whose adoption is due.
///
/// # Errors
/// A conflict, if another client has written since.
pub(crate) async fn adopt<K>(
    api: &Api<K>,
    object: &mut K,
    owner: OwnerReference,
    cluster: &str,
) -> Result<(), ReconcileError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let owners = with_owner(object.owner_references(), owner);
    let change = json!({"metadata": {
        "resourceVersion": object.resource_version(), "uid": object.uid(),
        "labels": {CLUSTER_NAME_LABEL: cluster}, "ownerReferences": owners,
    }});
    *object = api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// Kinds that make the objects of a Machine, and own them until the Machine does.
const MAKERS: [&str; 3] = ["MachineSet", "KubeadmControlPlane", "MachinePool"];

/// Returns the owner that controls an object.
pub(crate) fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns true if an object still refers to the owner that made it for a Machine.
pub(crate) fn has_maker<K: Resource>(object: &K) -> bool {
    object.meta().owner_references.iter().flatten().any(|owner| MAKERS.contains(&owner.kind.as_str()))
}

/// Adds the reference and the label to an object of a Machine, and removes the reference to its maker.
///
/// # Errors
/// A conflict, if another client has written since.
pub(crate) async fn take_over<K>(
    api: &Api<K>,
    object: &mut K,
    owner: OwnerReference,
    cluster: &str,
) -> Result<(), ReconcileError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let owners = object.meta_mut().owner_references.get_or_insert_default();
    owners.retain(|known| !MAKERS.contains(&known.kind.as_str()));
    adopt(api, object, owner, cluster).await
}

/// Deletes the object of this name and uid. An object that does not exist any more is no error.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str, uid: Option<String>) -> Result<(), ReconcileError>
where
    K: Clone + Debug + DeserializeOwned,
{
    let preconditions = Preconditions { uid, resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(name, &params).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        result => Ok(result.map(|_| ())?),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, OpenStackCluster, OpenStackClusterSpec};

    use super::*;

    #[test]
    fn an_object_with_another_controller_is_not_adopted() {
        let cluster = |uid: &str| {
            let mut cluster = Cluster::new("c", ClusterSpec::default());
            cluster.metadata.uid = Some(uid.to_owned());
            cluster
        };
        let owner = reference(&cluster("u"), true);
        let mut object = OpenStackCluster::new("o", OpenStackClusterSpec::default());
        assert_eq!(adoption(&object, &owner, "c"), Adoption::Due);
        object.metadata.owner_references = Some(vec![reference(&cluster("another"), false)]);
        assert_eq!(adoption(&object, &owner, "c"), Adoption::Due, "an owner that does not control");
        object.metadata.owner_references = Some(vec![reference(&cluster("another"), true)]);
        assert!(matches!(adoption(&object, &owner, "c"), Adoption::Refused(_)));
        assert_eq!(adoption(&object, &reference(&cluster("u"), false), "c"), Adoption::Due);
        object.metadata.owner_references = Some(vec![owner.clone()]);
        assert_eq!(adoption(&object, &owner, "c"), Adoption::Due, "without the label");
        object.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), "c".to_owned());
        assert_eq!(adoption(&object, &owner, "c"), Adoption::Complete);
        let old = OwnerReference { api_version: "cluster.x-k8s.io/v1alpha1".to_owned(), ..owner.clone() };
        object.metadata.owner_references = Some(vec![old.clone()]);
        assert_eq!(adoption(&object, &owner, "c"), Adoption::Due, "a version that is not served");
        assert!(is_owned(&object, &cluster("u")) && !is_adopted(&object.metadata, &cluster("u")));
        assert_eq!(with_owner(&[old], reference(&cluster("u"), false)), [owner], "it still controls");
    }

    #[test]
    fn two_clusters_do_not_share_an_infrastructure() {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        let mut object = OpenStackCluster::new("o", OpenStackClusterSpec::default());
        assert_eq!(part_adoption(&object, &cluster), Adoption::Due);
        let mut other = reference(&cluster, false);
        other.uid = "another".to_owned();
        object.metadata.owner_references = Some(vec![other]);
        assert!(matches!(part_adoption(&object, &cluster), Adoption::Refused(_)));
    }
}
