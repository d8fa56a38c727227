//! Plan of a change of a Cluster.

use std::time::Duration;

use apiserver_types::{Cluster, ContractVersionedObjectReference, KubeadmControlPlane, MachineDeployment};
use controllers_runtime::ControllerContext;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde_json::{Value, json};

use super::cluster_plan::{ClusterPlan, Rollout};
use super::{PlanError, context, decoded, of_names};
use crate::cluster_topology::{self, Owner, Preview, Refusal};
use crate::plan::{Effect, held_by};
use crate::quota_forecast::Forecaster;
use crate::{kubeadm_control_plane, machine_deployment, templates};

/// Kind of the control planes that have a plan.
pub(super) const CONTROL_PLANE: &str = "KubeadmControlPlane";

/// Kind of the workers that have a plan.
pub(super) const WORKERS: &str = "MachineDeployment";

/// Returns the plan for a changed Cluster. `drained`: longest time of the reads for its drains.
///
/// # Errors
/// The change cannot be made, or the objects around the Cluster cannot be read.
pub(super) async fn plan(
    context: &ControllerContext,
    forecaster: &Forecaster,
    drained: Duration,
    cluster: Cluster,
) -> Result<Value, PlanError> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let preview = match cluster.spec.topology.is_some() {
        true => of_topology(context, &cluster).await?,
        false => stored(context, &cluster).await?,
    };
    let mut obstacles = held_by(&cluster, &name, Some(&cluster));
    obstacles.extend(preview.obstacles.iter().cloned());
    let templates: Vec<Value> = preview.templates.iter().map(|it| seen(context, it)).collect();
    // Its credentials are those of templates without any.
    let infrastructure = preview.infrastructure.as_ref().filter(|made| is_stored(context, made));
    let planned = json!(with_infrastructure(preview.cluster.clone(), infrastructure));
    let objects = templates.iter().chain(infrastructure).chain([&planned]);
    let context = context::with_objects(context, objects);
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
    plan.drains = of_names(&context, drained, &namespace, &plan.going()).await;
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

/// Returns a Cluster that refers to its new infrastructure, as the pass leaves it that makes the infrastructure.
fn with_infrastructure(mut cluster: Cluster, infrastructure: Option<&Value>) -> Cluster {
    if let Some(made) = infrastructure {
        let text = |pointer: &str| made.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let group = text("/apiVersion").split_once('/').map(|(group, _)| group).unwrap_or_default();
        cluster.spec.infrastructure_ref = Some(ContractVersionedObjectReference {
            api_group: group.to_owned(),
            kind: text("/kind").to_owned(),
            name: text("/metadata/name").to_owned(),
        });
    }
    cluster
}

/// Returns a template as a plan reads it. One in another version than the stored one has no content, which may have another
/// form: names and revisions are the same in all versions.
fn seen(context: &ControllerContext, template: &Value) -> Value {
    if is_stored(context, template) {
        return template.clone();
    }
    let field = |name: &str| template.get(name).cloned().unwrap_or_default();
    json!({"apiVersion": field("apiVersion"), "kind": field("kind"), "metadata": field("metadata")})
}

/// Reports whether an object is in the version in which its kind is read.
fn is_stored(context: &ControllerContext, object: &Value) -> bool {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let version = text("apiVersion");
    let group = version.split_once('/').map(|(group, _)| group).unwrap_or_default();
    templates::resource(context, group, text("kind")).is_some_and(|it| it.api_version == version)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use controllers_runtime::ServedKind;
    use http::{Request, Response};
    use kube::Client;
    use kube::api::ApiResource;
    use kube::client::Body;

    use super::*;

    #[tokio::test]
    async fn a_new_template_has_its_content_in_the_stored_version_alone() {
        let kind = ServedKind {
            resource: ApiResource {
                group: "g".to_owned(),
                version: "v2".to_owned(),
                api_version: "g/v2".to_owned(),
                kind: "Template".to_owned(),
                plural: "templates".to_owned(),
            },
            namespaced: true,
            versions: vec!["v1".to_owned(), "v2".to_owned()],
        };
        let empty = |_: Request<Body>| async { Ok::<_, kube::Error>(Response::new(Body::empty())) };
        let context = context(Client::new(tower::service_fn(empty), "default"), Arc::from([kind]));
        let template = |version: &str| json!({"apiVersion": format!("g/{version}"), "kind": "Template", "metadata": {"name": "t"}, "spec": {"a": 1}});
        assert_eq!(seen(&context, &template("v2")), template("v2"));
        let bare = json!({"apiVersion": "g/v1", "kind": "Template", "metadata": {"name": "t"}});
        assert_eq!(seen(&context, &template("v1")), bare);
    }
}
