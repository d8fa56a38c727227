//! Observation of the objects around a MachineSet.

use std::collections::BTreeMap;

use apiserver_types::{
    Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachineSet, template_revision,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::limits::{self, Limit};
use super::{preflight, spread};
use crate::kept_revisions;
use crate::machine_labels::{DEPLOYMENT_NAME, REVISION};
use crate::templates::{self, Missing};
use crate::{ownership, selectors};

/// Templates as they were when the set was made, by the field of the reference. Only those that were edited since.
pub(super) type Earlier = BTreeMap<&'static str, DynamicObject>;

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
    /// Machines of the other sets of a MachineDeployment that is spread over failure domains.
    pub siblings: Vec<Machine>,
    /// Templates that exist, and do not refer to the Cluster yet.
    pub unowned: Vec<DynamicObject>,
    /// Templates that do not exist.
    pub missing: Vec<Missing>,
    pub earlier: Earlier,
    /// Texts about references that cannot be used, whatever exists.
    pub unusable: Vec<String>,
    /// Reason and text if the set cannot be worked on at all.
    pub stuck: Option<(&'static str, String)>,
    /// Limit of the remediations of the Cluster's workers at the same time.
    pub limit_of_cluster: Option<Limit>,
    /// Texts of the preflight checks that fail.
    pub preflight: Vec<String>,
    /// The Machines have the present metadata and settings.
    pub synced: bool,
    /// The updates of moved Machines are begun, as far as that was possible.
    pub begun: bool,
    /// A moved Machine whose update could not begin.
    pub is_unbegun: bool,
    /// Nothing is left of an interrupted creation.
    pub swept: bool,
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
    limit_of_cluster(context, set, &mut observed).await?;
    read_templates(context, set, &mut observed).await?;
    siblings(context, set, &mut observed).await?;
    let obstacle = spread::obstacle(&observed);
    observed.unusable.extend(obstacle);
    if let Some(cluster) = &observed.cluster {
        observed.preflight = preflight::check(context, set, cluster).await?;
    }
    Ok(observed)
}

/// Reads the limit of the Cluster again, with the remediations in flight in its other sets.
pub(super) async fn limit_of_cluster(
    context: &ControllerContext,
    set: &MachineSet,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    observed.limit_of_cluster = limits::of_cluster(context, set, observed.cluster.as_ref()).await?;
    Ok(())
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

/// Reads the Machines of the other sets, if the MachineDeployment is spread over failure domains.
async fn siblings(
    context: &ControllerContext,
    set: &MachineSet,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let Some(deployment) = observed.deployment.as_ref().filter(|it| spread::is_spread(it)) else {
        return Ok(());
    };
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    let label = format!("{DEPLOYMENT_NAME}={}", deployment.name_any());
    let listed = api.list(&ListParams::default().labels(&label)).await?.items;
    let is_other = |it: &Machine| controller_of(it).is_some() && !is_controlled(it, set);
    observed.siblings = listed.into_iter().filter(is_other).collect();
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
        let found = templates::read(context, &set.namespace().unwrap_or_default(), reference).await?;
        let Some(template) = found else {
            observed.missing.push(Missing::new(field, reference));
            continue;
        };
        read_earlier(context, set, (field, reference), &template, observed).await?;
        if !ownership::is_adopted(&template.metadata, &cluster) {
            observed.unowned.push(template);
        }
    }
    Ok(())
}

/// Reads a template as it was when the set was made, if it was edited since. A set without a MachineDeployment has the
/// present one.
async fn read_earlier(
    context: &ControllerContext,
    set: &MachineSet,
    (field, reference): (&'static str, &ContractVersionedObjectReference),
    template: &DynamicObject,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let Some(deployment) = &observed.deployment else { return Ok(()) };
    let number = template_revision(set.annotations(), templates::revision_key(field));
    if number == templates::revision(template) {
        return Ok(());
    }
    let kept = kept_revisions::list(context, deployment).await?;
    match kept_revisions::copy(&kept, reference, number) {
        Some(copy) => drop(observed.earlier.insert(field, copy)),
        None => observed.unusable.push(format!(
            "The set has revision {number} of {} {}, and no MachineDeploymentRevision has a copy of it",
            reference.kind, reference.name
        )),
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
