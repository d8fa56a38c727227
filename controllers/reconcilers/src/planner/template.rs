//! Plan of a changed template: the rollouts of all owners of Machines that use it.

use std::fmt::Debug;
use std::time::Duration;

use apiserver_types::{ContractVersionedObjectReference, KubeadmControlPlane, MachineDeployment};
use controllers_runtime::ControllerContext;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster_plan::ClusterPlan;
use super::{PlanError, cluster, context, of_names};
use crate::cluster_topology::Owner;
use crate::quota_forecast::Forecaster;
use crate::templates;

/// Returns the plans of all owners of Machines that refer to a changed template. `drained`: longest time of the reads for
/// their drains.
///
/// # Errors
/// The objects around it cannot be read.
pub(super) async fn plan(
    context: &ControllerContext,
    forecaster: &Forecaster,
    drained: Duration,
    template: &Value,
) -> Result<Value, PlanError> {
    let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let context = context::with_objects(context, [template]);
    let mut plan = ClusterPlan::default();
    let mut control_planes: Vec<KubeadmControlPlane> = present(&context, namespace).await?;
    control_planes.retain(|it| names(&it.spec.machine_template.spec.infrastructure_ref, template));
    for control_plane in &control_planes {
        let owner = Owner::unchanged(json!(control_plane));
        match cluster::control_plane(&context, forecaster, &owner).await? {
            Ok(rollout) => plan.rollouts.push(rollout),
            Err(obstacle) => plan.obstacles.push(obstacle),
        }
    }
    let mut deployments: Vec<MachineDeployment> = present(&context, namespace).await?;
    deployments.retain(|it| {
        templates::references(&it.spec.template.spec).any(|(_, reference)| names(reference, template))
    });
    for deployment in &deployments {
        let owner = Owner::unchanged(json!(deployment));
        plan.rollouts.push(cluster::deployment(&context, forecaster, &owner).await?);
    }
    plan.drains = of_names(&context, drained, namespace, &plan.going()).await;
    Ok(plan.object(namespace, name))
}

/// Returns the objects of a namespace that are not being deleted, in the order of their names.
async fn present<K>(context: &ControllerContext, namespace: &str) -> Result<Vec<K>, PlanError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(context.client.clone(), namespace);
    let listed = api.list(&ListParams::default()).await;
    let mut found = listed.map_err(|error| PlanError::Unavailable(error.to_string()))?.items;
    found.retain(|it| it.meta().deletion_timestamp.is_none());
    found.sort_by_key(ResourceExt::name_any);
    Ok(found)
}

/// Reports whether a reference names a template.
fn names(reference: &ContractVersionedObjectReference, template: &Value) -> bool {
    let text = |pointer: &str| template.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    let named = [reference.api_group.as_str(), reference.kind.as_str(), reference.name.as_str()];
    named == [group, text("/kind"), text("/metadata/name")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_names_a_template_in_any_version_by_group_kind_and_name() {
        let reference = ContractVersionedObjectReference {
            api_group: "infrastructure.cluster.x-k8s.io".to_owned(),
            kind: "OpenStackMachineTemplate".to_owned(),
            name: "a".to_owned(),
        };
        let template = |group: &str, kind: &str, name: &str| json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "metadata": {"name": name}});
        let (group, kind) = (reference.api_group.clone(), reference.kind.clone());
        assert!(names(&reference, &template(&group, &kind, "a")));
        assert!(!names(&reference, &template(&group, &kind, "b")));
        assert!(!names(&reference, &template(&group, "OpenStackCluster", "a")));
        assert!(!names(&reference, &template("other.example.com", &kind, "a")));
    }
}
