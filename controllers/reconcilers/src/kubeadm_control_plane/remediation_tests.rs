//! Tests of the decision on unhealthy Machines, by the rows of the specification.

use apiserver_types::ConditionStatus;
use serde_json::json;

use super::super::etcd_projection::Member;
use super::super::inspection::{Inspection, Workload};
use super::super::remediation_record::FOR;
use super::super::replica::examples::{addressed, going, healthy, off, replica, set};
use super::*;

/// Second of the observation.
const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Returns a Machine that its health check found unhealthy.
fn sick(mut replica: Replica) -> Replica {
    for kind in ["HealthCheckSucceeded", OWNER_REMEDIATED] {
        set(&mut replica, kind, ConditionStatus::False);
    }
    replica
}

/// Returns a Machine whose Node does not report any more.
fn lost(name: &str) -> Replica {
    let mut replica = sick(healthy(name, 1));
    for kind in Replica::components(true) {
        set(&mut replica, kind, ConditionStatus::Unknown);
    }
    replica
}

fn observed(replicas: Vec<Replica>) -> Observed {
    let named = replicas.iter().filter_map(|it| it.node());
    let members = named.map(|name| Member { name: name.to_owned(), ..Member::default() }).collect();
    let reached = Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members: Ok(members) };
    Observed { replicas, workload: Workload::Reached(reached), now: at(NOW), ..Observed::default() }
}

fn control_plane(remediation: serde_json::Value) -> KubeadmControlPlane {
    let mut control_plane = KubeadmControlPlane::default();
    control_plane.spec.replicas = Some(3);
    control_plane.spec.version = "v1.33.0".to_owned();
    control_plane.spec.remediation = serde_json::from_value(remediation).unwrap();
    control_plane.status =
        serde_json::from_value(json!({"initialization": {"controlPlaneInitialized": true}})).unwrap();
    control_plane
}

fn noted(mut control_plane: KubeadmControlPlane, record: &Record) -> KubeadmControlPlane {
    control_plane.annotations_mut().insert(IN_PROGRESS.to_owned(), record.text());
    control_plane
}

/// Returns the decision where the control plane would make a Machine next.
fn decided(control_plane: &KubeadmControlPlane, observed: &Observed) -> Remediation {
    plan(control_plane, observed, &Step::Create(super::super::config::Start::Join, None))
}

/// Returns the outcome in a word: the Machine and the retries of a deletion, or the reason of a mark.
fn outcome(control_plane: &KubeadmControlPlane, observed: &Observed) -> String {
    let plan = decided(control_plane, observed);
    match (plan.deletion, plan.marks.first()) {
        (Some(record), _) => format!("{} {}", record.machine, record.retry_count),
        (None, Some(mark)) => format!("{}: {}", mark.reason, mark.message),
        (None, None) => "nothing".to_owned(),
    }
}

/// Returns a control plane whose etcd is external.
fn external() -> KubeadmControlPlane {
    let mut external = control_plane(json!({}));
    let etcd = json!({"clusterConfiguration": {"etcd": {"external": {
        "endpoints": ["https://e"], "caFile": "a", "certFile": "b", "keyFile": "c"}}}});
    external.spec.kubeadm_config_spec = serde_json::from_value(etcd).unwrap();
    external
}

/// Returns five Machines, of which the first ones are lost.
fn five(unhealthy: usize) -> Observed {
    let machine = |index: usize| {
        let name = index.to_string();
        if index < unhealthy { lost(&name) } else { healthy(&name, 1) }
    };
    observed((0..5).map(machine).collect())
}

