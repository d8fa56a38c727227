//! Changes that existing Machines get without being replaced: labels, annotations, timeouts, taints and gates.

use apiserver_types::{KubeadmControlPlane, Machine};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::desired;
use super::observe::Observed;
use super::replica::Replica;
use crate::applied::Applied;
use crate::{deletion_timeouts, templates};

/// API group of KubeadmConfigs.
const CONFIG_GROUP: &str = "bootstrap.cluster.x-k8s.io";

/// Field manager of the specs of Machines and KubeadmConfigs. Upstream's name.
pub(super) const MANAGER: &str = "capi-kubeadmcontrolplane";

/// Field manager of labels and annotations of KubeadmConfigs and infrastructure objects. Upstream's name.
const METADATA_MANAGER: &str = "capi-kubeadmcontrolplane-metadata";

/// Applies what changes in place to all Machines and their objects.
pub(super) async fn sync(
    context: &ControllerContext,
    applied: &Applied,
    control_plane: &KubeadmControlPlane,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let cluster = observed.cluster.name_any();
    for replica in &mut observed.replicas {
        if replica.is_deleting() {
            update_deleting(context, control_plane, replica).await?;
            continue;
        }
        apply_machine(context, applied, control_plane, &cluster, replica).await?;
        apply_metadata(context, applied, control_plane, &cluster, replica).await?;
    }
    Ok(())
}

async fn apply_machine(
    context: &ControllerContext,
    applied: &Applied,
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    replica: &mut Replica,
) -> Result<(), ReconcileError> {
    let wish = desired::in_place(control_plane, cluster, &replica.machine);
    let intent = serde_json::to_value(&wish).unwrap_or_default();
    let uid = replica.machine.uid().unwrap_or_default();
    if applied.is_current(&uid, &intent, &replica.machine) {
        return Ok(());
    }
    let namespace = control_plane.namespace().unwrap_or_default();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let params = PatchParams::apply(MANAGER).force();
    replica.machine = api.patch(&replica.name(), &params, &Patch::Apply(&wish)).await?;
    applied.note(&uid, &intent, &replica.machine);
    Ok(())
}

/// Applies labels and annotations to the KubeadmConfig and the infrastructure object.
pub(super) async fn apply_metadata(
    context: &ControllerContext,
    applied: &Applied,
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    replica: &Replica,
) -> Result<(), ReconcileError> {
    let namespace = control_plane.namespace().unwrap_or_default();
    let reference = &replica.machine.spec.infrastructure_ref;
    if let Some(config) = &replica.config {
        let (api, resource) = templates::api(context, &namespace, CONFIG_GROUP, "KubeadmConfig")?;
        let mut object = DynamicObject::new(&config.name_any(), &resource);
        object.metadata = config.metadata.clone();
        object.data = json!({"spec": config.spec});
        apply(&api, applied, control_plane, cluster, &object).await?;
    }
    if let Some(object) = &replica.infrastructure {
        let (api, _) = templates::api(context, &namespace, &reference.api_group, &reference.kind)?;
        apply(&api, applied, control_plane, cluster, object).await?;
    }
    Ok(())
}

async fn apply(
    api: &Api<DynamicObject>,
    applied: &Applied,
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    object: &DynamicObject,
) -> Result<(), ReconcileError> {
    if object.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let (labels, annotations) =
        (desired::labels(control_plane, cluster), desired::annotations(control_plane));
    let intent = json!([labels, annotations]);
    let uid = object.uid().unwrap_or_default();
    if applied.is_current(&uid, &intent, object) {
        return Ok(());
    }
    let written = templates::apply_metadata(api, object, &labels, &annotations, METADATA_MANAGER).await?;
    applied.note(&uid, &intent, &written);
    Ok(())
}

