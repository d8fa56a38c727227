//! Changes that existing Machines get without being replaced: labels, annotations, timeouts, taints and gates.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use apiserver_types::{KubeadmControlPlane, Machine};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::desired;
use super::observe::Observed;
use super::replica::Replica;
use crate::templates;

/// Field manager of the specs of Machines and KubeadmConfigs. Upstream's name, so that a field changes its owner never.
pub(super) const MANAGER: &str = "capi-kubeadmcontrolplane";

/// Field manager of labels and annotations of KubeadmConfigs and infrastructure objects. Upstream's name.
const METADATA_MANAGER: &str = "capi-kubeadmcontrolplane-metadata";

/// What was applied last, so that the same is not sent again to an object that has not changed since.
#[derive(Debug, Default)]
pub(super) struct Applied(Mutex<HashMap<String, (u64, Option<String>)>>);

impl Applied {
    fn is_current(&self, uid: &str, intent: u64, revision: Option<&str>) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(uid).is_some_and(|(known, at)| *known == intent && at.as_deref() == revision)
    }

    fn note(&self, uid: &str, intent: u64, revision: Option<String>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), (intent, revision));
    }

    fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

fn hash(intent: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    intent.to_string().hash(&mut hasher);
    hasher.finish()
}

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
            applied.forget(&replica.machine.uid().unwrap_or_default());
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
    let intent = hash(&serde_json::to_value(&wish).unwrap_or_default());
    let uid = replica.machine.uid().unwrap_or_default();
    if applied.is_current(&uid, intent, replica.machine.resource_version().as_deref()) {
        return Ok(());
    }
    let namespace = control_plane.namespace().unwrap_or_default();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let params = PatchParams::apply(MANAGER).force();
    replica.machine = api.patch(&replica.name(), &params, &Patch::Apply(&wish)).await?;
    applied.note(&uid, intent, replica.machine.resource_version());
    Ok(())
}

/// Applies labels and annotations to the KubeadmConfig and the infrastructure object.
async fn apply_metadata(
    context: &ControllerContext,
    applied: &Applied,
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    replica: &Replica,
) -> Result<(), ReconcileError> {
    let metadata = json!({
        "labels": desired::labels(control_plane, cluster), "annotations": desired::annotations(control_plane),
    });
    let namespace = control_plane.namespace().unwrap_or_default();
    if let Some(config) = replica.config.as_ref().filter(|it| it.metadata.deletion_timestamp.is_none()) {
        let (api, resource) =
            templates::api(context, &namespace, "bootstrap.cluster.x-k8s.io", "KubeadmConfig")?;
        apply(&api, &resource, applied, &config.metadata, &metadata).await?;
    }
    let infrastructure = replica.infrastructure.as_ref();
    if let Some(object) = infrastructure.filter(|it| it.metadata.deletion_timestamp.is_none()) {
        let reference = &replica.machine.spec.infrastructure_ref;
        let (api, resource) = templates::api(context, &namespace, &reference.api_group, &reference.kind)?;
        apply(&api, &resource, applied, &object.metadata, &metadata).await?;
    }
    Ok(())
}

async fn apply(
    api: &Api<DynamicObject>,
    resource: &ApiResource,
    applied: &Applied,
    of: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    metadata: &Value,
) -> Result<(), ReconcileError> {
    let name = of.name.clone().unwrap_or_default();
    let uid = of.uid.clone().unwrap_or_default();
    let mut metadata = metadata.clone();
    metadata["name"] = json!(name);
    metadata["namespace"] = json!(of.namespace);
    metadata["uid"] = json!(uid);
    let wish = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata});
    let intent = hash(&wish);
    if applied.is_current(&uid, intent, of.resource_version.as_deref()) {
        return Ok(());
    }
    let params = PatchParams::apply(METADATA_MANAGER).force();
    let written = api.patch(&name, &params, &Patch::Apply(&wish)).await?;
    applied.note(&uid, intent, written.resource_version());
    Ok(())
}

/// Changes the timeouts and taints of a Machine that is being deleted. All else stays as it is.
async fn update_deleting(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    replica: &mut Replica,
) -> Result<(), ReconcileError> {
    let template = &control_plane.spec.machine_template.spec;
    let mut change = json!({});
    if let Some(deletion) = template.deletion.as_ref().filter(|it| lacks(&replica.machine, it)) {
        change["deletion"] = json!(deletion);
    }
    if template.taints.is_some() && template.taints != replica.machine.spec.taints {
        change["taints"] = json!(template.taints);
    }
    if change.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(());
    }
    let namespace = control_plane.namespace().unwrap_or_default();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let change = json!({"metadata": {"resourceVersion": replica.machine.resource_version()}, "spec": change});
    replica.machine = api.patch(&replica.name(), &PatchParams::default(), &Patch::Merge(&change)).await?;
    Ok(())
}

/// Reports whether a Machine has other timeouts than those that are set.
fn lacks(machine: &Machine, wish: &apiserver_types::MachineDeletionSpec) -> bool {
    let current = machine.spec.deletion.clone().unwrap_or_default();
    let differs = |wish: Option<i32>, current: Option<i32>| wish.is_some() && wish != current;
    differs(wish.node_deletion_timeout_seconds, current.node_deletion_timeout_seconds)
        || differs(wish.node_drain_timeout_seconds, current.node_drain_timeout_seconds)
        || differs(wish.node_volume_detach_timeout_seconds, current.node_volume_detach_timeout_seconds)
}
