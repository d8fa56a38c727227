//! Tests of the progress of a MachineDeployment.

use apiserver_types::{
    MachineDeploymentSpec, MachineSetSpec, MachineSetStatus, MachineSpec, MachineStatus, NodeReference,
    RolloutStrategy, RolloutStrategyType,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;

use super::*;

/// Second of the begin of each test.
const START: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn deployment(replicas: i32) -> MachineDeployment {
    let spec = MachineDeploymentSpec { replicas: Some(replicas), ..MachineDeploymentSpec::default() };
    MachineDeployment::new("md", spec)
}

/// Returns a set with its planned, existing, available and up-to-date replicas.
fn set(name: &str, [planned, existing, available, up_to_date]: [i32; 4]) -> MachineSet {
    let mut set = MachineSet::new(name, MachineSetSpec { replicas: Some(planned), ..Default::default() });
    set.status = Some(MachineSetStatus {
        replicas: Some(existing),
        available_replicas: Some(available),
        up_to_date_replicas: Some(up_to_date),
        ..MachineSetStatus::default()
    });
    set
}

fn machine(name: &str, conditions: &[(&str, bool, &str)]) -> Machine {
    let mut machine = Machine::new(name, MachineSpec::default());
    let conditions = conditions.iter().map(|(kind, holds, message)| {
        let status = if *holds { ConditionStatus::True } else { ConditionStatus::False };
        Condition::new(kind, status, "Reason", message, Time::default())
    });
    let conditions = Some(conditions.collect());
    machine.metadata.creation_timestamp = Some(Instant(at(0)));
    machine.status = Some(MachineStatus { conditions, ..MachineStatus::default() });
    machine
}

fn observed(sets: Vec<MachineSet>, machines: Vec<Machine>) -> Observed {
    Observed { sets, machines, ..Observed::default() }
}

/// Makes a pass: records the progress, and pauses if that is due. Returns what was recorded.
fn pass(deployment: &mut MachineDeployment, observed: &Observed, second: i64) -> Option<Record> {
    let recorded = unrecorded(deployment, observed, at(second));
    if let Some(record) = &recorded {
        deployment.annotations_mut().insert(PROGRESS.to_owned(), record.text());
    }
    if let Some(record) = stop(deployment, observed, at(second)) {
        deployment.annotations_mut().insert(PROGRESS.to_owned(), record.text());
        deployment.spec.paused = Some(true);
    }
    recorded
}

fn shown(
    deployment: &MachineDeployment,
    observed: &Observed,
    second: i64,
) -> (ConditionStatus, String, String) {
    let found = condition(deployment, observed, None, &Now::at(at(second)));
    (found.status, found.reason, found.message)
}

/// Returns the reason of the condition after a pass.
fn reason(deployment: &mut MachineDeployment, observed: &Observed, second: i64) -> String {
    pass(deployment, observed, second);
    shown(deployment, observed, second).1
}

#[test]
fn each_change_begins_the_deadline_anew() {
    let mut deployment = deployment(2);
    let building = observed(vec![set("ms", [2, 1, 0, 0])], vec![machine("a", &[])]);
    assert_eq!(reason(&mut deployment, &building, 0), "Progressing");
    assert_eq!(pass(&mut deployment, &building, 1799), None, "nothing is written while nothing changes");
    assert_eq!(progress(&deployment, &building, at(1799)), Progress::Moving(Duration::from_secs(1)));
    assert_eq!(reason(&mut deployment, &building, 1800), EXCEEDED);
    let mut node = machine("a", &[]);
    node.status.as_mut().unwrap().node_ref = Some(NodeReference::default());
    let changes = [
        observed(vec![set("ms", [2, 2, 0, 0])], vec![machine("a", &[])]),
        observed(vec![set("ms", [2, 2, 1, 0])], vec![machine("a", &[])]),
        observed(vec![set("ms", [2, 2, 1, 1])], vec![machine("a", &[])]),
        observed(vec![set("ms", [2, 2, 1, 1])], vec![machine("a", &[("BootstrapConfigReady", true, "")])]),
        observed(vec![set("ms", [2, 2, 1, 1])], vec![machine("a", &[("InfrastructureReady", true, "")])]),
        observed(vec![set("ms", [2, 2, 1, 1])], vec![node]),
        observed(vec![set("ms", [2, 2, 1, 1])], vec![machine("b", &[])]),
    ];
    for (round, change) in (1..).zip(changes) {
        assert_eq!(reason(&mut deployment, &change, round * 2000), "Progressing", "round {round}");
        assert_eq!(reason(&mut deployment, &change, round * 2000 + 1800), EXCEEDED, "round {round}");
    }
    let last = observed(
        vec![set("ms", [2, 2, 1, 1])],
        vec![machine("b", &[("InfrastructureReady", false, "again")])],
    );
    assert_eq!(pass(&mut deployment, &last, 20_000), None, "a retry within a step is no progress");
    deployment.spec.template.spec.version = Some("v2".to_owned());
    assert_eq!(reason(&mut deployment, &last, 20_000), "Progressing", "a change of the spec");
    deployment.annotations_mut().insert(INFRASTRUCTURE_REVISION.to_owned(), "2".to_owned());
    assert_eq!(reason(&mut deployment, &last, 30_000), "Progressing", "an edit of a template");
}

#[test]
fn at_rest_there_is_no_deadline_and_no_write() {
    let mut deployment = deployment(1);
    let done = observed(vec![set("ms", [1, 1, 1, 1])], vec![machine("a", &[("Available", true, "")])]);
    assert!(pass(&mut deployment, &done, 0).is_some());
    for second in [1, 1800, 1_000_000] {
        assert_eq!(pass(&mut deployment, &done, second), None);
        assert_eq!(
            shown(&deployment, &done, second),
            (ConditionStatus::True, "Complete".to_owned(), String::new())
        );
    }
    // The time of rest is not that of a blocked rollout.
    let lost = observed(vec![set("ms", [1, 1, 0, 1])], vec![machine("a", &[("Available", false, "gone")])]);
    assert_eq!(reason(&mut deployment, &lost, 1_000_001), "Progressing");
    let mut leaving = done.clone();
    leaving.machines[0].metadata.deletion_timestamp = Some(Instant(at(0)));
    assert!(!is_complete(&deployment, &leaving, at(0)));
    deployment.spec.template.spec.version = Some("v2".to_owned());
    assert!(!is_complete(&deployment, &done, at(0)), "the set is an old one");
    let strategy = RolloutStrategy { kind: RolloutStrategyType::OnDelete, ..RolloutStrategy::default() };
    deployment.spec.rollout.get_or_insert_default().strategy = Some(strategy);
    assert!(is_complete(&deployment, &done, at(0)), "a person deletes the old Machines");
}

#[test]
fn the_deadline_has_a_setting_and_an_unusable_one_is_the_default() {
    let stuck = observed(vec![set("ms", [1, 1, 0, 1])], vec![machine("a", &[])]);
    for (setting, second, expected) in [
        ("1m", 59, "Progressing"),
        ("1m", 60, EXCEEDED),
        ("2h", 7199, "Progressing"),
        ("soon", 1799, "Progressing"),
        ("soon", 1800, EXCEEDED),
        ("1s", 1799, "Progressing"),
    ] {
        let mut deployment = deployment(1);
        deployment.annotations_mut().insert(PROGRESS_DEADLINE.to_owned(), setting.to_owned());
        pass(&mut deployment, &stuck, 0);
        assert_eq!(reason(&mut deployment, &stuck, second), expected, "{setting} after {second} s");
    }
}

#[test]
fn the_message_names_the_machine_that_is_blocked_for_the_longest_time_and_its_cause() {
    let mut deployment = deployment(3);
    let fine = machine("fine", &[("Ready", true, ""), ("Available", true, "")]);
    let young = machine("young", &[("Ready", false, "* NodeHealthy: no Node")]);
    let mut old =
        machine("old", &[("Ready", false, "* InfrastructureReady: no quota\n* NodeHealthy: no Node")]);
    old.metadata.creation_timestamp = Some(Instant(at(-50)));
    let sets = vec![set("ms", [3, 3, 1, 3])];
    let mut all = observed(sets, vec![fine, young, old]);
    pass(&mut deployment, &all, 0);
    let (status, _, message) = shown(&deployment, &all, 3600);
    assert_eq!(status, ConditionStatus::False);
    let begin = "No progress for more than 30m (since 1970-01-12T13:46:40Z). ";
    let cause = "Machine old, the oldest one that is blocked, is not available: InfrastructureReady: no quota; NodeHealthy: \
        no Node";
    assert_eq!(message, format!("{begin}{cause}"));
    let mut leaving = machine("leaving", &[("Deleting", true, "* Pod a: refused")]);
    leaving.metadata.deletion_timestamp = Some(Instant(at(-99)));
    all.machines.push(leaving);
    let (_, _, message) = shown(&deployment, &all, 3600);
    assert!(!message.contains("leaving"), "not at the deadline yet: {message}");
    pass(&mut deployment, &all, 0);
    let (_, _, message) = shown(&deployment, &all, 3600);
    assert!(
        message
            .ends_with("leaving, the oldest one that is blocked, is being deleted: Reason: Pod a: refused"),
        "{message}"
    );
}

#[test]
fn without_a_blocked_machine_the_message_says_what_is_missing() {
    let mut deployment = deployment(1);
    let mut blocked = set("ms", [1, 0, 0, 0]);
    pass(&mut deployment, &observed(vec![blocked.clone()], Vec::new()), 0);
    let message = |set: &MachineSet, obstacle| {
        let observed = observed(vec![set.clone()], Vec::new());
        condition(&deployment, &observed, obstacle, &Now::at(at(1800))).message
    };
    let end = "No Machine is blocked: 0 replicas, 0 available, 0 up-to-date, 1 desired";
    assert!(message(&blocked, None).ends_with(end), "{}", message(&blocked, None));
    let text = "Scaling up from 0 to 1 replicas is blocked because:\n* T does not exist";
    let scaling = Condition::new("ScalingUp", ConditionStatus::True, "ScalingUp", text, Time::default());
    blocked.status.as_mut().unwrap().conditions = Some(vec![scaling]);
    let end = "MachineSet ms: Scaling up from 0 to 1 replicas is blocked because:; T does not exist";
    assert!(message(&blocked, None).ends_with(end), "{}", message(&blocked, None));
    let end = "No Machine can be made because T does not exist";
    assert!(message(&blocked, Some("because T does not exist")).ends_with(end));
}

#[test]
fn a_pause_stops_the_deadline_and_its_end_begins_it_anew() {
    let mut deployment = deployment(1);
    let stuck = observed(vec![set("ms", [1, 1, 0, 1])], vec![machine("a", &[])]);
    pass(&mut deployment, &stuck, 0);
    deployment.spec.paused = Some(true);
    assert_eq!(reason(&mut deployment, &stuck, 5000), "RolloutPaused");
    deployment.spec.paused = None;
    assert_eq!(reason(&mut deployment, &stuck, 6000), "Progressing");
    assert_eq!(reason(&mut deployment, &stuck, 7800), EXCEEDED);
    // The pause of the object or its Cluster.
    let paused =
        |status, second: i64| Condition::new("Paused", status, "R", "", Time(at(second).to_string()));
    let status = deployment.status.get_or_insert_default();
    status.conditions = Some(vec![paused(ConditionStatus::True, 7000)]);
    assert_eq!(reason(&mut deployment, &stuck, 9000), "Progressing", "the first pass after it");
    deployment.status.as_mut().unwrap().conditions = Some(vec![paused(ConditionStatus::False, 9000)]);
    assert_eq!(reason(&mut deployment, &stuck, 10_799), "Progressing");
    assert_eq!(reason(&mut deployment, &stuck, 10_800), EXCEEDED);
}

#[test]
fn only_with_the_annotation_the_deadline_pauses_and_it_says_so_until_it_ends() {
    let mut deployment = deployment(1);
    let stuck = observed(vec![set("ms", [1, 1, 0, 1])], vec![machine("a", &[])]);
    pass(&mut deployment, &stuck, 0);
    for action in [None, Some("delete"), Some("")] {
        action.map(|it| deployment.annotations_mut().insert(ON_DEADLINE.to_owned(), it.to_owned()));
        assert_eq!(reason(&mut deployment, &stuck, 1800), EXCEEDED);
        assert_eq!(deployment.spec.paused, None, "{action:?}");
    }
    deployment.annotations_mut().insert(ON_DEADLINE.to_owned(), PAUSE.to_owned());
    pass(&mut deployment, &stuck, 1799);
    assert_eq!(deployment.spec.paused, None);
    pass(&mut deployment, &stuck, 1800);
    assert_eq!(deployment.spec.paused, Some(true));
    assert_eq!(pass(&mut deployment, &stuck, 1801), None, "the pause is no progress");
    let (_, reason_now, message) = shown(&deployment, &stuck, 1801);
    let end = "Capstan has set spec.paused at 1970-01-12T14:16:40Z (annotation capstan.dev/on-deadline). Repair the cause, \
        then set it to false";
    assert!(reason_now == EXCEEDED && message.ends_with(end), "{message}");
    // A Machine proceeds: there is no deadline, and the text stays.
    let moved =
        observed(vec![set("ms", [1, 1, 0, 1])], vec![machine("a", &[("InfrastructureReady", true, "")])]);
    pass(&mut deployment, &moved, 1900);
    assert_eq!(
        shown(&deployment, &moved, 1900),
        (ConditionStatus::Unknown, "RolloutPaused".to_owned(), end.to_owned())
    );
    deployment.spec.paused = Some(false);
    let recorded = pass(&mut deployment, &moved, 2000).unwrap();
    assert_eq!((recorded.stopped_at, recorded.paused), (None, false));
    assert_eq!(shown(&deployment, &moved, 3799).1, "Progressing");
    assert_eq!(deployment.spec.paused, Some(false));
    pass(&mut deployment, &moved, 3800);
    assert_eq!(deployment.spec.paused, Some(true), "another time");
}

#[test]
fn an_unreadable_record_counts_as_none() {
    let mut deployment = deployment(1);
    deployment.annotations_mut().insert(PROGRESS.to_owned(), "yesterday".to_owned());
    let stuck = observed(vec![set("ms", [1, 1, 0, 1])], vec![machine("a", &[])]);
    assert_eq!(reason(&mut deployment, &stuck, 0), "Progressing");
    let record = stored(&deployment).unwrap();
    assert_eq!(record.since, Time("1970-01-12T13:46:40Z".to_owned()));
}
