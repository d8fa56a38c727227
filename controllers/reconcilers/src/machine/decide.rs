//! Decision on the next step of a Machine.

use std::time::Duration;

use apiserver_types::Machine;
use controllers_runtime::paused;
use kube::ResourceExt;
use serde_json::Value;

use super::node::NodeObservation;
use super::observe::{Observed, Outcome, is_bootstrapped};
use super::{FINALIZER, WAITING, deletion, ended_pauses, in_place, node_metadata};
use crate::CLUSTER_NAME_LABEL;
use crate::machine_labels;
use crate::ownership::{self, Adoption};

/// Interval of a Machine that waits for nothing; watches report all changes sooner.
const RESYNC: Duration = Duration::from_mins(5);

/// Interval between two attempts to drain a Node, or to see its volumes detached. Upstream's.
const DRAIN: Duration = Duration::from_secs(20);

/// Interval between two looks whether Nova has detached the volumes of a server that is off: it takes a few seconds.
const DETACHMENT: Duration = Duration::from_secs(5);

/// Interval between two attempts to delete a Node. Upstream's.
const NODE_DELETION: Duration = Duration::from_secs(2);

/// Labels of the owners that take a Machine back after a restore. Until they have, the Cluster does not own it.
const OWNER_LABELS: [&str; 3] =
    [machine_labels::SET_NAME, "cluster.x-k8s.io/pool-name", "cluster.x-k8s.io/control-plane-name"];

/// Stage of a deletion that has a start time in the status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    PreDrainHook,
    Drain,
    Volumes,
    PreTerminateHook,
}

/// Next step of a Machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Report only: the Machine or its Cluster is paused.
    Pause,
    /// Do nothing at all: the Machine is being deleted, and waits for the finalizers of others.
    Ignore,
    /// Add the finalizer.
    AddFinalizer,
    /// Add the label with the Cluster's name, and with `true` the Cluster as owner.
    Adopt(bool),
    /// Become the controller of the OpenStackMachine.
    AdoptInfrastructure,
    /// Become the controller of the KubeadmConfig.
    AdoptBootstrap,
    /// Copy the name of the Secret with the bootstrap data.
    SetDataSecret(String),
    /// Copy the OpenStackMachine's provider ID.
    SetProviderId(String),
    /// Write labels, annotations and taints of the Node.
    UpdateNode(Value),
    /// Have an extension server update the Machine in place.
    CallUpdate,
    /// Have the server go on with the update after this time.
    AwaitUpdate(Duration),
    /// Remove the marks of an update that has ended.
    EndUpdate,
    /// Nothing is left to do.
    Nothing,
    /// Wait for another system to remove its annotations, which are listed.
    WaitForHook(Stage, String),
    /// Record that a stage of the deletion begins.
    Begin(Stage),
    /// Drain the Node.
    Drain,
    /// Look whether the server of a Node that does not report is off.
    ReadServer,
    /// Taint the Node, whose server is off.
    TakeOutOfService,
    /// Remove that taint: the server may run, for this reason.
    ReturnToService(String),
    /// Have Nova detach the volumes of the server, which is off.
    DetachVolumes,
    /// Look whether the volumes of the Node are detached.
    AwaitVolumes,
    /// Wait for a stage of the deletion, which had this outcome.
    Wait(Stage, Outcome),
    /// Delete the OpenStackMachine.
    DeleteInfrastructure,
    /// Wait for the OpenStackMachine, for the reason that it gives.
    WaitForInfrastructure(String),
    /// Delete the KubeadmConfig.
    DeleteBootstrap,
    /// Wait for the KubeadmConfig.
    WaitForBootstrap(String),
    /// Delete the Node of this name.
    DeleteNode(String),
    /// Delete the Node again later.
    WaitForNode(Outcome),
    /// Remove the finalizer: nothing is left.
    Release,
}

impl Step {
    /// Reports whether a pass ends with this step, because what follows needs another observation.
    pub(super) const fn ends_pass(&self) -> bool {
        !matches!(
            self,
            Self::AddFinalizer
                | Self::Adopt(_)
                | Self::AdoptInfrastructure
                | Self::AdoptBootstrap
                | Self::SetDataSecret(_)
                | Self::SetProviderId(_)
                | Self::UpdateNode(_)
                | Self::CallUpdate
                | Self::EndUpdate
                | Self::Begin(_)
                | Self::Drain
                | Self::ReadServer
                | Self::TakeOutOfService
                | Self::ReturnToService(_)
                | Self::DetachVolumes
                | Self::AwaitVolumes
                | Self::DeleteNode(_)
        )
    }
}

