//! Tests of the decisions on a control plane, by the sections of the specification.

use apiserver_types::{Condition, ConditionStatus, set_condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use super::super::etcd_projection::Member;
use super::super::inspection::Inspection;
use super::super::observe::Unfinished;
use super::super::replica::HOOK;
use super::super::replica::examples::{addressed, going, healthy, outdated, replica, set, within};
use super::*;
use crate::pre_terminate;

/// Returns a control plane with the finalizer.
fn control_plane(replicas: i32) -> KubeadmControlPlane {
    let mut control_plane = KubeadmControlPlane::default();
    control_plane.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    control_plane.spec.replicas = Some(replicas);
    control_plane.spec.version = "v1.33.0".to_owned();
    control_plane
}

/// Returns a Cluster with infrastructure and endpoint, whose workload cluster responds, and these Machines.
fn observed(replicas: Vec<Replica>) -> Observed {
    let mut observed = Observed { replicas, ..Observed::default() };
    let cluster = json!({"metadata": {"name": "blue"}, "spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}},
        "status": {"initialization": {"infrastructureProvisioned": true}}});
    observed.cluster = serde_json::from_value(cluster).unwrap();
    observed.certificates.examined = true;
    let template =
        json!({"apiVersion": "g/v1", "kind": "OpenStackMachineTemplate", "metadata": {"name": "t"}});
    observed.template = Some(serde_json::from_value(template).unwrap());
    let members = observed.replicas.iter().map(|it| member(&it.name())).collect();
    observed.workload = reached(members);
    observed.settings = Settings::Read(Vec::new());
    observed
}

fn member(name: &str) -> Member {
    Member { name: name.to_owned(), ..Member::default() }
}

fn reached(members: Vec<Member>) -> Workload {
    Workload::Reached(Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members: Ok(members) })
}

fn three() -> Vec<Replica> {
    vec![healthy("a", 1), healthy("b", 2), healthy("c", 3)]
}

fn external(mut control_plane: KubeadmControlPlane) -> KubeadmControlPlane {
    let etcd = json!({"clusterConfiguration": {"etcd": {"external": {
        "endpoints": ["https://e"], "caFile": "a", "certFile": "b", "keyFile": "c"}}}});
    control_plane.spec.kubeadm_config_spec = serde_json::from_value(etcd).unwrap();
    control_plane
}

fn deleted(mut control_plane: KubeadmControlPlane) -> KubeadmControlPlane {
    control_plane.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    control_plane
}

/// A control plane took its Machines, and with them etcd, while control plane Machines without a controller still ran.
#[test]
fn d13_other_machines_and_pools_hold_the_deletion_of_the_machines() {
    let control_plane = deleted(control_plane(1));
    let others = || vec!["Machine standalone".to_owned(), "MachinePool p".to_owned()];
    let table = [
        ("nothing is left", vec![], vec![], Step::Release),
        ("it has no Machines of its own", vec![], others(), Step::Release),
        ("others exist", vec![healthy("a", 1)], others(), Step::WaitForOthers(others())),
        ("a Machine goes by itself", vec![going(healthy("a", 1))], others(), Step::WaitForOthers(others())),
        ("only its own are left", vec![healthy("a", 1), replica("b", 2)], vec![], Step::DeleteMachines),
    ];
    for (case, replicas, others, expected) in table {
        let observed = Observed { replicas, others, ..Observed::default() };
        assert_eq!(first_step(&control_plane, &observed), Some(expected), "{case}");
    }
}

#[test]
fn d13_a_cluster_whose_status_was_lost_does_not_release_the_machines() {
    let observed = Observed { replicas: vec![healthy("a", 1)], ..Observed::default() };
    assert!(!observed.is_provisioned());
    assert_eq!(first_step(&deleted(control_plane(1)), &observed), Some(Step::DeleteMachines));
}

