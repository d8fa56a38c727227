use apiserver_types::{MachineSpec, Time};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;
use serde_json::json;

use super::*;

/// Time of each pass. Unit: seconds since the epoch.
const NOW: i64 = 100_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn condition(kind: &str, status: &str, second: i64) -> serde_json::Value {
    json!({
        "type": kind, "status": status, "reason": "Why", "message": "",
        "lastTransitionTime": Time(at(second).to_string()).0,
    })
}

fn cluster(conditions: &[serde_json::Value]) -> Cluster {
    let status = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
    Cluster { status, ..Cluster::default() }
}

/// Returns a Cluster whose control plane and infrastructure came long ago.
fn complete() -> Cluster {
    cluster(&[condition("InfrastructureReady", "True", 0), condition("ControlPlaneInitialized", "True", 0)])
}

fn machine(conditions: &[serde_json::Value]) -> Machine {
    let mut machine = Machine::new("m", MachineSpec::default());
    machine.metadata.creation_timestamp = Some(Instant(at(0)));
    machine.status = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
    machine
}

fn node(status: &str, second: i64) -> NodeSeen {
    let status = json!({"conditions": [condition("Ready", status, second)]});
    let node = serde_json::from_value(json!({"metadata": {"name": "n"}, "status": status})).unwrap();
    NodeSeen::Found { node: Arc::new(node), sighted: BTreeMap::new() }
}

fn checks() -> HealthChecks {
    serde_json::from_value(json!({
        "nodeStartupTimeoutSeconds": 600,
        "unhealthyNodeConditions": [
            {"type": "Ready", "status": "False", "timeoutSeconds": 300},
            {"type": "Ready", "status": "Unknown", "timeoutSeconds": 300},
        ],
        "unhealthyMachineConditions": [{"type": "Broken", "status": "True", "timeoutSeconds": 60}],
    }))
    .unwrap()
}

fn judged(cluster: &Cluster, machine: &Machine, node: &NodeSeen) -> Verdict {
    judge(&Scene { cluster, checks: &checks(), now: at(NOW) }, machine, node)
}

fn unhealthy(cause: Cause, messages: &[&str]) -> Verdict {
    Verdict::Unhealthy { cause, messages: messages.iter().map(|it| (*it).to_owned()).collect() }
}

#[test]
fn the_conditions_of_the_node_and_of_the_machine_decide() {
    let of_node = "Condition Ready on Node is reporting status False with reason Why for more than 5m0s";
    let of_machine =
        "Condition Broken on Machine is reporting status True with reason Why for more than 1m0s";
    let later = |seconds| Verdict::Later(SignedDuration::from_secs(seconds));
    let broken = |second| machine(&[condition("Broken", "True", second)]);
    let table = [
        ("healthy", machine(&[]), node("True", 0), Verdict::Healthy),
        ("1 s after the limit", machine(&[]), node("False", NOW - 301), unhealthy(Cause::Node, &[of_node])),
        ("at the limit", machine(&[]), node("False", NOW - 300), later(1)),
        ("1 s before the limit", machine(&[]), node("False", NOW - 299), later(2)),
        ("just now", machine(&[]), node("Unknown", NOW), later(301)),
        ("a broken Machine", broken(NOW - 61), node("True", 0), unhealthy(Cause::Machine, &[of_machine])),
        ("not broken for long", broken(NOW - 59), node("True", 0), later(2)),
        ("both", broken(0), node("False", 0), unhealthy(Cause::Machine, &[of_machine, of_node])),
        ("the sooner one", broken(NOW - 30), node("False", NOW - 200), later(31)),
        (
            "one is unhealthy, one is not yet",
            broken(NOW),
            node("False", 0),
            unhealthy(Cause::Node, &[of_node]),
        ),
    ];
    for (case, machine, node, expected) in table {
        assert_eq!(judged(&complete(), &machine, &node), expected, "{case}");
    }
}

#[test]
fn a_machine_that_is_healthy_up_to_now_has_the_criterion_that_takes_effect_first() {
    let of = |machine: &Machine, node: &NodeSeen| {
        pending(&Scene { cluster: &complete(), checks: &checks(), now: at(NOW) }, machine, node)
    };
    let broken = machine(&[condition("Broken", "True", NOW - 30)]);
    let of_machine =
        "Condition Broken on Machine is reporting status True with reason Why for more than 1m0s";
    let of_node = "Condition Ready on Node is reporting status False with reason Why for more than 5m0s";
    let slow = "Node failed to report startup in 10m0s";
    let server = machine(&[condition("InfrastructureReady", "True", NOW)]);
    let table = [
        (of(&broken, &node("False", NOW - 200)), (Cause::Machine, of_machine)),
        (of(&broken, &node("False", NOW - 280)), (Cause::Node, of_node)),
        (of(&server, &NodeSeen::Missing), (Cause::NodeStartup, slow)),
    ];
    for (found, (cause, message)) in table {
        assert_eq!(found, Some((cause, message.to_owned())));
    }
    assert_eq!(of(&machine(&[]), &node("True", 0)), None);
}

#[test]
fn a_condition_that_is_not_reported_never_matches() {
    let bare = NodeSeen::Found { node: Arc::new(Node::default()), sighted: BTreeMap::new() };
    assert_eq!(judged(&complete(), &machine(&[]), &bare), Verdict::Healthy);
}

