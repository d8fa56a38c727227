//! Conditions of a Machine's bootstrap data, server and deletion.

use apiserver_types::{Condition, ConditionStatus, Machine, Time};
use kube::ResourceExt;

use super::decide::{Stage, Step};
use super::observe::{BOOTSTRAP_KIND, INFRASTRUCTURE_KIND, Observed, Outcome, is_bootstrapped};
use crate::machine_labels::UPDATING;
use crate::summary;

/// Returns the condition of the bootstrap data.
pub(super) fn bootstrap(machine: &Machine, observed: &Observed, now: &Time) -> Condition {
    let kind = "BootstrapConfigReady";
    let new =
        |status, reason: &str, message: &str| Condition::new(kind, status, reason, message, now.clone());
    let no = |reason: &str, message: &str| new(ConditionStatus::False, reason, message);
    let Some(reference) = &machine.spec.bootstrap.config_ref else {
        return match is_bootstrapped(machine) {
            true => new(ConditionStatus::True, "DataSecretProvided", ""),
            false => {
                no("NotReady", "neither spec.bootstrap.configRef nor spec.bootstrap.dataSecretName is set")
            }
        };
    };
    if reference.kind != BOOTSTRAP_KIND {
        let message =
            format!("spec.bootstrap.configRef names a {}, which is not served here", reference.kind);
        return no("UnknownKind", &message);
    }
    if let Some(obstacle) = &observed.bootstrap_obstacle {
        return no("NotReady", obstacle);
    }
    let Some(config) = &observed.bootstrap else {
        let name = format!("{} {}", reference.kind, reference.name);
        return match machine.metadata.deletion_timestamp.is_some() && is_bootstrapped(machine) {
            true => no("ObjectDeleted", &format!("{name} has been deleted")),
            false => no("ObjectDoesNotExist", &format!("{name} does not exist")),
        };
    };
    match config.condition("Ready") {
        Some(ready) => summary::mirror(kind, ready, "Ready"),
        None if observed.data_secret().is_some() => new(ConditionStatus::True, "Ready", ""),
        None => no("NotReady", "KubeadmConfig status.initialization.dataSecretCreated is false"),
    }
}

/// Returns the condition of the server.
pub(super) fn infrastructure(machine: &Machine, observed: &Observed, now: &Time) -> Condition {
    let kind = "InfrastructureReady";
    let no = |reason: &str, message: &str| {
        Condition::new(kind, ConditionStatus::False, reason, message, now.clone())
    };
    let reference = &machine.spec.infrastructure_ref;
    if reference.kind != INFRASTRUCTURE_KIND {
        let message = format!("infrastructureRef names a {}, which is not served here", reference.kind);
        return no("UnknownKind", &message);
    }
    if let Some(obstacle) = &observed.obstacle {
        return no("NotReady", obstacle);
    }
    let Some(infrastructure) = &observed.infrastructure else { return missing(machine, now) };
    match infrastructure.condition("Ready") {
        Some(ready) => summary::mirror(kind, ready, "Ready"),
        None => no("NotReady", "OpenStackMachine status.initialization.provisioned is false"),
    }
}

fn missing(machine: &Machine, now: &Time) -> Condition {
    let name = format!("OpenStackMachine {}", machine.spec.infrastructure_ref.name);
    let initialization = machine.status.as_ref().and_then(|status| status.initialization.as_ref());
    let provisioned = initialization.and_then(|it| it.infrastructure_provisioned) == Some(true);
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let (reason, message) = match (provisioned, deleting) {
        (true, true) => ("ObjectDeleted", format!("{name} has been deleted")),
        (true, false) => ("ObjectDeleted", format!("{name} has been deleted while the Machine still exists")),
        (false, _) => ("ObjectDoesNotExist", format!("{name} does not exist")),
    };
    Condition::new("InfrastructureReady", ConditionStatus::False, reason, &message, now.clone())
}

/// Reports whether a Machine is being updated in place: by a MachineOperation, or by what its annotation stands for.
pub(super) fn is_updating(machine: &Machine, observed: &Observed) -> bool {
    observed.update.is_some() || machine.annotations().contains_key(UPDATING)
}

/// Returns the condition of an update in place.
pub(super) fn updating(machine: &Machine, observed: &Observed, now: &Time) -> Condition {
    let progress = observed.update.as_ref().map(|progress| format!(": {progress}")).unwrap_or_default();
    let (status, reason, message) = match is_updating(machine, observed) {
        true => (ConditionStatus::True, "InPlaceUpdating", format!("In-place update in progress{progress}")),
        false => (ConditionStatus::False, "NotUpdating", String::new()),
    };
    Condition::new("Updating", status, reason, &message, now.clone())
}

/// Returns the condition of the deletion: its stage is the reason.
pub(super) fn deleting(machine: &Machine, step: &Step, now: &Time) -> Condition {
    if machine.metadata.deletion_timestamp.is_none() {
        return Condition::new("Deleting", ConditionStatus::False, "NotDeleting", "", now.clone());
    }
    let infrastructure = "WaitingForInfrastructureDeletion";
    let bootstrap = "WaitingForBootstrapDeletion";
    let (reason, message) = match step {
        Step::WaitForHook(Stage::PreDrainHook, hooks) => {
            ("WaitingForPreDrainHook", format!("Waiting for pre-drain hooks to succeed (hooks: {hooks})"))
        }
        Step::WaitForHook(_, hooks) => (
            "WaitingForPreTerminateHook",
            format!("Waiting for pre-terminate hooks to succeed (hooks: {hooks})"),
        ),
        Step::Wait(Stage::Drain, outcome) => ("DrainingNode", text("Error draining Node", outcome)),
        Step::Wait(_, outcome) => {
            ("WaitingForVolumeDetach", text("Error waiting for the Node's volumes to be detached", outcome))
        }
        Step::DeleteInfrastructure => {
            (infrastructure, "Waiting for OpenStackMachine to be deleted".to_owned())
        }
        Step::WaitForInfrastructure(message) => (infrastructure, message.clone()),
        Step::DeleteBootstrap => (bootstrap, "Waiting for KubeadmConfig to be deleted".to_owned()),
        Step::WaitForBootstrap(message) => (bootstrap, message.clone()),
        Step::WaitForNode(outcome) => ("DeletingNode", text("Error deleting Node", outcome)),
        Step::Release => ("DeletionCompleted", "Deletion completed".to_owned()),
        _ => ("Deleting", "Deletion started".to_owned()),
    };
    Condition::new("Deleting", ConditionStatus::True, reason, &message, now.clone())
}

fn text(attempt: &str, outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done => String::new(),
        Outcome::Waiting(message) => message.clone(),
        Outcome::Failed(error) => format!("{attempt}: {error}"),
    }
}