#[test]
fn d1_each_obstacle_comes_before_the_next_one() {
    let mut control_plane = control_plane(1);
    let mut around = observed(Vec::new());
    assert_eq!(first_step(&control_plane, &around), None);
    around.cluster.status = None;
    let waits = Some(Step::WaitForCluster("Waiting for Cluster status.infrastructureReady to be true"));
    assert_eq!(first_step(&control_plane, &around), waits, "step 8");
    let (group, kind, name) = ("g".to_owned(), "K".to_owned(), "x".to_owned());
    around.unfinished = vec![Unfinished { group, kind, name, uid: None }];
    assert_eq!(first_step(&control_plane, &around), Some(Step::DeleteUnfinished), "before the next Machine");
    around.standalone = vec![replica("x", 1)];
    let refused = first_step(&control_plane, &around);
    assert!(matches!(refused, Some(Step::RefuseAdoption(_))), "step 4, it has no KubeadmConfig: {refused:?}");
    around.refused = Some("because".to_owned());
    let refused = Some(Step::Refuse("because".to_owned()));
    assert_eq!(first_step(&control_plane, &around), refused, "step 4, mixed management");
    assert_eq!(first_step(&deleted(control_plane.clone()), &around), refused, "nothing is touched");
    control_plane.metadata.finalizers = None;
    assert_eq!(first_step(&control_plane, &around), Some(Step::AddFinalizer), "step 2");
    assert_eq!(first_step(&deleted(control_plane.clone()), &around), Some(Step::Ignore));
    around.cluster.spec.paused = Some(true);
    assert_eq!(first_step(&control_plane, &around), Some(Step::Pause), "step 3");
}

#[test]
fn d12_machines_without_a_controller_are_adopted_unless_the_control_plane_goes() {
    let mut standalone = replica("x", 1);
    standalone.machine.spec.version = Some("v1.33.0".to_owned());
    let reference = json!({"apiGroup": "g", "kind": "KubeadmConfig", "name": "x"});
    standalone.machine.spec.bootstrap.config_ref = serde_json::from_value(reference).unwrap();
    let around = Observed { standalone: vec![standalone], ..observed(Vec::new()) };
    assert_eq!(first_step(&control_plane(1), &around), Some(Step::Adopt));
    assert_eq!(first_step(&deleted(control_plane(1)), &around), Some(Step::Release));
}

#[test]
fn d1_nothing_happens_below_an_obstacle_of_the_cluster() {
    let control_plane = control_plane(3);
    let mut around = observed(vec![healthy("a", 1), going(healthy("b", 2))]);
    around.workload =
        Workload::Unreachable { message: "down".to_owned(), is_over: true, reason: "ConnectionDown" };
    let down = Step::WaitForConnection("down".to_owned());
    assert_eq!(next_step(&control_plane, &around), down, "step 13");
    around.certificates.kubeconfig = Some("Secret blue-ca does not exist".to_owned());
    let missing = Step::WaitForCertificates("Secret blue-ca does not exist".to_owned());
    assert_eq!(next_step(&control_plane, &around), missing, "step 11");
    around.cluster.spec.control_plane_endpoint = None;
    let endpoint = Step::WaitForCluster("Waiting for Cluster spec.controlPlaneEndpoint to be set");
    assert_eq!(next_step(&control_plane, &around), endpoint, "step 10");
}

#[test]
fn d1_a_surplus_member_goes_before_a_leaving_machine_and_that_before_a_new_one() {
    let control_plane = control_plane(3);
    let mut around = observed(vec![healthy("a", 1), healthy("b", 2), going(healthy("c", 3))]);
    let departs = next_step(&control_plane, &around);
    assert!(matches!(departs, Step::Depart(Departure::Wait(_))), "step 15: {departs:?}");
    around.workload = reached(["a", "b", "c", "x"].map(member).into());
    // The leaving Machine has a member, which counts as unhealthy only if its condition says so.
    let removed = next_step(&control_plane, &around);
    let surplus = Surplus { id: 0, name: "x".to_owned() };
    assert_eq!(removed, Step::RemoveMember(surplus), "step 14");
    let removed = next_step(&external(control_plane), &around);
    assert!(!matches!(removed, Step::RemoveMember(_)), "an external etcd is never changed: {removed:?}");
}

/// Returns a Machine that is being deleted and whose hook holds it, after the drain.
fn drained(name: &str, second: i64) -> Replica {
    let mut replica = going(healthy(name, second));
    replica.machine.annotations_mut().insert(HOOK.to_owned(), String::new());
    let (reason, time) = (pre_terminate::REASON, Default::default());
    let deleting = Condition::new("Deleting", ConditionStatus::True, reason, "", time);
    let status = replica.machine.status.get_or_insert_default();
    set_condition(status.conditions.get_or_insert_default(), deleting);
    replica
}