#[test]
fn the_first_sight_counts_where_the_clock_of_the_node_is_wrong() {
    let NodeSeen::Found { node, .. } = node("False", 0) else { panic!("a Node") };
    let sighted = BTreeMap::from([("Ready".to_owned(), at(NOW - 10))]);
    let seen = NodeSeen::Found { node, sighted };
    assert_eq!(judged(&complete(), &machine(&[]), &seen), Verdict::Later(SignedDuration::from_secs(291)));
}

#[test]
fn a_node_that_is_gone_and_one_that_does_not_come_make_a_machine_unhealthy() {
    let slow = "Node failed to report startup in 10m0s";
    let server = |second| machine(&[condition("InfrastructureReady", "True", second)]);
    let young = |machine: Machine| {
        let created = Some(Instant(at(NOW - 600)));
        Machine {
            metadata: kube::api::ObjectMeta { creation_timestamp: created, ..machine.metadata },
            ..machine
        }
    };
    let gone = NodeSeen::Gone("n".to_owned());
    let late = unhealthy(Cause::NodeStartup, &[slow]);
    let table = [
        ("gone", complete(), machine(&[]), gone, unhealthy(Cause::NodeDeleted, &["Node n has been deleted"])),
        ("late", complete(), server(NOW - 601), NodeSeen::Missing, late.clone()),
        (
            "at the limit",
            complete(),
            server(NOW - 600),
            NodeSeen::Missing,
            Verdict::Later(SignedDuration::from_secs(1)),
        ),
        (
            "the latest time counts: creation",
            complete(),
            young(machine(&[])),
            NodeSeen::Missing,
            Verdict::Later(SignedDuration::from_secs(1)),
        ),
        (
            "the control plane",
            cluster(&[
                condition("InfrastructureReady", "True", 0),
                condition("ControlPlaneInitialized", "True", NOW - 1),
            ]),
            server(0),
            NodeSeen::Missing,
            Verdict::Later(SignedDuration::from_secs(600)),
        ),
        (
            "a server that is not ready does not count",
            complete(),
            machine(&[condition("InfrastructureReady", "False", NOW)]),
            NodeSeen::Missing,
            late,
        ),
    ];
    for (case, cluster, machine, node, expected) in table {
        assert_eq!(judged(&cluster, &machine, &node), expected, "{case}");
    }
}

#[test]
fn a_start_up_without_a_limit_is_not_judged() {
    let (cluster, machine) = (complete(), machine(&[]));
    let mut checks = checks();
    checks.node_startup_timeout_seconds = Some(0);
    let scene = Scene { cluster: &cluster, checks: &checks, now: at(NOW) };
    assert!(matches!(judge(&scene, &machine, &NodeSeen::Missing), Verdict::NotJudged(_)));
    checks.node_startup_timeout_seconds = None;
    let scene = Scene { cluster: &cluster, checks: &checks, now: at(NOW) };
    assert!(judge(&scene, &machine, &NodeSeen::Missing).is_unhealthy(), "the default is 10 minutes");
}

#[test]
fn nothing_is_judged_before_the_cluster_is_up_except_by_a_users_annotation() {
    let none = cluster(&[]);
    let infrastructure = cluster(&[condition("InfrastructureReady", "True", 0)]);
    let no_infrastructure = cluster(&[condition("ControlPlaneInitialized", "True", 0)]);
    let missing = NodeSeen::Missing;
    let is_judged = |cluster: &Cluster, machine: &Machine| {
        !matches!(judged(cluster, machine, &missing), Verdict::NotJudged(_))
    };
    let worker = machine(&[]);
    let mut of_control_plane = worker.clone();
    of_control_plane.labels_mut().insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
    assert!(!is_judged(&none, &worker));
    assert!(!is_judged(&infrastructure, &worker), "the control plane is not initialized");
    assert!(is_judged(&infrastructure, &of_control_plane));
    assert!(!is_judged(&no_infrastructure, &worker));
    assert!(!is_judged(&no_infrastructure, &of_control_plane));
    let mut annotated = worker;
    annotated.annotations_mut().insert(REMEDIATE.to_owned(), String::new());
    let message = format!("Machine has the annotation {REMEDIATE}");
    assert_eq!(judged(&none, &annotated, &missing), unhealthy(Cause::Annotation, &[&message]));
}

#[test]
fn a_machine_that_is_being_deleted_is_never_healthy() {
    let mut machine = machine(&[]);
    machine.metadata.deletion_timestamp = Some(Instant(at(0)));
    assert!(matches!(judged(&complete(), &machine, &node("True", 0)), Verdict::NotJudged(_)));
    assert!(judged(&complete(), &machine, &node("False", 0)).is_unhealthy());
    let later = judged(&complete(), &machine, &node("False", NOW - 10));
    assert_eq!(later, Verdict::Later(SignedDuration::from_secs(291)), "it keeps its conditions");
}

#[test]
fn durations_have_the_form_that_users_know() {
    assert_eq!([59, 60, 600, 3661].map(duration), ["59s", "1m0s", "10m0s", "1h1m1s"]);
}
