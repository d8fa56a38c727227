//! Observation of a remediation: its Machine, the MachineOperation of the present attempt, and others that come first.

use apiserver_types::{
    CapstanRemediation, Cluster, Machine, MachineOperation, OperationPhase, RemediationPhase,
};
use controllers_runtime::{ControllerContext, ReconcileError, paused};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::decide::{Attempt, Observed, Place};
use crate::replica_status::{is_deleting, is_false, is_unhealthy};
use crate::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL};

/// Longest part of a Machine's name in the name of a MachineOperation.
const LONGEST_NAME: usize = 40;

/// Reads the Machine that owns a remediation; `None` if it is gone or is being deleted.
///
/// # Errors
/// The API's own failure.
pub(super) async fn machine(
    context: &ControllerContext,
    remediation: &CapstanRemediation,
) -> Result<Option<Machine>, ReconcileError> {
    let owners = remediation.owner_references();
    let Some(owner) = owners.iter().find(|owner| owner.kind == "Machine") else { return Ok(None) };
    let namespace = remediation.namespace().unwrap_or_default();
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let found = api.get_opt(&owner.name).await?;
    Ok(found.filter(|it| it.metadata.uid.as_ref() == Some(&owner.uid) && !is_deleting(it)))
}

/// Reports whether a remediation waits because it, its Machine or the Cluster is paused.
///
/// # Errors
/// The API's own failure.
pub(super) async fn is_paused(
    context: &ControllerContext,
    remediation: &CapstanRemediation,
    machine: &Machine,
) -> Result<bool, ReconcileError> {
    let namespace = remediation.namespace().unwrap_or_default();
    let clusters: Api<Cluster> = Api::namespaced(context.client.clone(), &namespace);
    let cluster = clusters.get_opt(&machine.spec.cluster_name).await?;
    Ok(paused(remediation, cluster.as_ref()) || paused(machine, None))
}

/// Returns the name of the MachineOperation of a place. A pass that is repeated finds the one that was made.
pub(super) fn operation_name(remediation: &CapstanRemediation, place: Place) -> String {
    let name: String = remediation.name_any().chars().take(LONGEST_NAME).collect();
    let name = name.trim_end_matches(['.', '-']);
    let uid = remediation.uid().unwrap_or_default();
    let uid = uid.split('-').next().unwrap_or_default();
    format!("{name}-remediation-{uid}-{}-{}", place.step, place.attempt)
}

/// Observes everything that a decision needs.
///
/// # Errors
/// The API's own failure.
pub(super) async fn observe(
    context: &ControllerContext,
    remediation: &CapstanRemediation,
    machine: &Machine,
    place: Place,
) -> Result<Observed, ReconcileError> {
    let attempt = present_attempt(context, remediation, place).await?;
    let first = match attempt {
        Attempt::None => first(context, remediation, machine).await?,
        _ => None,
    };
    Ok(Observed {
        is_unhealthy: is_unhealthy(machine),
        is_marked: is_false(machine, "OwnerRemediated"),
        attempt,
        first,
        now: Timestamp::now(),
    })
}

/// Returns the state of the MachineOperation of a place, by its name. The status may not name it: its write may be lost.
async fn present_attempt(
    context: &ControllerContext,
    remediation: &CapstanRemediation,
    place: Place,
) -> Result<Attempt, ReconcileError> {
    let name = operation_name(remediation, place);
    let namespace = remediation.namespace().unwrap_or_default();
    let operations: Api<MachineOperation> = Api::namespaced(context.client.clone(), &namespace);
    let recorded = remediation.status.as_ref().and_then(|status| status.operation_name.as_deref());
    Ok(match operations.get_opt(&name).await? {
        Some(operation) => attempt(&operation),
        None if recorded == Some(name.as_str()) => Attempt::Lost,
        None => Attempt::None,
    })
}

/// Returns true if a MachineOperation is over.
pub(super) fn is_finished(operation: &MachineOperation) -> bool {
    !matches!(attempt(operation), Attempt::Unfinished)
}

fn attempt(operation: &MachineOperation) -> Attempt {
    let Some(status) = &operation.status else { return Attempt::Unfinished };
    match status.phase {
        Some(OperationPhase::Failed) => Attempt::Lost,
        Some(OperationPhase::Complete | OperationPhase::Cancelled) => {
            let ended = status.completion_time.as_ref().and_then(|time| time.0.parse::<Timestamp>().ok());
            ended.map_or(Attempt::Lost, Attempt::Ended)
        }
        Some(OperationPhase::Pending | OperationPhase::Running) | None => Attempt::Unfinished,
    }
}