#[test]
fn d7_the_slot_for_a_learner_is_freed_once_no_machine_could_join_that_goes() {
    let mut around = observed(vec![healthy("a", 1)]);
    around.slot = Some(7);
    assert_eq!(next_step(&control_plane(3), &around), Step::FreeSlot(7), "before a Machine is made");
    assert_eq!(remediation(&control_plane(3), &around), Remediation::default());
    around.replicas.push(going(healthy("b", 2)));
    let waits = next_step(&control_plane(3), &around);
    assert!(matches!(waits, Step::Depart(Departure::Wait(_))), "{waits:?}");
    assert_eq!(remediation(&control_plane(3), &around), Remediation::default());
    around.replicas[1] = drained("b", 2);
    let released = Step::Depart(Departure::Release("b".to_owned()));
    assert_eq!(next_step(&control_plane(3), &around), released, "it is for this Machine");
}

/// The only member waited until another Machine was healthy, and the slot kept that one from joining.
#[test]
fn d7_a_machine_that_waits_does_not_keep_the_slot() {
    let mut around = observed(vec![drained("a", 1), replica("c", 2)]);
    around.workload = reached(vec![member("a")]);
    let waits = next_step(&control_plane(3), &around);
    assert!(matches!(waits, Step::Depart(Departure::Wait(_))), "until c is healthy: {waits:?}");
    around.slot = Some(7);
    assert_eq!(next_step(&control_plane(3), &around), Step::FreeSlot(7));
}

#[test]
fn d1_missing_certificates_block_a_new_machine_and_nothing_else() {
    let mut around = observed(vec![healthy("a", 1), healthy("b", 2), going(healthy("c", 3))]);
    around.certificates.missing = vec!["blue-ca".to_owned()];
    let departs = next_step(&control_plane(3), &around);
    assert!(matches!(departs, Step::Depart(_)), "step 15: {departs:?}");
    let mut around = observed(three());
    around.certificates.missing = vec!["blue-ca".to_owned()];
    let removed = next_step(&control_plane(1), &around);
    assert!(matches!(removed, Step::Delete(_)), "step 20: {removed:?}");
    let Step::Block(blocked) = next_step(&control_plane(5), &around) else { panic!("a Machine is made") };
    assert_eq!(blocked.reasons, ["Waiting for the cluster certificates"]);
}

#[test]
fn d7_a_member_that_holds_the_quorum_does_not_end_the_pass() {
    let mut broken = three();
    set(&mut broken[0], "EtcdMemberHealthy", ConditionStatus::False);
    set(&mut broken[1], "EtcdMemberHealthy", ConditionStatus::False);
    let mut around = observed(broken);
    around.workload = reached(["a", "b", "c", "x"].map(member).into());
    assert_eq!(next_step(&control_plane(3), &around), Step::Nothing);
}

#[test]
fn d2_the_first_machine_begins_the_cluster_and_the_others_join_where_the_fewest_are() {
    let mut around = observed(Vec::new());
    let domains = json!([{"name": "az1", "controlPlane": true}, {"name": "az2", "controlPlane": true}]);
    around.cluster.status.as_mut().unwrap().failure_domains = serde_json::from_value(domains).unwrap();
    let create = |start, domain: &str| Step::Create(start, Some(domain.to_owned()));
    around.certificates.missing = vec!["blue-etcd".to_owned()];
    assert_eq!(next_step(&control_plane(3), &around), create(Start::Init, "az1"), "no checks");
    around = Observed { replicas: vec![within(healthy("a", 1), "az1")], ..around };
    around.workload = reached(vec![member("a")]);
    let blocked = next_step(&control_plane(3), &around);
    assert!(matches!(blocked, Step::Block(_)), "certificates are missing: {blocked:?}");
    around.certificates.missing.clear();
    assert_eq!(next_step(&control_plane(3), &around), create(Start::Join, "az2"));
}

