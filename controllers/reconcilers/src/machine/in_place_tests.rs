//! Tests of the decisions on an update in place.

use apiserver_types::{ConditionStatus, MachinePhase, MachineSpec, MachineStatus, Time};

use super::super::{conditions, report};
use super::*;

const HOOK: &str = "UpdateMachine";

fn machine(marks: &[(&str, &str)]) -> Machine {
    let mut machine = Machine::new("m", MachineSpec::default());
    machine.spec.bootstrap.data_secret_name = Some("data".to_owned());
    let status = json!({"nodeRef": {"name": "n"}, "initialization": {"infrastructureProvisioned": true}});
    machine.status = serde_json::from_value(status).unwrap();
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    machine.annotations_mut().extend(marks.iter().map(owned));
    machine
}

fn both() -> Machine {
    machine(&[(UPDATING, ""), (PENDING_HOOKS, HOOK)])
}

/// Returns the objects of the Machine, marked or not.
fn observed(server: bool, config: bool) -> Observed {
    let mark = |is_marked: bool| is_marked.then(|| (UPDATING.to_owned(), String::new()));
    let mut infrastructure = OpenStackMachine::new("m", Default::default());
    infrastructure.annotations_mut().extend(mark(server));
    let mut bootstrap = KubeadmConfig::new("m", Default::default());
    bootstrap.annotations_mut().extend(mark(config));
    Observed { infrastructure: Some(infrastructure), bootstrap: Some(bootstrap), ..Observed::default() }
}

fn said(update: Update) -> Observed {
    Observed { in_place: Some(update), ..observed(true, true) }
}

const WAIT: Duration = Duration::from_secs(7);

#[test]
fn a_server_is_called_once_the_owner_has_marked_machine_and_objects() {
    let operation = Observed { update: Some("step 1/2".to_owned()), ..observed(true, true) };
    let without_config = Observed { bootstrap: None, ..observed(true, true) };
    let without_server = Observed { infrastructure: None, ..observed(true, true) };
    let mut without_node = both();
    without_node.status = Some(MachineStatus::default());
    let mut without_data = both();
    without_data.spec.bootstrap.data_secret_name = None;
    let table = [
        ("no update", machine(&[]), observed(false, false), None),
        ("the owner has not begun it yet", machine(&[(UPDATING, "")]), observed(true, true), None),
        ("all is marked", both(), observed(true, true), Some(Step::CallUpdate)),
        ("it has no config", both(), without_config, Some(Step::CallUpdate)),
        ("the server is not marked", both(), observed(false, true), None),
        ("the config is not marked", both(), observed(true, false), None),
        ("the server is gone", both(), without_server, None),
        ("it has no Node", without_node, observed(true, true), None),
        ("it has no data", without_data, observed(true, true), None),
        ("an operation updates it", both(), operation, None),
    ];
    for (case, machine, observed, expected) in table {
        assert_eq!(next_step(&machine, &observed), expected, "{case}");
    }
}

#[test]
fn a_server_is_called_again_after_its_time_and_the_marks_go_at_the_end() {
    let running = said(Update::Running("half".to_owned(), WAIT));
    let failed = said(Update::Failed("no disk".to_owned(), WAIT));
    for observed in [running, failed] {
        assert_eq!(next_step(&both(), &observed), Some(Step::AwaitUpdate(WAIT)));
    }
    assert_eq!(next_step(&both(), &said(Update::Done)), Some(Step::EndUpdate));
    // A pass was interrupted, or a person has ended the update.
    let halfway = machine(&[(PENDING_HOOKS, HOOK)]);
    assert_eq!(next_step(&halfway, &observed(true, true)), Some(Step::EndUpdate));
}

#[test]
fn the_condition_has_the_words_of_the_server() {
    let told = |machine: &Machine, observed: &Observed| {
        let found = conditions::updating(machine, observed, &Time::default());
        (found.status, found.reason, found.message)
    };
    let gone = Observed { infrastructure: None, ..observed(true, true) };
    let running = said(Update::Running("disk 1 of 2".to_owned(), WAIT));
    for (observed, reason, message) in [
        (observed(true, true), "InPlaceUpdating", "In-place update in progress"),
        (running, "InPlaceUpdating", "In-place update in progress: disk 1 of 2"),
        (said(Update::Running(String::new(), WAIT)), "InPlaceUpdating", "In-place update in progress"),
        (
            said(Update::Failed("no\ndisk".to_owned(), WAIT)),
            "InPlaceUpdateFailed",
            "In-place update failed: no disk",
        ),
        (gone, "InPlaceUpdateFailed", "In-place update failed: OpenStackMachine  does not exist"),
    ] {
        let expected = (ConditionStatus::True, reason.to_owned(), message.to_owned());
        assert_eq!(told(&both(), &observed), expected);
    }
    let (status, reason, _) = told(&machine(&[]), &observed(true, true));
    assert_eq!((status, reason.as_str()), (ConditionStatus::False, "NotUpdating"));
}

#[test]
fn a_machine_is_updated_until_the_hook_is_gone() {
    let mut halfway = machine(&[(PENDING_HOOKS, HOOK)]);
    report::report(&mut halfway, &observed(true, true), &Step::Nothing, &Time::default());
    assert_eq!(halfway.status.as_ref().unwrap().phase, Some(MachinePhase::Updating));
    assert!(!crate::replica_status::counts(&halfway, "Available"));
}