/// Changes the timeouts and taints of a Machine that is being deleted. All else stays as it is.
async fn update_deleting(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    replica: &mut Replica,
) -> Result<(), ReconcileError> {
    let Some(change) = deleting_machine(control_plane, &replica.machine) else { return Ok(()) };
    let namespace = control_plane.namespace().unwrap_or_default();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    replica.machine = api.patch(&replica.name(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// Returns the change of the timeouts and taints of a Machine that is being deleted, if there is one. Those that the
/// control plane does not have are removed; without a timeout of its own, the deletion of a Node has the default one.
fn deleting_machine(control_plane: &KubeadmControlPlane, live: &Machine) -> Option<Value> {
    let template = &control_plane.spec.machine_template.spec;
    let wanted = deletion_timeouts::wanted(template.deletion.as_ref());
    let taints = template.taints.as_deref().unwrap_or_default();
    let is_current = deletion_timeouts::is_current(live, &wanted)
        && live.spec.taints.as_deref().unwrap_or_default() == taints;
    let change = || {
        json!({
            "metadata": {"resourceVersion": live.resource_version()},
            "spec": {
                "deletion": deletion_timeouts::patch(&wanted),
                "taints": template.taints,
            },
        })
    };
    (!is_current).then(change)
}

#[cfg(test)]
mod tests {
    use super::super::replica::HOOK;
    use super::*;
    use crate::api_in_memory::FakeApi;

    const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/a";

    fn control_plane() -> KubeadmControlPlane {
        let template = json!({
            "metadata": {"labels": {"l": "1"}, "annotations": {"a": "1"}},
            "spec": {"infrastructureRef": {"apiGroup": "g", "kind": "KTemplate", "name": "t"},
                "deletion": {"nodeDrainTimeoutSeconds": 60}, "readinessGates": [{"conditionType": "Mine"}],
                "taints": [{"key": "k", "effect": "NoSchedule", "propagation": "Always"}]},
        });
        let spec = json!({"version": "v1.34.0", "machineTemplate": template});
        let metadata = json!({"name": "blue", "namespace": "ns", "uid": "uid"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    /// Synchronizes a Machine. Returns it as it is stored then.
    async fn synchronized(api: &FakeApi, is_deleting: bool, control_plane: &KubeadmControlPlane) -> Value {
        let deleted = is_deleting.then_some("2026-11-26T10:00:00Z");
        let reference = json!({"apiGroup": "g", "kind": "K", "name": "a"});
        let machine = json!({"metadata": {"deletionTimestamp": deleted}, "spec": {"clusterName": "blue", "version": "v1.33.0",
            "bootstrap": {"dataSecretName": "a"}, "infrastructureRef": reference}});
        api.put(MACHINE, machine);
        let machine: Machine = serde_json::from_value(api.get(MACHINE).unwrap()).unwrap();
        let mut observed =
            Observed { replicas: vec![Replica { machine, ..Replica::default() }], ..Observed::default() };
        observed.cluster.metadata.name = Some("blue".to_owned());
        let (context, applied) = (api.context("test"), Applied::default());
        for writes in [1, 0] {
            api.crash_at(None);
            sync(&context, &applied, control_plane, &mut observed).await.unwrap();
            assert_eq!(api.writes(), writes, "deleting: {is_deleting}");
        }
        api.get(MACHINE).unwrap()
    }

    #[tokio::test]
    async fn d4_a_machine_gets_metadata_timeouts_taints_and_gates_without_being_replaced() {
        let machine = synchronized(&FakeApi::default(), false, &control_plane()).await;
        let (metadata, spec) = (&machine["metadata"], &machine["spec"]);
        assert_eq!((&metadata["labels"]["l"], &metadata["annotations"]["a"]), (&json!("1"), &json!("1")));
        assert_eq!(metadata["annotations"][HOOK], "");
        assert_eq!(spec["deletion"]["nodeDrainTimeoutSeconds"], 60);
        assert_eq!(spec["taints"][0]["key"], "k");
        assert_eq!(
            spec["readinessGates"].as_array().unwrap().last(),
            Some(&json!({"conditionType": "Mine"}))
        );
        assert_eq!(spec["version"], "v1.33.0", "everything else rolls");
        assert_eq!(spec["bootstrap"]["dataSecretName"], "a", "others own it");
    }

    #[tokio::test]
    async fn d4_a_machine_that_is_being_deleted_gets_only_timeouts_and_taints() {
        let machine = synchronized(&FakeApi::default(), true, &control_plane()).await;
        assert_eq!(machine["spec"]["deletion"]["nodeDrainTimeoutSeconds"], 60);
        assert_eq!(machine["spec"]["taints"][0]["key"], "k");
        assert!(machine["spec"]["readinessGates"].is_null());
        assert!(machine["metadata"]["labels"].is_null() && machine["metadata"]["annotations"].is_null());
    }

    #[test]
    fn d4_a_machine_that_is_being_deleted_loses_the_timeouts_and_taints_that_the_control_plane_lost() {
        let reference = json!({"apiGroup": "g", "kind": "K", "name": "a"});
        let taints = json!([{"key": "k", "effect": "NoSchedule", "propagation": "Always"}]);
        let deletion = json!({"nodeDrainTimeoutSeconds": 60, "nodeDeletionTimeoutSeconds": 10});
        let spec = json!({"clusterName": "blue", "bootstrap": {}, "infrastructureRef": reference,
            "deletion": deletion, "taints": taints});
        let live: Machine = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
        let mut wish = control_plane();
        assert_eq!(deleting_machine(&wish, &live), None);
        let template = &mut wish.spec.machine_template.spec;
        (template.deletion, template.taints) = (None, None);
        let deletion = json!({"nodeDrainTimeoutSeconds": null, "nodeVolumeDetachTimeoutSeconds": null,
            "nodeDeletionTimeoutSeconds": 10});
        let change = deleting_machine(&wish, &live).unwrap();
        assert_eq!(change["spec"], json!({"deletion": deletion, "taints": null}));
    }
}
