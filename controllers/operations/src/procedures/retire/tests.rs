use apiserver_types::OperationPhase;

use super::*;
use crate::core::node_drain::DRAIN;

fn observed(steps: &[(&str, StepState)]) -> Observed {
    let step = |(name, state): &(&str, StepState)| OperationStep {
        name: (*name).to_owned(),
        state: *state,
        ..OperationStep::default()
    };
    Observed { steps: steps.iter().map(step).collect(), ..Observed::default() }
}

fn word(decision: &Decision<DeleteMachine>) -> String {
    match decision {
        Decision::Record(change) => {
            let updates = change.updates.iter().map(|update| format!("{} {:?}", update.step, update.state));
            updates.collect::<Vec<_>>().join(", ")
        }
        Decision::Act(call) => format!("{:?}", call.effect),
        Decision::Wait { step, .. } => format!("wait {step}"),
        Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
    }
}

#[test]
fn a_machine_is_deleted_only_after_its_volumes_and_unless_the_operation_is_stopped() {
    use StepState::{Done, Pending, Running};
    let stop = || Some(Stop { reason: "Requested", why: "enough".to_owned() });
    let stopped = |observed: Observed| Observed { stop: stop(), ..observed };
    let drained = || observed(&[(DRAIN, Done), (VOLUMES, Pending), (DELETE, Pending), (UNCORDON, Pending)]);
    let looks = || observed(&[(DRAIN, Done), (VOLUMES, Running), (DELETE, Pending), (UNCORDON, Pending)]);
    let attached = || Observed { volumes: Some("v".to_owned()), ..looks() };
    let announced = || observed(&[(VOLUMES, Done), (DELETE, Running), (UNCORDON, Pending)]);
    let table = [
        ("drained", drained(), "AwaitVolumes Running"),
        ("stopped, drained", stopped(drained()), "Cancelled Requested"),
        ("attached", attached(), "wait AwaitVolumes"),
        ("stopped, attached", stopped(attached()), "Cancelled Requested"),
        ("attached for long", Observed { late: true, ..attached() }, "Failed VolumesNotDetached"),
        ("detached", looks(), "AwaitVolumes Done, DeleteMachine Running"),
        ("detached late", Observed { late: true, ..looks() }, "AwaitVolumes Done, DeleteMachine Running"),
        ("announced", announced(), "DeleteMachine"),
        ("stopped, announced", stopped(announced()), "Cancelled Requested"),
        (
            "deleted, answer lost",
            Observed { is_deleting: true, ..stopped(announced()) },
            "DeleteMachine Done, UncordonNode Skipped",
        ),
        (
            "another client deletes it",
            Observed { is_deleting: true, ..stopped(looks()) },
            "Cancelled Requested",
        ),
        ("another Machine", Observed { is_another: true, ..looks() }, "Failed MachineDeleted"),
        (
            "another Machine, announced",
            Observed { is_another: true, ..announced() },
            "DeleteMachine Done, UncordonNode Skipped",
        ),
        ("without a Node", observed(&[(DELETE, Pending)]), "DeleteMachine Running"),
        (
            "without a Node, deleted",
            Observed { is_deleting: true, ..observed(&[(DELETE, Running)]) },
            "DeleteMachine Done",
        ),
        ("over", stopped(observed(&[(DELETE, Done)])), "Complete Succeeded"),
    ];
    for (case, observed, expected) in table {
        assert_eq!(word(&Retire.decide(&observed)), expected, "{case}");
    }
}

#[test]
fn a_machine_that_is_gone_is_a_success_only_after_the_announcement() {
    let operation = |state| {
        let mut operation = MachineOperation::default();
        let status = operation.status.get_or_insert_default();
        status.steps = Some(observed(&[(DELETE, state)]).steps);
        operation
    };
    let phase = |state| Retire.without_machine(&operation(state)).map(|outcome| outcome.phase);
    assert_eq!(phase(StepState::Pending), None);
    assert_eq!(phase(StepState::Running), Some(OperationPhase::Complete));
    assert_eq!(phase(StepState::Done), Some(OperationPhase::Complete));
}
