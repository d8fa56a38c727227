//! Conditions of a Machine in the form of v1beta1, which clients of that version read.

use apiserver_types::{
    Condition, ConditionStatus, DeprecatedCondition, Machine, MachineDeletionStatus, MachineStatus, Time,
    condition,
};

use super::node::NodeObservation;
use super::observe::{Observed, is_bootstrapped};
use crate::deprecated_conditions::{self, Old};

/// Parts of the condition Ready, as far as they are reported.
const PARTS: [&str; 5] =
    ["InfrastructureReady", "BootstrapReady", "HealthCheckSucceeded", "OwnerRemediated", "DrainingSucceeded"];

/// Writes the conditions that belong to the Machine's controller.
pub(super) fn report(machine: &mut Machine, observed: &Observed, now: &Time) {
    let states = [
        ("BootstrapReady", bootstrap(machine, observed)),
        ("InfrastructureReady", infrastructure(machine, observed)),
        ("NodeHealthy", node(machine, observed)),
    ];
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let provisioned = machine.spec.provider_id.is_some();
    let status = machine.status.get_or_insert_default();
    let drain = if deleting { deletion(status, observed) } else { Vec::new() };
    let deprecated = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    let conditions = deprecated.conditions.get_or_insert_default();
    for (kind, state) in states.into_iter().chain(drain) {
        deprecated_conditions::set(conditions, kind, state, now);
    }
    let ready = ready(conditions, deleting || provisioned);
    deprecated_conditions::set(conditions, "Ready", ready, now);
}

/// Ready is the worst of its parts. Until there is a provider ID, it counts the finished ones.
fn ready(conditions: &[DeprecatedCondition], is_plain: bool) -> Old {
    let states: Vec<Option<Old>> =
        PARTS.iter().map(|kind| deprecated_conditions::state(conditions, kind)).collect();
    match deprecated_conditions::summary(&states) {
        Old::False(severity, reason, _) if !is_plain => {
            let done = states[..2].iter().filter(|state| **state == Some(Old::True)).count();
            Old::no(severity, &reason, format!("{done} of 2 completed"))
        }
        other => other,
    }
}

fn mirrored(found: Option<&Condition>, reached: bool, waiting: &str) -> Old {
    match found {
        Some(found) if found.holds() => Old::True,
        Some(found) => Old::no("Info", &found.reason, found.message.clone()),
        None if reached => Old::True,
        None => Old::no("Info", waiting, ""),
    }
}

fn bootstrap(machine: &Machine, observed: &Observed) -> Old {
    match &observed.bootstrap {
        None if machine.metadata.deletion_timestamp.is_some() => Old::no("Info", "Deleted", ""),
        config => {
            let found = config.as_ref().and_then(|config| config.condition("Ready"));
            mirrored(found, is_bootstrapped(machine), "WaitingForDataSecret")
        }
    }
}

fn infrastructure(machine: &Machine, observed: &Observed) -> Old {
    match &observed.infrastructure {
        None if machine.metadata.deletion_timestamp.is_some() => Old::no("Info", "Deleted", ""),
        server => {
            let found = server.as_ref().and_then(|server| server.condition("Ready"));
            mirrored(found, observed.provisioned(), "WaitingForInfrastructure")
        }
    }
}

/// Reports whether the server is gone, or is being deleted.
fn is_going(observed: &Observed) -> bool {
    observed.infrastructure.as_ref().is_none_or(|it| it.metadata.deletion_timestamp.is_some())
}

fn node(machine: &Machine, observed: &Observed) -> Old {
    let status = machine.status.as_ref();
    let known = status.is_some_and(|status| status.node_ref.is_some());
    match &observed.node {
        _ if is_going(observed) && machine.metadata.deletion_timestamp.is_some() => {
            Old::no("Info", "Deleting", "")
        }
        NodeObservation::NotFound if known => Old::no("Error", "NodeNotFound", ""),
        NodeObservation::NotFound => Old::no("Warning", "NodeProvisioning", ""),
        NodeObservation::Found(_) => {
            let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
            match condition(conditions, "NodeHealthy") {
                Some(found) if found.status == ConditionStatus::True => Old::True,
                Some(found) if found.status == ConditionStatus::Unknown => {
                    Old::Unknown("NodeConditionsFailed", found.message.clone())
                }
                Some(found) => Old::no("Warning", "NodeConditionsFailed", found.message.clone()),
                None => Old::no("Warning", "NodeProvisioning", ""),
            }
        }
        NodeObservation::NotConnected { message, .. } if known => {
            Old::Unknown("NodeInspectionFailed", message.clone())
        }
        _ => Old::no("Info", "WaitingForNodeRef", ""),
    }
}

/// Returns the conditions of the stages of a deletion that have begun.
fn deletion(status: &MachineStatus, observed: &Observed) -> Vec<(&'static str, Old)> {
    use super::observe::Outcome::{Done, Failed, Waiting};
    let begun: &MachineDeletionStatus = match &status.deletion {
        Some(begun) => begun,
        None => return Vec::new(),
    };
    let mut states = Vec::new();
    if begun.wait_for_pre_drain_hook_start_time.is_some() {
        let over = begun.node_drain_start_time.is_some();
        let state = if over { Old::True } else { Old::no("Info", "WaitingExternalHook", "") };
        states.push(("PreDrainDeleteHookSucceeded", state));
    }
    if begun.node_drain_start_time.is_some() {
        let state = match &observed.deletion.drain {
            Some(Waiting(_)) => Old::no("Info", "Draining", "Draining the node before deletion"),
            Some(Failed(error)) => Old::no("Warning", "DrainingFailed", error.clone()),
            Some(Done) | None => Old::True,
        };
        states.push(("DrainingSucceeded", state));
    }
    if begun.wait_for_node_volume_detach_start_time.is_some() {
        let state = match &observed.deletion.volumes {
            Some(Waiting(_) | Failed(_)) => {
                Old::no("Info", "WaitingForVolumeDetach", "Waiting for node volumes to be detached")
            }
            Some(Done) | None => Old::True,
        };
        states.push(("VolumeDetachSucceeded", state));
    }
    if begun.wait_for_pre_terminate_hook_start_time.is_some() {
        let over = observed.infrastructure.as_ref().is_none_or(|it| it.metadata.deletion_timestamp.is_some());
        let state = if over { Old::True } else { Old::no("Info", "WaitingExternalHook", "") };
        states.push(("PreTerminateDeleteHookSucceeded", state));
    }
    states
}