#[test]
fn d1_too_few_machines_make_one_and_too_many_delete_one_after_the_checks() {
    let unhealthy = || {
        let mut unhealthy = healthy("b", 2);
        set(&mut unhealthy, "SchedulerPodHealthy", ConditionStatus::False);
        unhealthy
    };
    let blocks = |step: &Step| matches!(step, Step::Block(blocked) if blocked.is_unhealthy);
    let join = Step::Create(Start::Join, None);
    assert_eq!(next_step(&control_plane(3), &observed(vec![healthy("a", 1)])), join);
    assert!(blocks(&next_step(&control_plane(3), &observed(vec![healthy("a", 1), unhealthy()]))));
    assert_eq!(next_step(&control_plane(3), &observed(three())), Step::Nothing);
    assert_eq!(next_step(&control_plane(1), &observed(three())), Step::Delete("a".to_owned()));
    let two = vec![healthy("a", 1), unhealthy()];
    assert!(
        blocks(&next_step(&control_plane(1), &observed(two))),
        "the oldest goes, and the other is unhealthy"
    );
    let two = vec![unhealthy(), healthy("c", 3)];
    assert_eq!(next_step(&control_plane(1), &observed(two)), Step::Delete("b".to_owned()));
}

#[test]
fn d1_a_missing_template_is_named_before_a_machine_is_made() {
    let mut control_plane = control_plane(3);
    let reference = json!({"apiGroup": "g", "kind": "OpenStackMachineTemplate", "name": "t"});
    control_plane.spec.machine_template.spec.infrastructure_ref = serde_json::from_value(reference).unwrap();
    let around = Observed { template: None, ..observed(vec![healthy("a", 1)]) };
    let Step::Block(blocked) = next_step(&control_plane, &around) else { panic!("not blocked") };
    let remedy = "Create OpenStackMachineTemplate t, or correct spec.machineTemplate.spec.infrastructureRef";
    assert_eq!(blocked.reasons, [format!("OpenStackMachineTemplate t does not exist. {remedy}")]);
    assert_eq!((blocked.interval, blocked.is_unhealthy), (MISSING, false));
}

/// Returns a control plane whose rollout has this surge.
fn rolling(replicas: i32, surge: i32) -> KubeadmControlPlane {
    let mut control_plane = control_plane(replicas);
    let strategy = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}}});
    control_plane.spec.rollout = serde_json::from_value(strategy).unwrap();
    control_plane
}

#[test]
fn d5_each_number_of_machines_and_each_surge_has_its_step() {
    let join = || Step::Create(Start::Join, None);
    let delete = |name: &str| Step::Delete(name.to_owned());
    let old = |name: &str, second| outdated(healthy(name, second));
    let all_old = |count: i64| -> Vec<Replica> {
        (0..count).map(|index| old(&format!("m{index}"), index + 1)).collect()
    };
    let table = [
        ("one, and another comes first", rolling(1, 1), all_old(1), join()),
        ("one, and no surge is not possible", rolling(1, 0), all_old(1), join()),
        ("both are there", rolling(1, 1), vec![old("a", 1), healthy("b", 2)], delete("a")),
        ("three, and a fourth comes", rolling(3, 1), all_old(3), join()),
        (
            "three of four are old",
            rolling(3, 1),
            vec![old("a", 1), old("b", 2), old("c", 3), healthy("d", 4)],
            delete("a"),
        ),
        ("without a surge, one goes first", rolling(3, 0), all_old(3), delete("m0")),
        ("then its replacement comes", rolling(3, 0), vec![old("b", 2), old("c", 3)], join()),
        ("fewer are wished at the same time", rolling(1, 1), all_old(3), delete("m0")),
        ("more are wished at the same time", rolling(5, 1), all_old(3), join()),
        ("the default is a surge", control_plane(3), all_old(3), join()),
        ("all are new", rolling(3, 1), three(), Step::Nothing),
        (
            "all are new, and one is too many",
            rolling(1, 1),
            vec![healthy("a", 1), healthy("b", 2)],
            delete("a"),
        ),
    ];
    for (case, control_plane, replicas, expected) in table {
        assert_eq!(next_step(&control_plane, &observed(replicas)), expected, "{case}");
    }
}