/// Returns another Machine of the control plane whose remediation comes first. Two reboots at once may end the quorum
/// of etcd.
async fn first(
    context: &ControllerContext,
    remediation: &CapstanRemediation,
    machine: &Machine,
) -> Result<Option<String>, ReconcileError> {
    if !machine.labels().contains_key(CONTROL_PLANE_LABEL) {
        return Ok(None);
    }
    let namespace = remediation.namespace().unwrap_or_default();
    let api: Api<CapstanRemediation> = Api::namespaced(context.client.clone(), &namespace);
    let of_cluster = format!("{CLUSTER_NAME_LABEL}={}", machine.spec.cluster_name);
    for other in api.list(&ListParams::default().labels(&of_cluster)).await?.items {
        if other.uid() == remediation.uid() {
            continue;
        }
        let found = self::machine(context, &other).await?;
        let Some(found) = found.filter(|it| it.labels().contains_key(CONTROL_PLANE_LABEL)) else { continue };
        let attempt = present_attempt(context, &other, Place::of(other.status.as_ref())).await?;
        if comes_first(&other, &attempt, remediation) {
            return Ok(Some(found.name_any()));
        }
    }
    Ok(None)
}

/// Reports whether another remediation is in the way. Of two that have begun, only one with an unfinished operation is, so
/// that they do not wait for each other. The other one's operation counts also if the status does not show it.
fn comes_first(other: &CapstanRemediation, attempt: &Attempt, own: &CapstanRemediation) -> bool {
    let phase = |it: &CapstanRemediation| it.status.as_ref().and_then(|it| it.phase).unwrap_or_default();
    let other = match (phase(other), attempt) {
        (_, Attempt::Unfinished) => RemediationPhase::Running,
        (RemediationPhase::Pending, Attempt::Ended(_)) => RemediationPhase::Waiting,
        (recorded, _) => recorded,
    };
    match other {
        RemediationPhase::Running => true,
        RemediationPhase::Waiting => phase(own) == RemediationPhase::Pending,
        RemediationPhase::Pending | RemediationPhase::Replacing | RemediationPhase::Exhausted => false,
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{CapstanRemediationSpec, CapstanRemediationStatus};

    use super::*;

    fn in_phase(phase: RemediationPhase) -> CapstanRemediation {
        let mut remediation = CapstanRemediation::new("m", CapstanRemediationSpec::default());
        let phase = Some(phase);
        remediation.status = Some(CapstanRemediationStatus { phase, ..CapstanRemediationStatus::default() });
        remediation
    }

    #[test]
    fn of_two_remediations_of_a_control_plane_at_most_one_waits_for_the_other() {
        use RemediationPhase::{Exhausted, Pending, Replacing, Running, Waiting};
        let all = [Pending, Running, Waiting, Replacing, Exhausted];
        // One with an unfinished operation makes no other one.
        for (one, other) in all.into_iter().flat_map(|one| all.map(|other| (one, other))) {
            let (a, b) = (in_phase(one), in_phase(other));
            let both = comes_first(&a, &Attempt::None, &b) && comes_first(&b, &Attempt::None, &a);
            assert!(!both || one == Running || other == Running, "{one:?} and {other:?}");
        }
        assert!(comes_first(&in_phase(Waiting), &Attempt::None, &in_phase(Pending)));
        assert!(!comes_first(&in_phase(Replacing), &Attempt::None, &in_phase(Pending)));
    }

    #[test]
    fn an_operation_counts_also_if_the_status_does_not_show_it() {
        use RemediationPhase::{Pending, Running, Waiting};
        let ended = || Attempt::Ended(Timestamp::UNIX_EPOCH);
        let table = [
            (Pending, Attempt::None, Pending, false),
            (Pending, Attempt::Unfinished, Pending, true),
            (Pending, Attempt::Unfinished, Waiting, true),
            (Waiting, Attempt::Unfinished, Waiting, true),
            (Pending, ended(), Pending, true),
            (Pending, ended(), Waiting, false),
            (Pending, Attempt::Lost, Pending, false),
            (Running, ended(), Waiting, true),
        ];
        for (other, attempt, own, expected) in table {
            let found = comes_first(&in_phase(other), &attempt, &in_phase(own));
            assert_eq!(found, expected, "{other:?} with {attempt:?} before {own:?}");
        }
    }

    #[test]
    fn the_name_of_an_operation_is_that_of_its_place() {
        let mut remediation = in_phase(RemediationPhase::Pending);
        remediation.metadata.name = Some(format!("{}.x", "m".repeat(39)));
        remediation.metadata.uid = Some("1a2b3c4d-5e6f".to_owned());
        let name = operation_name(&remediation, Place { step: 2, attempt: 3 });
        assert_eq!(name, format!("{}-remediation-1a2b3c4d-2-3", "m".repeat(39)));
    }
}
