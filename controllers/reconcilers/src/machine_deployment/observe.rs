//! Observation of the objects around a MachineDeployment.

use apiserver_types::{Cluster, Machine, MachineDeployment, MachineDeploymentRevision, MachineSet};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::in_place::InPlace;
use super::template_revisions::Template;
use crate::templates::{self, Missing};
use crate::{kept_revisions, ownership, selectors};

/// Objects around a MachineDeployment.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub cluster: Option<Cluster>,
    /// MachineSets that the MachineDeployment controls, in order of creation.
    pub sets: Vec<MachineSet>,
    /// MachineSets that match the selector and have no controller.
    pub orphans: Vec<MachineSet>,
    /// Machines of the sets.
    pub machines: Vec<Machine>,
    /// Templates that exist, and do not refer to the Cluster yet.
    pub unowned: Vec<DynamicObject>,
    /// Templates that exist.
    pub templates: Vec<Template>,
    /// Revisions that are kept, newest first.
    pub revisions: Vec<MachineDeploymentRevision>,
    /// Templates that do not exist.
    pub missing: Vec<Missing>,
    /// Texts about references that cannot be used, whatever exists.
    pub unusable: Vec<String>,
    /// Why the project has no room for a surplus Machine. The rollout can do without.
    pub shortage: Option<String>,
    /// Judgement on updates in place.
    pub in_place: InPlace,
    /// The sets have the planned numbers and the present metadata and settings.
    pub rolled: bool,
}

/// Reads the objects around a MachineDeployment.
///
/// # Errors
/// The API's own failure.
pub(super) async fn observe(
    context: &ControllerContext,
    deployment: &MachineDeployment,
) -> Result<Observed, ReconcileError> {
    let mut observed = Observed::default();
    let namespace = deployment.namespace().unwrap_or_default();
    let clusters: Api<Cluster> = Api::namespaced(context.client.clone(), &namespace);
    observed.cluster = clusters.get_opt(&deployment.spec.cluster_name).await?;
    sets(context, deployment, &mut observed).await?;
    let Some(cluster) = observed.cluster.clone().filter(|_| deployment.metadata.deletion_timestamp.is_none())
    else {
        return Ok(observed);
    };
    for (field, reference) in templates::references(&deployment.spec.template.spec) {
        if let Some(text) = templates::unusable(context, field, reference) {
            observed.unusable.push(text);
            continue;
        }
        let Some(object) = templates::read(context, &namespace, reference).await? else {
            observed.missing.push(Missing::new(field, reference));
            continue;
        };
        if !ownership::is_adopted(&object.metadata, &cluster) {
            observed.unowned.push(object.clone());
        }
        observed.templates.push(Template { field, object });
    }
    observed.revisions = kept_revisions::list(context, deployment).await?;
    Ok(observed)
}

/// Reads the sets and their Machines again.
pub(super) async fn sets(
    context: &ControllerContext,
    deployment: &MachineDeployment,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let namespace = deployment.namespace().unwrap_or_default();
    let selector = &deployment.spec.selector;
    let api: Api<MachineSet> = Api::namespaced(context.client.clone(), &namespace);
    let all = api.list(&ListParams::default()).await?.items;
    let own = deployment.metadata.uid.as_deref();
    let (mut ours, others): (Vec<MachineSet>, Vec<MachineSet>) =
        all.into_iter().partition(|set| own.is_some() && controller_of(&set.metadata) == own);
    ours.sort_by_key(|set| {
        (set.metadata.creation_timestamp.as_ref().map(|created| created.0), set.name_any())
    });
    observed.orphans = others
        .into_iter()
        .filter(|set| controller_of(&set.metadata).is_none() && set.metadata.deletion_timestamp.is_none())
        .filter(|set| selectors::selects(selector, set.labels()))
        .collect();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let listed = api.list(&ListParams::default().labels(&selectors::text(selector))).await?.items;
    let is_of = |machine: &Machine| {
        let controller = controller_of(&machine.metadata);
        controller.is_some() && ours.iter().any(|set| set.metadata.uid.as_deref() == controller)
    };
    observed.machines = listed.into_iter().filter(is_of).collect();
    observed.sets = ours;
    Ok(())
}

/// Returns the uid of the controller of an object.
fn controller_of(object: &ObjectMeta) -> Option<&str> {
    let mut owners = object.owner_references.iter().flatten();
    owners.find(|it| it.controller == Some(true)).map(|it| it.uid.as_str())
}