#[test]
fn d6_each_row_has_its_outcome() {
    let plain = || control_plane(json!({}));
    let others = || vec![healthy("b", 2), healthy("c", 3)];
    let with = |first: Replica| [vec![first], others()].concat();
    let mut waits = plain();
    waits.spec.version = "v1.32.0".to_owned();
    let mut of_topology = observed(with(lost("a")));
    of_topology.cluster.spec.topology =
        serde_json::from_value(json!({"classRef": {"name": "c"}, "version": "v1.33.0"})).unwrap();
    let mut first = plain();
    first.status = None;
    let mut boots = observed(vec![sick(replica("a", 1))]);
    boots.workload = Workload::NotInitialized { message: String::new(), failed: false };
    let unknown = || {
        let members = Err("etcd does not answer".to_owned());
        let reached = Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members };
        Observed { workload: Workload::Reached(reached), ..observed(with(lost("a"))) }
    };
    let external = external();
    let mut broken = healthy("b", 2);
    set(&mut broken, "SchedulerPodHealthy", ConditionStatus::False);
    let without_node = || sick(replica("a", 1));
    let table = [
        ("none is unhealthy", plain(), observed(others()), "nothing"),
        ("1: it is deleted already", plain(), observed(with(going(lost("a")))), "nothing"),
        ("2: the version of the topology", waits, of_topology, "RemediationDeferred: Waiting for a version"),
        ("6: the first Machine", first, boots, "a 0"),
        (
            "7: the only Machine",
            plain(),
            observed(vec![lost("a")]),
            "CannotBeRemediated: Machine a is the only one",
        ),
        (
            "8: another one joins",
            plain(),
            observed(with(lost("a")).into_iter().chain([replica("d", 4)]).collect()),
            "RemediationDeferred: Waiting for Machine d to get a Node",
        ),
        (
            "8: another one leaves",
            plain(),
            observed(with(lost("a")).into_iter().chain([going(healthy("d", 4))]).collect()),
            "RemediationDeferred: Waiting for the deletion of Machine d",
        ),
        (
            "9: members unknown",
            plain(),
            unknown(),
            "RemediationDeferred: Waiting for the Nodes and the members",
        ),
        ("9: not with an external etcd", external.clone(), unknown(), "a 0"),
        ("10: one of three", plain(), observed(with(lost("a"))), "a 0"),
        (
            "10: two of three",
            plain(),
            observed(vec![lost("a"), lost("b"), healthy("c", 3)]),
            "CannotBeRemediated: Machine a is not replaced, because etcd would lose its quorum without it: 1 of 2 voting \
             members healthy, 2 required",
        ),
        ("10: two of five", plain(), five(2), "0 0"),
        (
            "10: three of five",
            plain(),
            five(3),
            "CannotBeRemediated: Machine 0 is not replaced, because etcd",
        ),
        (
            "10: no other one works",
            external,
            observed(vec![lost("a"), broken.clone()]),
            "CannotBeRemediated: Machine a is not replaced, because no other control plane Machine",
        ),
        ("10: it has no member", plain(), observed(with(without_node())), "a 0"),
    ];
    for (case, control_plane, observed, expected) in table {
        let found = outcome(&control_plane, &observed);
        assert!(found.starts_with(expected), "{case}: {found}");
    }
}

#[test]
fn d6_retries_follow_the_policy_of_the_control_plane() {
    let replacement = |age: i64, count: i32| {
        let mut replica = lost("a");
        let record = Record::new("before".to_owned(), at(NOW - age), count);
        replica.machine.annotations_mut().insert(FOR.to_owned(), record.text());
        observed(vec![replica, healthy("b", 2), healthy("c", 3)])
    };
    let policy = json!({"maxRetry": 2, "retryPeriodSeconds": 60, "minHealthyPeriodSeconds": 600});
    let (deferred, refused) =
        ("RemediationDeferred: Machine a replaced", "CannotBeRemediated: Machine a replaced");
    let table = [
        ("within the period", policy.clone(), 59, 0, deferred),
        ("after the period", policy.clone(), 60, 0, "a 1"),
        ("the last retry", policy.clone(), 60, 1, "a 2"),
        ("no retry is left", policy.clone(), 60, 2, refused),
        ("the period comes first", policy.clone(), 59, 2, deferred),
        ("just before the end of the sequence", policy.clone(), 599, 2, refused),
        ("a new sequence", policy, 600, 2, "a 0"),
        ("no limit, no period", json!({}), 0, 7, "a 8"),
        ("the default length of a sequence", json!({}), 3599, 7, "a 8"),
        ("the default length is over", json!({}), 3600, 7, "a 0"),
        ("no retry at all", json!({"maxRetry": 0}), 1, 0, refused),
    ];
    for (case, policy, age, count, expected) in table {
        let found = outcome(&control_plane(policy), &replacement(age, count));
        assert!(found.starts_with(expected), "{case}: {found}");
    }
    let policy = json!({"retryPeriodSeconds": 60});
    let waits = decided(&control_plane(policy), &replacement(45, 0)).wait;
    assert_eq!(waits, Some(Duration::from_secs(15)), "the pass is made again when the period is over");
}

#[test]
fn d6_a_pass_that_ended_after_the_record_is_continued_with_the_same_count() {
    let record = Record::new("a".to_owned(), at(NOW - 5), 3);
    let control_plane = noted(control_plane(json!({"maxRetry": 3})), &record);
    let machines = || vec![lost("a"), healthy("b", 2), healthy("c", 3)];
    let continued = decided(&control_plane, &observed(machines()));
    assert_eq!((continued.deletion, continued.is_over), (Some(record), false));
    let deleted = observed(vec![lost("b"), healthy("c", 3)]);
    let found = decided(&control_plane, &deleted);
    assert_eq!(found, Remediation::default(), "row 1: no other Machine until the replacement exists");
}

