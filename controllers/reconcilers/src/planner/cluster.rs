//! Plan of a change of a Cluster.

use apiserver_types::{Cluster, KubeadmControlPlane, MachineDeployment};
use controllers_runtime::ControllerContext;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use super::cluster_plan::{ClusterPlan, Rollout};
use super::{PlanError, context, decoded};
use crate::cluster_topology::{self, Owner, Preview, Refusal};
use crate::plan::{Effect, held_by};
use crate::quota_forecast::Forecaster;
use crate::{kubeadm_control_plane, machine_deployment};

/// Kind of the control planes that have a plan.
const CONTROL_PLANE: &str = "KubeadmControlPlane";

/// Kind of the workers that have a plan.
const WORKERS: &str = "MachineDeployment";

/// Returns the plan for a changed Cluster.
///
/// # Errors
/// The change cannot be made, or the objects around the Cluster cannot be read.
pub(super) async fn plan(
    context: &ControllerContext,
    forecaster: &Forecaster,
    cluster: Cluster,
) -> Result<Value, PlanError> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let preview = match cluster.spec.topology.is_some() {
        true => of_topology(context, &cluster).await?,
        false => stored(context, &cluster).await?,
    };
    let mut obstacles = held_by(&cluster, &name, Some(&cluster));
    obstacles.extend(preview.obstacles.iter().cloned());
    let planned = json!(preview.cluster);
    let templates: Vec<Value> = preview.templates.iter().map(metadata).collect();
    let context = context::with_objects(context, templates.iter().chain([&planned]));
    let mut plan = ClusterPlan { rollouts: Vec::new(), obstacles, ..ClusterPlan::default() };
    if let Some(owner) = &preview.control_plane {
        match control_plane(&context, forecaster, owner).await? {
            Ok(rollout) => plan.rollouts.push(rollout),
            Err(obstacle) => plan.obstacles.push(obstacle),
        }
    }
    for owner in &preview.deployments {
        plan.rollouts.push(deployment(&context, forecaster, owner).await?);
    }
    for gone in &preview.deleted {
        plan.rollouts.push(deletion(&context, forecaster, gone).await?);
    }
    let Preview { objects, versions, steps, .. } = preview;
    Ok(ClusterPlan { objects, versions, steps, ..plan }.object(&namespace, &name))
}

/// Returns the preview of a topology. If something is missing, its passes change nothing, and the Machines follow their
/// owners as they are.
async fn of_topology(context: &ControllerContext, cluster: &Cluster) -> Result<Preview, PlanError> {
    let preview = cluster_topology::preview(context, cluster).await.map_err(refused)?;
    if preview.control_plane.is_some() || preview.obstacles.is_empty() {
        return Ok(preview);
    }
    let Preview { control_plane, deployments, .. } = stored(context, cluster).await?;
    Ok(Preview { control_plane, deployments, ..preview })
}

/// Returns the error of a preview.
pub(super) fn refused(refusal: Refusal) -> PlanError {
    match refusal {
        Refusal::Field(path, message) => PlanError::Invalid(path.to_owned(), message),
        Refusal::Failed(error) => error.into(),
    }
}

/// Returns the owners of the Machines of a Cluster without a topology, as they are.
async fn stored(context: &ControllerContext, cluster: &Cluster) -> Result<Preview, PlanError> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let unavailable = |error: kube::Error| PlanError::Unavailable(error.to_string());
    let mut preview = Preview { cluster: cluster.clone(), ..Preview::default() };
    if let Some(reference) = cluster.spec.control_plane_ref.as_ref().filter(|it| it.kind == CONTROL_PLANE) {
        let api: Api<KubeadmControlPlane> = Api::namespaced(context.client.clone(), &namespace);
        match api.get_opt(&reference.name).await.map_err(unavailable)? {
            Some(object) => preview.control_plane = Some(Owner::unchanged(json!(object))),
            None => {
                let obstacle =
                    format!("{CONTROL_PLANE} {} of spec.controlPlaneRef does not exist", reference.name);
                preview.obstacles.push(obstacle);
            }
        }
    }
    let api: Api<MachineDeployment> = Api::namespaced(context.client.clone(), &namespace);
    let mut found = api.list(&ListParams::default()).await.map_err(unavailable)?.items;
    found.retain(|it| it.spec.cluster_name == name && it.metadata.deletion_timestamp.is_none());
    found.sort_by_key(ResourceExt::name_any);
    preview.deployments = found.iter().map(|it| Owner::unchanged(json!(it))).collect();
    Ok(preview)
}

/// Returns a template without its content: a plan compares names and revisions, and the content may have the form of
/// another version than the stored one.
fn metadata(template: &Value) -> Value {
    let field = |name: &str| template.get(name).cloned().unwrap_or_default();
    json!({"apiVersion": field("apiVersion"), "kind": field("kind"), "metadata": field("metadata")})
}

/// Returns the plan of a control plane, or why it has none.
pub(super) async fn control_plane(
    context: &ControllerContext,
    forecaster: &Forecaster,
    owner: &Owner,
) -> Result<Result<Rollout, String>, PlanError> {
    let text = |field: &str| owner.planned.get(field).and_then(Value::as_str).unwrap_or_default();
    let known = KubeadmControlPlane::api_version(&());
    if (text("kind"), text("apiVersion")) != (CONTROL_PLANE, &*known) {
        return Ok(Err(format!(
            "The Machines of the control plane have no plan: the ClusterClass has {} of {}, and only {CONTROL_PLANE} of \
             {known} has one",
            text("kind"),
            text("apiVersion")
        )));
    }
    let planned: KubeadmControlPlane = decoded(owner.planned.clone())?;
    let stored = match &owner.stored {
        Some(stored) => decoded(stored.clone())?,
        None => planned.clone(),
    };
    let plan = Box::pin(kubeadm_control_plane::plan(context, forecaster, &planned, &stored)).await?;
    Ok(Ok(Rollout { kind: CONTROL_PLANE, name: planned.name_any(), plan }))
}

/// Returns the plan of a MachineDeployment.
pub(super) async fn deployment(
    context: &ControllerContext,
    forecaster: &Forecaster,
    owner: &Owner,
) -> Result<Rollout, PlanError> {
    let planned: MachineDeployment = decoded(owner.planned.clone())?;
    let stored = match &owner.stored {
        Some(stored) => decoded(stored.clone())?,
        None => planned.clone(),
    };
    let name = planned.name_any();
    let plan = Box::pin(machine_deployment::plan(context, forecaster, planned, &stored)).await?;
    Ok(Rollout { kind: WORKERS, name, plan })
}

/// Returns the plan of a MachineDeployment that is deleted.
async fn deletion(
    context: &ControllerContext,
    forecaster: &Forecaster,
    gone: &MachineDeployment,
) -> Result<Rollout, PlanError> {
    let mut none = gone.clone();
    none.spec.replicas = Some(0);
    let mut plan = Box::pin(machine_deployment::plan(context, forecaster, none, gone)).await?;
    for machine in &mut plan.machines {
        machine.effect = Effect::Delete;
        machine.reasons = vec!["The worker group leaves the topology".to_owned()];
    }
    Ok(Rollout { kind: WORKERS, name: gone.name_any(), plan })
}
