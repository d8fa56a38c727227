//! Conditions of a Machine's bootstrap data, server and deletion.

use apiserver_types::{Condition, ConditionStatus, KubeadmConfig, Machine, OpenStackMachine, Time};

use super::decide::{Stage, Step};
use super::in_place::Update;
use super::observe::{Observed, Outcome, is_bootstrapped};
use super::time_limits::TimeLimit;
use super::{deletion, in_place, time_limits};
use crate::aggregate::one_line;
use crate::object_refs::{is_of, unknown_kind};
use crate::{pre_terminate, summary};

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
    if !is_of::<KubeadmConfig>(reference) {
        return no("UnknownKind", &unknown_kind::<KubeadmConfig>("spec.bootstrap.configRef", reference));
    }
    if let Some(obstacle) = &observed.bootstrap_obstacle {
        return no("NotReady", obstacle);
    }
    let Some(config) = &observed.bootstrap else {
        let name = format!("{} {}", reference.kind, reference.name);
        return match (machine.metadata.deletion_timestamp.is_some(), is_bootstrapped(machine)) {
            (true, true) => no("ObjectDeleted", &format!("{name} has been deleted")),
            (true, false) => no("ObjectDoesNotExist", &format!("{name} does not exist")),
            (false, _) => {
                let remedy = "Create it, or correct spec.bootstrap.configRef";
                no("ObjectDoesNotExist", &format!("{name} does not exist. {remedy}"))
            }
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
    if !is_of::<OpenStackMachine>(reference) {
        return no("UnknownKind", &unknown_kind::<OpenStackMachine>("spec.infrastructureRef", reference));
    }
    if let Some(obstacle) = &observed.obstacle {
        return no("NotReady", obstacle);
    }
    let Some(infrastructure) = &observed.infrastructure else { return missing(machine, now) };
    match infrastructure.condition("Ready") {
        Some(ready) => summary::mirror(kind, ready, "Ready"),
        None if observed.provisioned() => {
            Condition::new(kind, ConditionStatus::True, "Ready", "", now.clone())
        }
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
        (false, true) => ("ObjectDoesNotExist", format!("{name} does not exist")),
        (false, false) => {
            let remedy = "Create it, or correct spec.infrastructureRef";
            ("ObjectDoesNotExist", format!("{name} does not exist. {remedy}"))
        }
    };
    Condition::new("InfrastructureReady", ConditionStatus::False, reason, &message, now.clone())
}

/// Reports whether a Machine is being updated in place: by a MachineOperation, or by what its annotations stand for.
pub(super) fn is_updating(machine: &Machine, observed: &Observed) -> bool {
    observed.update.is_some() || crate::in_place::is_updating(machine)
}

/// Returns the failure of an update in place by an extension server. For people, one line.
pub(super) fn update_failure(machine: &Machine, observed: &Observed) -> Option<String> {
    let text = match &observed.in_place {
        Some(Update::Failed(text, _)) => text.clone(),
        _ => in_place::obstacle(machine, observed)?,
    };
    Some(format!("In-place update failed: {}", one_line(&text)))
}

/// Returns the condition of an update in place.
pub(super) fn updating(machine: &Machine, observed: &Observed, now: &Time) -> Condition {
    let of = |status, reason: &str, message: &str| {
        Condition::new("Updating", status, reason, message, now.clone())
    };
    if !is_updating(machine, observed) {
        return of(ConditionStatus::False, "NotUpdating", "");
    }
    if let Some(failure) = update_failure(machine, observed) {
        return of(ConditionStatus::True, "InPlaceUpdateFailed", &failure);
    }
    let of_server = match &observed.in_place {
        Some(Update::Running(message, _)) if !message.is_empty() => Some(message),
        _ => None,
    };
    let progress = observed.update.as_ref().or(of_server);
    let progress = progress.map(|progress| format!(": {}", one_line(progress))).unwrap_or_default();
    of(ConditionStatus::True, "InPlaceUpdating", &format!("In-place update in progress{progress}"))
}

/// Returns the condition of the deletion: its stage is the reason.
pub(super) fn deleting(machine: &Machine, observed: &Observed, step: &Step, now: &Time) -> Condition {
    if machine.metadata.deletion_timestamp.is_none() {
        return Condition::new("Deleting", ConditionStatus::False, "NotDeleting", "", now.clone());
    }
    let infrastructure = "WaitingForInfrastructureDeletion";
    let bootstrap = "WaitingForBootstrapDeletion";
    let (reason, message) = match step {
        Step::WaitForHook(Stage::PreDrainHook, hooks) => {
            ("WaitingForPreDrainHook", format!("Waiting for pre-drain hooks to succeed (hooks: {hooks})"))
        }
        Step::WaitForHook(_, hooks) => {
            (pre_terminate::REASON, format!("Waiting for pre-terminate hooks to succeed (hooks: {hooks})"))
        }
        Step::Wait(Stage::Drain, outcome) => {
            ("DrainingNode", text("Error draining Node", outcome, &limit(machine, observed, Stage::Drain)))
        }
        Step::ReadServer | Step::TakeOutOfService | Step::ReturnToService(_) => {
            let name = deletion::node_name(machine, observed).unwrap_or_default();
            ("DrainingNode", format!("Waiting for a change of the taints of Node {name:?}"))
        }
        Step::Wait(stage, outcome) => {
            let attempt = "Error waiting for the Node's volumes to be detached";
            ("WaitingForVolumeDetach", text(attempt, outcome, &limit(machine, observed, *stage)))
        }
        Step::DeleteInfrastructure => {
            (infrastructure, "Waiting for OpenStackMachine to be deleted".to_owned())
        }
        Step::WaitForInfrastructure(message) => (infrastructure, message.clone()),
        Step::DeleteBootstrap => (bootstrap, "Waiting for KubeadmConfig to be deleted".to_owned()),
        Step::WaitForBootstrap(message) => (bootstrap, message.clone()),
        Step::WaitForNode(outcome) => ("DeletingNode", text("Error deleting Node", outcome, "")),
        Step::Release => ("DeletionCompleted", "Deletion completed".to_owned()),
        _ => ("Deleting", "Deletion started".to_owned()),
    };
    let message = match &observed.error {
        Some(error) => format!("{message}\n{error}"),
        None => message,
    };
    Condition::new("Deleting", ConditionStatus::True, reason, &message, now.clone())
}

/// Describes how long a stage that fails has lasted, and the setting that ends it.
fn limit(machine: &Machine, observed: &Observed, stage: Stage) -> String {
    let TimeLimit { seconds, setting } = time_limits::of(machine, observed, stage);
    let since = deletion::started(machine, stage).map(|at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    let since = since.map(|at| format!(" (started at {at})")).unwrap_or_default();
    match seconds {
        Some(seconds) => format!("{since}. The Machine goes on after {seconds} s, by {setting}"),
        // A Machine's own field wins over an annotation of the Cluster, so that it always sets one.
        None => {
            format!("{since}. This has no time limit, {} of the Machine sets one", time_limits::field(stage))
        }
    }
}

fn text(attempt: &str, outcome: &Outcome, limit: &str) -> String {
    match outcome {
        Outcome::Done => String::new(),
        Outcome::Waiting(message) => message.clone(),
        Outcome::Failed(error) => format!("{attempt}: {error}{limit}"),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineDeletionSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deletion_that_is_refused_says_so() {
        let mut machine = Machine::default();
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        machine.metadata.deletion_timestamp = Some(now);
        let error = Some("OpenStackMachine m: denied by policy keep".to_owned());
        let observed = Observed { error, ..Observed::default() };
        let found = deleting(&machine, &observed, &Step::DeleteInfrastructure, &Time::default()).message;
        assert_eq!(
            found,
            "Waiting for OpenStackMachine to be deleted\nOpenStackMachine m: denied by policy keep"
        );
    }

    #[test]
    fn a_drain_that_fails_names_the_setting_that_ends_it() {
        let mut machine: Machine = serde_json::from_value(json!({
            "metadata": {"deletionTimestamp": "2026-11-26T10:00:00Z"},
            "spec": {"clusterName": "c", "bootstrap": {},
                "infrastructureRef": {"apiGroup": "g", "kind": "OpenStackMachine", "name": "m"}},
            "status": {"deletion": {"nodeDrainStartTime": "2026-11-26T10:00:01Z"}},
        }))
        .unwrap();
        let step = Step::Wait(Stage::Drain, Outcome::Failed("not connected".to_owned()));
        let observed = Observed::default();
        let message = |machine: &Machine| deleting(machine, &observed, &step, &Time::default()).message;
        let begin = "Error draining Node: not connected (started at 2026-11-26T10:00:01Z)";
        assert_eq!(
            message(&machine),
            format!(
                "{begin}. This has no time limit, spec.deletion.nodeDrainTimeoutSeconds of the Machine sets one"
            )
        );
        let deletion =
            MachineDeletionSpec { node_drain_timeout_seconds: Some(60), ..MachineDeletionSpec::default() };
        machine.spec.deletion = Some(deletion);
        assert_eq!(
            message(&machine),
            format!("{begin}. The Machine goes on after 60 s, by spec.deletion.nodeDrainTimeoutSeconds")
        );
    }
}
