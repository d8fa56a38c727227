//! Observation of the objects around a MachineSet.

use apiserver_types::{Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachineSet};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::preflight;
use crate::machine_labels::{DEPLOYMENT_NAME, REVISION};
use crate::templates::{self, Missing};
use crate::{ownership, selectors};

/// Objects around a MachineSet.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    pub cluster: Option<Cluster>,
    /// MachineDeployment that controls the set.
    pub deployment: Option<MachineDeployment>,
    /// Machines of the set, those that are being deleted included.
    pub machines: Vec<Machine>,
    /// Machines that match the selector and have no controller.
    pub orphans: Vec<Machine>,
    /// Templates that exist, and do not refer to the Cluster yet.
    pub unowned: Vec<DynamicObject>,
    /// Templates that do not exist.
    pub missing: Vec<Missing>,
    /// Texts about references that cannot be used, whatever exists.
    pub unusable: Vec<String>,
    /// Reason and text if the set cannot be worked on at all.
    pub stuck: Option<(&'static str, String)>,
    /// Texts of the preflight checks that fail.
    pub preflight: Vec<String>,
    /// The Machines have the present metadata and settings.
    pub synced: bool,
    /// Reason and text of a Machine that could not be created in this pass.
    pub failure: Option<(&'static str, String)>,
}

/// Reads the objects around a MachineSet.
///
/// # Errors
/// The API's own failure.
pub(super) async fn observe(
    context: &ControllerContext,
    set: &MachineSet,
) -> Result<Observed, ReconcileError> {
    let mut observed = Observed::default();
    let namespace = set.namespace().unwrap_or_default();
    let clusters: Api<Cluster> = Api::namespaced(context.client.clone(), &namespace);
    observed.cluster = clusters.get_opt(&set.spec.cluster_name).await?;
    observed.deployment = deployment(context, set).await?;
    observed.stuck = stuck(set, &observed);
    machines(context, set, &mut observed).await?;
    if set.metadata.deletion_timestamp.is_some() || observed.cluster.is_none() {
        return Ok(observed);
    }
    read_templates(context, set, &mut observed).await?;
    if let Some(cluster) = &observed.cluster {
        observed.preflight = preflight::check(context, set, cluster).await?;
    }
    Ok(observed)
}

/// Reads the Machines of a set again.
pub(super) async fn machines(
    context: &ControllerContext,
    set: &MachineSet,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    let params = ListParams::default().labels(&selectors::text(&set.spec.selector));
    let listed = api.list(&params).await?.items;
    let matching =
        listed.into_iter().filter(|machine| selectors::selects(&set.spec.selector, machine.labels()));
    let (ours, others): (Vec<Machine>, Vec<Machine>) =
        matching.partition(|machine| is_controlled(machine, set));
    observed.machines = ours;
    observed.orphans = others
        .into_iter()
        .filter(|it| controller_of(it).is_none() && it.metadata.deletion_timestamp.is_none())
        .collect();
    Ok(())
}

/// Returns the MachineDeployment that controls a set.
async fn deployment(
    context: &ControllerContext,
    set: &MachineSet,
) -> Result<Option<MachineDeployment>, ReconcileError> {
    let owner = set.owner_references().iter().find(|it| it.controller == Some(true));
    let owner = owner.filter(|it| it.kind == "MachineDeployment");
    let api: Api<MachineDeployment> =
        Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    Ok(match owner {
        Some(owner) => api.get_opt(&owner.name).await?.filter(|it| it.uid().as_ref() == Some(&owner.uid)),
        None => None,
    })
}

/// Returns why a set waits for another object before anything else.
fn stuck(set: &MachineSet, observed: &Observed) -> Option<(&'static str, String)> {
    if set.metadata.deletion_timestamp.is_some() {
        return None;
    }
    if observed.cluster.is_none() {
        return Some(("ClusterNotFound", format!("Cluster {} does not exist", set.spec.cluster_name)));
    }
    let deployment = set.labels().get(DEPLOYMENT_NAME).filter(|_| observed.deployment.is_none())?;
    let message = format!(
        "MachineSet {} has the label {DEPLOYMENT_NAME}, but no MachineDeployment {deployment} controls it",
        set.name_any()
    );
    Some(("MachineDeploymentNotFound", message))
}

async fn read_templates(
    context: &ControllerContext,
    set: &MachineSet,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let Some(cluster) = observed.cluster.clone() else { return Ok(()) };
    for (field, reference) in templates::references(&set.spec.template.spec) {
        if let Some(text) = templates::unusable(context, field, reference) {
            observed.unusable.push(text);
            continue;
        }
        match templates::read(context, &set.namespace().unwrap_or_default(), reference).await? {
            None => observed.missing.push(Missing::new(field, reference)),
            Some(it) if ownership::refers_to(&it.metadata, &cluster) => {}
            Some(it) => observed.unowned.push(it),
        }
    }
    Ok(())
}

/// Returns the templates of a set: those of its bootstrap data and of its servers.
pub(super) fn template_references(
    set: &MachineSet,
) -> impl Iterator<Item = &ContractVersionedObjectReference> {
    let spec = &set.spec.template.spec;
    let references = spec.bootstrap.config_ref.iter().chain([&spec.infrastructure_ref]);
    references.filter(|reference| reference.kind.ends_with("Template"))
}

/// Returns the uid of the controller of a Machine.
fn controller_of(machine: &Machine) -> Option<&str> {
    let mut owners = machine.owner_references().iter();
    owners.find(|it| it.controller == Some(true)).map(|it| it.uid.as_str())
}

fn is_controlled(machine: &Machine, set: &MachineSet) -> bool {
    let uid = set.metadata.uid.as_deref();
    uid.is_some() && controller_of(machine) == uid
}

impl Observed {
    /// Returns true if no Machine can be created now.
    pub(super) fn is_blocked(&self) -> bool {
        !(self.preflight.is_empty() && self.missing.is_empty() && self.unusable.is_empty())
    }

    /// Returns true if the set has the present template of its MachineDeployment. One without a MachineDeployment has.
    pub(super) fn is_current(&self, set: &MachineSet) -> bool {
        self.deployment
            .as_ref()
            .is_none_or(|it| it.annotations().get(REVISION) == set.annotations().get(REVISION))
    }
}