/// A wrong flavor blocked the control plane for good: also the corrected template made no Machine, and none could go.
#[test]
fn d5_a_machine_that_has_failed_to_join_makes_way_for_the_corrected_settings() {
    let old = |name: &str, second| outdated(healthy(name, second));
    let failed = || outdated(replica("new", 9));
    let delete = Step::Delete("new".to_owned());
    let table = [
        ("all places are taken", rolling(1, 1), vec![old("a", 1), failed()]),
        ("one of three", rolling(3, 1), vec![old("a", 1), old("b", 2), old("c", 3), failed()]),
        ("without a surge", rolling(3, 0), vec![old("b", 2), old("c", 3), failed()]),
        ("there is a place, and another one could not join", rolling(3, 1), vec![old("a", 1), failed()]),
        ("the number was taken back", rolling(1, 1), vec![healthy("a", 1), replica("new", 9)]),
    ];
    for (case, control_plane, replicas) in table {
        assert_eq!(next_step(&control_plane, &observed(replicas)), delete, "{case}");
    }
    let only = next_step(&rolling(1, 1), &observed(vec![failed()]));
    assert!(matches!(only, Step::Block(_)), "without another Machine, the cluster would be lost: {only:?}");
}

/// Without its Node, a Machine may still be the third voter of etcd, and then one more failure would end the quorum.
#[test]
fn d5_a_machine_without_a_node_whose_member_votes_goes_only_if_there_is_no_place_for_another() {
    let around = |others: &[&str], is_learner| {
        let replicas = others.iter().zip(1..).map(|(name, second)| outdated(healthy(name, second)));
        let mut joins = outdated(addressed(replica("new", 9), "10.0.0.9"));
        set(&mut joins, "InfrastructureReady", ConditionStatus::True);
        let mut around = observed(replicas.chain([joins]).collect());
        let peer_urls = vec!["https://10.0.0.9:2380".to_owned()];
        let new = Member { id: 9, is_learner, peer_urls, ..member("new") };
        around.workload = reached(others.iter().map(|name| member(name)).chain([new]).collect());
        around.now = jiff::Timestamp::from_second(10_000).unwrap();
        around
    };
    let delete = Step::Delete("new".to_owned());
    let stays = next_step(&rolling(3, 1), &around(&["a", "b"], false));
    assert!(matches!(&stays, Step::Block(blocked) if blocked.is_up), "a third voter: {stays:?}");
    assert_eq!(next_step(&rolling(3, 1), &around(&["a", "b"], true)), delete, "a learner");
    assert_eq!(next_step(&rolling(3, 1), &around(&["a", "b", "c"], false)), delete, "a fourth voter");
    assert_eq!(next_step(&rolling(3, 0), &around(&["a", "b"], false)), delete, "one goes first anyway");
    let members = Err("down".to_owned());
    let unknown = Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members };
    let unknown = Observed { workload: Workload::Reached(unknown), ..around(&["a", "b"], true) };
    let stays = next_step(&rolling(3, 1), &unknown);
    assert!(matches!(stays, Step::Block(_)), "the members are not known: {stays:?}");
    assert_eq!(next_step(&external(rolling(3, 1)), &unknown), delete, "etcd is external");
}

#[test]
fn d9_the_workload_cluster_is_prepared_before_each_step_of_a_rollout_and_an_error_stops_it() {
    let machines = || vec![outdated(healthy("a", 1)), healthy("b", 2), healthy("c", 3)];
    let mut around = observed(machines());
    let changes = vec![workload_settings::Change::Record("new".to_owned(), None)];
    around.settings = Settings::Read(changes.clone());
    assert_eq!(next_step(&control_plane(3), &around), Step::Prepare(changes));
    let error = "ConfigMap kube-system/kubeadm-config does not exist";
    around.settings = Settings::Unusable(error.to_owned());
    let Step::Block(blocked) = next_step(&control_plane(3), &around) else { panic!("not blocked") };
    assert_eq!(blocked.reasons, [error]);
    around.settings = Settings::NotRead;
    around.workload = Workload::NotInitialized { message: String::new(), failed: false };
    let Step::Block(blocked) = next_step(&control_plane(3), &around) else { panic!("not blocked") };
    assert!(blocked.reasons[0].contains("delete Machine a"), "{:?}", blocked.reasons);
    around = observed(three());
    around.settings = Settings::NotRead;
    assert_eq!(next_step(&control_plane(3), &around), Step::Nothing, "without a rollout, nothing needs them");
}

