//! Templates of the worker groups of a topology: their removal with the MachineDeployment or MachineSet that used them.

use std::fmt::Debug;

use apiserver_types::{MachineDeployment, MachineSet, MachineSpec};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::cluster_topology::{DEPLOYMENT, OWNED};
use crate::{CLUSTER_NAME_LABEL, ownership, templates};

/// Finalizer of a MachineDeployment of a topology. Upstream's name.
pub(crate) const OF_DEPLOYMENT: &str = "machinedeployment.topology.cluster.x-k8s.io";

/// Finalizer of a MachineSet of a topology. Upstream's name.
pub(crate) const OF_SET: &str = "machineset.topology.cluster.x-k8s.io";

/// Returns the finalizers that an object is to have: its own, and that of topologies if it belongs to one.
pub(crate) fn finalizers<K: Resource>(
    object: &K,
    own: &'static str,
    of_topology: &'static str,
) -> Vec<&'static str> {
    let is_owned = object.labels().contains_key(OWNED);
    [own].into_iter().chain(is_owned.then_some(of_topology)).collect()
}

/// Deletes the templates of an object that is being deleted, if no other one of its group uses them. An object that does
/// not belong to a topology keeps them.
///
/// # Errors
/// The API's own failure. The finalizer stays then, so that the next pass tries again.
pub(crate) async fn delete<K: Resource>(
    context: &ControllerContext,
    object: &K,
    spec: &MachineSpec,
) -> Result<(), ReconcileError> {
    let labels = object.labels();
    let (Some(cluster), Some(group)) = (labels.get(CLUSTER_NAME_LABEL), labels.get(DEPLOYMENT)) else {
        return Ok(());
    };
    if !labels.contains_key(OWNED) {
        return Ok(());
    }
    let namespace = object.namespace().unwrap_or_default();
    let of_group = format!("{CLUSTER_NAME_LABEL}={cluster},{OWNED},{DEPLOYMENT}={group}");
    let uid = object.uid();
    let sets = of::<MachineSet>(context, &namespace, &of_group).await?;
    let sets = sets.iter().filter(|it| it.uid() != uid).map(|it| &it.spec.template.spec);
    let deployments = of::<MachineDeployment>(context, &namespace, &of_group).await?;
    let deployments = deployments
        .iter()
        .filter(|it| it.uid() != uid && it.metadata.deletion_timestamp.is_none())
        .map(|it| &it.spec.template.spec);
    let others: Vec<&MachineSpec> = sets.chain(deployments).collect();
    for (_, reference) in templates::references(spec) {
        let is_used = |other: &&MachineSpec| templates::references(other).any(|(_, used)| used == reference);
        if others.iter().any(is_used) || !templates::is_served(context, reference) {
            continue;
        }
        let Some(template) = templates::read(context, &namespace, reference).await? else { continue };
        if template.labels().contains_key(OWNED) && template.labels().get(DEPLOYMENT) == Some(group) {
            let (api, _) = templates::api(context, &namespace, &reference.api_group, &reference.kind)?;
            ownership::delete(&api, &reference.name, template.uid()).await?;
        }
    }
    Ok(())
}

async fn of<K>(context: &ControllerContext, namespace: &str, labels: &str) -> Result<Vec<K>, ReconcileError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    Ok(api.list(&ListParams::default().labels(labels)).await?.items)
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSetSpec;

    use super::*;

    #[test]
    fn only_an_object_of_a_topology_has_the_second_finalizer() {
        let mut set = MachineSet::new("s", MachineSetSpec::default());
        assert_eq!(finalizers(&set, "own", OF_SET), ["own"]);
        set.labels_mut().insert(OWNED.to_owned(), String::new());
        assert_eq!(finalizers(&set, "own", OF_SET), ["own", OF_SET]);
    }
}