/// Two Machines waited for each other for good: the replacement of a Machine that had never joined, for the health of
/// another one, and that one for the replacement.
#[test]
fn d6_a_machine_that_keeps_the_replacement_of_another_from_joining_is_replaced_too() {
    let record = Record::new("never-joined".to_owned(), at(NOW - 5), 2);
    let noted = noted(control_plane(json!({})), &record);
    let mut wider = noted.clone();
    wider.spec.replicas = Some(5);
    let blocked = |is_up| {
        Step::Block(preflight::Blocked { reasons: Vec::new(), interval: AGAIN, is_unhealthy: false, is_up })
    };
    let three = || observed(vec![lost("a"), healthy("b", 2), healthy("c", 3)]);
    let found = plan(&wider, &three(), &blocked(true)).deletion.unwrap();
    assert_eq!((found.machine.as_str(), found.retry_count), ("a", 2), "the count goes on");
    let four = observed(vec![lost("a"), healthy("b", 2), healthy("c", 3), healthy("d", 4)]);
    assert_eq!(plan(&wider, &four, &blocked(true)), Remediation::default(), "something else blocks it");
    assert!(
        plan(&wider, &four, &blocked(false)).deletion.is_some(),
        "a deletion waits for the unhealthy one"
    );
    assert!(plan(&noted, &three(), &Step::Nothing).is_over, "no Machine is missing");
}

#[test]
fn d6_the_record_goes_when_the_replacement_exists_or_none_is_needed() {
    let record = Record::new("a".to_owned(), at(NOW - 5), 0);
    let noted = noted(control_plane(json!({})), &record);
    let mut same_second = healthy("d", NOW - 5);
    same_second.machine.annotations_mut().insert(FOR.to_owned(), record.text());
    let table = [
        ("no replacement yet", vec![healthy("b", 2), healthy("c", NOW - 5)], false),
        ("it is newer than the record", vec![healthy("b", 2), healthy("d", NOW - 4)], true),
        ("it has the record", vec![healthy("b", 2), same_second], true),
        ("the Machine is healthy again", vec![healthy("a", 1), healthy("b", 2)], true),
        ("the Machine goes", vec![going(lost("a")), healthy("b", 2)], false),
    ];
    for (case, replicas, expected) in table {
        assert_eq!(decided(&noted, &observed(replicas)).is_over, expected, "{case}");
    }
    let mut bad = control_plane(json!({}));
    bad.annotations_mut().insert(IN_PROGRESS.to_owned(), "no record".to_owned());
    assert!(decided(&bad, &observed(vec![healthy("b", 2)])).is_over, "it would stop all remediation");
}

#[test]
fn d6_the_worst_machine_is_replaced_first() {
    let with = |name: &str, kind: &str| {
        let mut replica = sick(healthy(name, 5));
        set(&mut replica, kind, ConditionStatus::False);
        replica
    };
    let mut asked = sick(healthy("z-asked", 9));
    asked.machine.annotations_mut().insert(REMEDIATE.to_owned(), String::new());
    // Each is worse than all after it.
    let order = [
        asked,
        sick(replica("y-no-node", 9)),
        with("x-member", "EtcdMemberHealthy"),
        with("w-etcd", "EtcdPodHealthy"),
        with("v-server", "APIServerPodHealthy"),
        with("u-manager", "ControllerManagerPodHealthy"),
        with("t-scheduler", "SchedulerPodHealthy"),
        with("s-node", NODE_LABELS),
        sick(healthy("r-older", 1)),
        sick(healthy("a-name", 5)),
        sick(healthy("b-name", 5)),
    ];
    for (first, expected) in order.iter().enumerate() {
        let mut candidates = order[first..].to_vec();
        candidates.reverse();
        // The label is reported as set on all Machines but one.
        for candidate in candidates.iter_mut().filter(|it| it.name() != "s-node") {
            set(candidate, NODE_LABELS, ConditionStatus::True);
        }
        let sorted = super::candidates(&candidates, None, true);
        assert_eq!(sorted.first().map(|it| it.name()), Some(expected.name()));
    }
}

/// A dead member waited for a learner that never got its vote, and the learner's Machine was not looked at.
#[test]
fn d6_the_next_machine_is_replaced_if_the_first_one_cannot_be() {
    let mut learner = lost("d");
    learner.machine.metadata.creation_timestamp = healthy("", NOW).machine.metadata.creation_timestamp;
    let mut around = observed(vec![lost("a"), healthy("b", 2), healthy("c", 3), learner]);
    let Workload::Reached(inspection) = &mut around.workload else { panic!("not reached") };
    for member in inspection.members.as_mut().unwrap().iter_mut().filter(|it| it.name == "d") {
        (member.name, member.is_learner) = (String::new(), true);
    }
    let found = decided(&control_plane(json!({})), &around);
    assert_eq!(found.deletion.map(|it| it.machine).as_deref(), Some("d"), "{:?}", found.marks);
    assert_eq!(found.marks.len(), 1, "{:?}", found.marks);
}

