use super::*;

fn observed(steps: &[(&str, StepState)]) -> Observed {
    let step = |(name, state): &(&str, StepState)| OperationStep {
        name: (*name).to_owned(),
        state: *state,
        message: Some(format!("message of {name}")),
        ..OperationStep::default()
    };
    Observed { steps: steps.iter().map(step).collect(), stop: None }
}

fn word(decision: &Decision<Infallible>) -> String {
    match decision {
        Decision::Record(change) => {
            let updates = change.updates.iter().map(|update| format!("{} {:?}", update.step, update.state));
            updates.collect::<Vec<_>>().join(", ")
        }
        Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_drained_node_stays_cordoned_unless_the_operation_is_stopped_before_its_end() {
    use StepState::{Done, Failed, Pending, Running, Skipped};
    let stop = || Some(Stop { reason: "Requested", why: "enough".to_owned() });
    let stopped = |observed: Observed| Observed { stop: stop(), ..observed };
    let drained = || observed(&[(DRAIN, Done), (UNCORDON, Pending)]);
    let forced = |state| observed(&[(DRAIN, Failed), (DELETE_PODS, state), (UNCORDON, Pending)]);
    let over = || observed(&[(DRAIN, Done), (UNCORDON, Skipped)]);
    let table = [
        ("drained", drained(), "UncordonNode Skipped"),
        ("stopped, drained", stopped(drained()), "Cancelled Requested"),
        ("by force", forced(Done), "UncordonNode Skipped"),
        ("by force, and Pods are left", forced(Failed), "UncordonNode Skipped"),
        ("over", over(), "Complete Succeeded"),
        ("stopped, over", stopped(over()), "Complete Succeeded"),
        ("restored while it drained", observed(&[(DRAIN, Running), (UNCORDON, Pending)]), "Failed Restored"),
        ("restored before it drained", observed(&[(DRAIN, Pending), (UNCORDON, Pending)]), "Failed Restored"),
        ("restored while it deleted", forced(Running), "Failed Restored"),
        ("without a Node", observed(&[]), "Failed Unsupported"),
    ];
    for (case, observed, expected) in table {
        assert_eq!(word(&Drain.decide(&observed)), expected, "{case}");
    }
}

#[test]
fn the_result_of_a_drain_by_force_says_what_was_given_up() {
    let steps =
        [(DRAIN, StepState::Failed), (DELETE_PODS, StepState::Failed), (UNCORDON, StepState::Skipped)];
    let Decision::End(outcome) = Drain.decide(&observed(&steps)) else { panic!("it is over") };
    assert!(outcome.message.contains("by force: message of DeletePods"), "{}", outcome.message);
}