impl Step {
    /// Reports whether the effect of a step is in the workload cluster.
    pub(super) const fn calls_workload(&self) -> bool {
        matches!(
            self,
            Self::UpdateNode(_)
                | Self::Drain
                | Self::TakeOutOfService
                | Self::ReturnToService(_)
                | Self::AwaitVolumes
                | Self::DeleteNode(_)
        )
    }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(machine: &Machine, observed: &Observed) -> Step {
    if paused(machine, observed.cluster.as_ref()) {
        return Step::Pause;
    }
    let is_held = machine.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    match (machine.metadata.deletion_timestamp.is_some(), is_held) {
        (true, true) => deletion::next_step(machine, observed),
        (true, false) => Step::Ignore,
        (false, false) => Step::AddFinalizer,
        (false, true) => adoption(machine, observed)
            .or_else(|| data_secret(machine, observed).map(Step::SetDataSecret))
            .or_else(|| provider_id(machine, observed).map(Step::SetProviderId))
            .or_else(|| node(machine, observed).map(Step::UpdateNode))
            .or_else(|| in_place::next_step(machine, observed))
            .unwrap_or(Step::Nothing),
    }
}

/// Returns the interval after a pass that ended with `step`.
pub(super) fn interval(step: &Step, observed: &Observed) -> Option<Duration> {
    let complete =
        observed.obstacle.is_none() && observed.infrastructure.is_some() && observed.node_failure.is_none();
    match step {
        Step::Pause | Step::Ignore | Step::Release => None,
        Step::Nothing if complete => Some(RESYNC),
        Step::Wait(Stage::Volumes, Outcome::Waiting(_)) if deletion::off(observed).is_some() => {
            Some(DETACHMENT)
        }
        Step::AwaitUpdate(wait) => Some((*wait).min(RESYNC)),
        Step::Wait(..) => Some(DRAIN),
        // The next pass looks whether the server was started.
        Step::WaitForHook(..) if deletion::off(observed).is_some() => Some(DRAIN),
        Step::WaitForNode(_) => Some(NODE_DELETION),
        _ => Some(WAITING),
    }
}

/// Reports whether a call to the workload cluster failed in a pass that ended with `step`.
pub(super) fn has_failed(step: &Step, observed: &Observed) -> bool {
    match step {
        Step::Wait(_, outcome) | Step::WaitForNode(outcome) => matches!(outcome, Outcome::Failed(_)),
        _ => observed.node_failure.is_some(),
    }
}

fn adoption(machine: &Machine, observed: &Observed) -> Option<Step> {
    let cluster = observed.cluster.as_ref()?;
    let name = cluster.name_any();
    let labelled = machine.labels().get(CLUSTER_NAME_LABEL) == Some(&name);
    let alone = is_standalone(machine) && !ownership::is_adopted(&machine.metadata, cluster);
    if !labelled || alone {
        return Some(Step::Adopt(alone));
    }
    let owner = ownership::reference(machine, true);
    if let Some(it) = &observed.infrastructure {
        let due = ownership::adoption(it, &owner, &name) == Adoption::Due || ownership::has_maker(it);
        if due {
            return Some(Step::AdoptInfrastructure);
        }
    }
    let it = observed.bootstrap.as_ref()?;
    let due = ownership::adoption(it, &owner, &name) == Adoption::Due || ownership::has_maker(it);
    due.then_some(Step::AdoptBootstrap)
}

/// Reports whether a Machine belongs to no set, pool or control plane.
fn is_standalone(machine: &Machine) -> bool {
    let labels = machine.labels();
    ownership::controller_of(machine).is_none()
        && !OWNER_LABELS.iter().any(|label| labels.contains_key(*label))
}

/// Returns the name of the Secret with the bootstrap data, if the Machine lacks it.
fn data_secret(machine: &Machine, observed: &Observed) -> Option<String> {
    if is_bootstrapped(machine) {
        return None;
    }
    observed.data_secret().map(str::to_owned)
}

/// Returns the provider ID of a server that was complete once, if the Machine has another or none.
fn provider_id(machine: &Machine, observed: &Observed) -> Option<String> {
    let found = observed.infrastructure.as_ref()?.spec.provider_id.clone()?;
    (observed.provisioned() && machine.spec.provider_id.as_ref() != Some(&found)).then_some(found)
}

fn node(machine: &Machine, observed: &Observed) -> Option<Value> {
    match &observed.node {
        // The next pass tries again.
        _ if observed.node_failure.is_some() => None,
        NodeObservation::Found(node) => {
            let patch = node_metadata::patch(machine, observed, node);
            let by = ended_pauses::cordoned_by(node);
            if by.is_some() && by == observed.ends_cordon.as_deref() {
                return Some(ended_pauses::uncordon(node, patch));
            }
            patch
        }
        _ => None,
    }
}