/// The state from Nova may be old, so the member may run and hold the quorum.
#[test]
fn d6_the_state_of_a_server_is_no_proof_that_etcd_can_spare_its_member() {
    let found =
        outcome(&control_plane(json!({})), &observed(vec![off(lost("a")), lost("b"), healthy("c", 3)]));
    assert!(found.starts_with("CannotBeRemediated: Machine a"), "{found}");
}

/// Its member voted already, and etcd lost its quorum with it: a Machine without a Node seemed to have no member.
#[test]
fn d6_the_member_of_a_machine_without_a_node_counts() {
    let joins = || sick(addressed(replica("c", 3), "10.0.0.3"));
    let found = |name: &str, is_learner: bool| {
        let mut around = observed(vec![healthy("a", 1), lost("b"), joins()]);
        let Workload::Reached(inspection) = &mut around.workload else { panic!("not reached") };
        let peer_urls = vec!["https://10.0.0.3:2380".to_owned()];
        let member = Member { name: name.to_owned(), is_learner, peer_urls, ..Member::default() };
        inspection.members.as_mut().unwrap().push(member);
        outcome(&control_plane(json!({})), &around)
    };
    let votes = found("c", false);
    assert!(votes.starts_with("CannotBeRemediated: Machine c is not replaced, because etcd"), "{votes}");
    assert_eq!((found("c", true), found("", true)), ("c 0".to_owned(), "c 0".to_owned()), "it has no vote");
}

#[test]
fn d6_the_obstacle_is_named_with_its_cause() {
    let mut around = observed(vec![lost("a"), healthy("b", 2), healthy("c", 3)]);
    let Workload::Reached(inspection) = &mut around.workload else { panic!("not reached") };
    inspection.members = Err("no member answered".to_owned());
    let found = outcome(&control_plane(json!({})), &around);
    assert!(found.ends_with("to be known: no member answered"), "{found}");
    let joins = observed(vec![lost("a"), healthy("b", 2), healthy("c", 3), replica("d", NOW - 60)]);
    let found = outcome(&control_plane(json!({})), &joins);
    let expected = "RemediationDeferred: Waiting for Machine d to get a Node: it has no bootstrap data yet";
    assert_eq!(found, expected);
}

#[test]
fn d6_a_machine_whose_check_succeeds_again_loses_the_condition() {
    let mut well = sick(healthy("a", 1));
    set(&mut well, "HealthCheckSucceeded", ConditionStatus::True);
    let found = decided(&control_plane(json!({})), &observed(vec![well, healthy("b", 2)]));
    assert_eq!(found.recovered, ["a"]);
    assert_eq!((found.deletion, found.marks), (None, Vec::new()));
}

#[test]
fn outside_the_window_a_machine_that_works_is_not_replaced() {
    let mut control_plane = control_plane(json!({}));
    let window = "0 2 * * 6 4h UTC".to_owned();
    control_plane.annotations_mut().insert("capstan.dev/maintenance-window".to_owned(), window);
    let mut works = sick(healthy("a", 1));
    for kind in ["InfrastructureReady", "NodeReady"] {
        set(&mut works, kind, ConditionStatus::True);
    }
    let found = |first: &Replica| {
        outcome(&control_plane, &observed(vec![first.clone(), healthy("b", 2), healthy("c", 3)]))
    };
    let expected =
        "RemediationDeferred: The replacement of Machine a is not urgent. The maintenance window of";
    assert!(found(&works).starts_with(expected), "{}", found(&works));
    let mut silent = works.clone();
    set(&mut silent, "NodeReady", ConditionStatus::Unknown);
    assert_eq!(found(&silent), "a 0", "its Node is not ready");
    set(&mut works, "SchedulerPodHealthy", ConditionStatus::False);
    assert_eq!(found(&works), "a 0", "a component is broken");
}

#[test]
fn a_protected_machine_is_not_replaced() {
    let mut protected = lost("a");
    protected.machine.annotations_mut().insert("capstan.dev/protected".to_owned(), "true".to_owned());
    let around = observed(vec![protected, healthy("b", 2), healthy("c", 3)]);
    let found = outcome(&control_plane(json!({})), &around);
    assert!(found.starts_with("RemediationDeferred: Not deleted because of"), "{found}");
}