#[test]
fn d1_an_unhealthy_machine_is_replaced_before_an_outdated_one_and_after_a_leaving_one() {
    let mut machines = three();
    machines[0] = outdated(healthy("a", 1));
    for kind in ["HealthCheckSucceeded", "OwnerRemediated"] {
        set(&mut machines[1], kind, ConditionStatus::False);
    }
    let mut around = observed(machines.clone());
    let plan = remediation(&control_plane(3), &around);
    assert_eq!(plan.deletion.as_ref().map(|it| it.machine.as_str()), Some("b"));
    around.remediation = plan.clone();
    assert_eq!(next_step(&control_plane(3), &around), Step::Remediate(plan.deletion.unwrap()));
    machines[2] = going(healthy("c", 3));
    let around = observed(machines);
    assert_eq!(remediation(&control_plane(3), &around), Remediation::default());
    assert!(matches!(next_step(&control_plane(3), &around), Step::Depart(_)));
}

#[test]
fn d1_timers_are_those_of_the_table() {
    let seconds = |step: &Step, healthy| interval(step, healthy).map(|it| it.as_secs());
    let blocked =
        Blocked { reasons: Vec::new(), interval: Duration::from_secs(15), is_unhealthy: true, is_up: true };
    let waits = || Departure::Wait(String::new());
    let table = [
        (Step::Pause, None),
        (Step::Release, None),
        (Step::RemoveMember(Surplus { id: 1, name: String::new() }), Some(1)),
        (Step::FreeSlot(1), Some(1)),
        (Step::Depart(Departure::TakeSlot("a".to_owned())), Some(1)),
        (Step::Depart(waits()), Some(30)),
        (Step::Depart(Departure::WaitForQuorum(String::new())), Some(30)),
        (Step::Depart(Departure::Release("a".to_owned())), Some(1)),
        (Step::WaitForOthers(Vec::new()), Some(30)),
        (Step::DeleteMachines, Some(30)),
        (Step::WaitForCertificates(String::new()), Some(30)),
        (Step::Block(blocked), Some(15)),
        (Step::Create(Start::Init, None), Some(1)),
        (Step::Delete("a".to_owned()), Some(1)),
        (Step::Update("a".to_owned()), Some(1)),
        (Step::AwaitUpdates(Vec::new()), Some(20)),
        (Step::WaitForConnection(String::new()), Some(20)),
        (Step::Nothing, Some(600)),
        (Step::Prepare(Vec::new()), Some(1)),
        (Step::WaitForCluster(""), Some(600)),
    ];
    for (step, expected) in table {
        assert_eq!(seconds(&step, true), expected, "{step:?}");
    }
    assert_eq!(
        seconds(&Step::Nothing, false),
        Some(20),
        "not initialized, or its components are not healthy"
    );
}

#[test]
fn a_held_rollout_waits_and_the_number_of_machines_is_still_followed() {
    let machines = || vec![outdated(healthy("a", 1)), healthy("b", 2), healthy("c", 3)];
    let mut held = control_plane(3);
    held.annotations_mut().insert("capstan.dev/rollout-policy".to_owned(), "InPlaceOnly".to_owned());
    let found = next_step(&held, &observed(machines()));
    assert!(matches!(&found, Step::Hold(hold) if hold.reason == "RolloutBlocked"), "{found:?}");
    held.spec.replicas = Some(4);
    let found = next_step(&held, &observed(machines()));
    assert!(matches!(found, Step::Create(Start::Join, _)), "{found:?}");
    held.spec.replicas = Some(1);
    assert_eq!(next_step(&held, &observed(machines())), Step::Delete("a".to_owned()));
    assert_eq!(next_step(&held, &observed(three()[..1].to_vec())), Step::Nothing, "nothing is outdated");
}

#[test]
fn a_rollout_waits_for_the_window_of_the_cluster_unless_the_control_plane_has_one() {
    let key = "capstan.dev/maintenance-window".to_owned();
    let mut around = observed(vec![outdated(healthy("a", 1)), healthy("b", 2), healthy("c", 3)]);
    around.cluster.annotations_mut().insert(key.clone(), "0 2 * * 6 4h UTC".to_owned());
    let mut control_plane = control_plane(3);
    let waits = next_step(&control_plane, &around);
    assert!(matches!(&waits, Step::Hold(hold) if hold.reason == "WaitingForMaintenanceWindow"), "{waits:?}");
    assert_eq!((interval(&waits, true), interval(&waits, false)), (Some(RESYNC), Some(INSPECT)));
    control_plane.annotations_mut().insert(key, "* * * * * 1h UTC".to_owned());
    let found = next_step(&control_plane, &around);
    assert!(matches!(found, Step::Create(Start::Join, _)), "{found:?}");
}
