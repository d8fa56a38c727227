//! Tests of the decisions on a Machine.

use std::collections::BTreeMap;

use apiserver_types::{
    Cluster, ClusterSpec, Initialization, KubeadmConfig, KubeadmConfigInitialization, KubeadmConfigSpec,
    KubeadmConfigStatus, Machine, MachineDeletionSpec, MachineDeletionStatus, MachineSpec, MachineStatus,
    NodeReference, OpenStackMachine, OpenStackMachineSpec, OpenStackMachineStatus, Time,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time as MetaTime};
use kube::ResourceExt;
use serde_json::json;

use super::decide::{self, Stage, Step, next_step};
use super::fence::Verdict;
use super::node::NodeObservation;
use super::observe::{DeletionObservation, Observed, Outcome};
use super::{FINALIZER, deletion};
use crate::{CLUSTER_NAME_LABEL, ownership};

const HOOK: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup";

fn machine() -> Machine {
    let mut machine = Machine::new("m", MachineSpec::default());
    machine.metadata.uid = Some("u".to_owned());
    machine.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    machine
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::new("c", ClusterSpec::default());
    cluster.metadata.uid = Some("of-cluster".to_owned());
    cluster
}

fn label() -> (String, String) {
    (CLUSTER_NAME_LABEL.to_owned(), "c".to_owned())
}

fn owned<K: kube::Resource<DynamicType = ()>>(mut object: K) -> K {
    object.meta_mut().owner_references = Some(vec![ownership::reference(&machine(), true)]);
    object.meta_mut().labels.get_or_insert_with(BTreeMap::new).extend([label()]);
    object
}

fn now() -> Option<MetaTime> {
    Some(MetaTime(Timestamp::UNIX_EPOCH))
}

#[test]
fn a_machine_is_adopted_then_its_infrastructure_and_then_gets_its_provider_id() {
    let mut adopted = machine();
    adopted.metadata.owner_references = Some(vec![ownership::reference(&cluster(), false)]);
    adopted.labels_mut().extend([label()]);
    let bare = OpenStackMachine::new("m", OpenStackMachineSpec::default());
    let mut with_server = owned(bare.clone());
    with_server.spec.provider_id = Some("openstack:///1".to_owned());
    let mut provisioned = with_server.clone();
    let initialization = Some(Initialization { provisioned: Some(true) });
    provisioned.status = Some(OpenStackMachineStatus { initialization, ..OpenStackMachineStatus::default() });
    let mut complete = adopted.clone();
    complete.spec.provider_id = Some("openstack:///1".to_owned());
    let mut paused = cluster();
    paused.spec.paused = Some(true);
    let new = Machine { metadata: Default::default(), ..machine() };
    let mut going = new.clone();
    going.metadata.deletion_timestamp = now();
    let mut of_set = machine();
    of_set.metadata.labels = Some([("cluster.x-k8s.io/set-name".to_owned(), "s".to_owned())].into());
    let set_provider_id = Step::SetProviderId("openstack:///1".to_owned());
    let table = [
        ("paused", machine(), Some(paused), None, Step::Pause),
        ("going, held by others", going, Some(cluster()), None, Step::Ignore),
        ("new", new, None, None, Step::AddFinalizer),
        ("without a cluster", machine(), None, Some(bare.clone()), Step::Nothing),
        ("with a cluster", machine(), Some(cluster()), Some(bare.clone()), Step::Adopt(true)),
        ("of a set that is not restored yet", of_set, Some(cluster()), None, Step::Adopt(false)),
        ("adopted", adopted.clone(), Some(cluster()), None, Step::Nothing),
        ("with an object", adopted.clone(), Some(cluster()), Some(bare), Step::AdoptInfrastructure),
        ("not provisioned", adopted.clone(), Some(cluster()), Some(with_server), Step::Nothing),
        ("provisioned", adopted, Some(cluster()), Some(provisioned.clone()), set_provider_id),
        ("complete", complete, Some(cluster()), Some(provisioned), Step::Nothing),
    ];
    for (case, machine, cluster, infrastructure, expected) in table {
        let observed = Observed { cluster, infrastructure, ..Observed::default() };
        assert_eq!(next_step(&machine, &observed), expected, "{case}");
    }
}

#[test]
fn a_machine_takes_over_its_kubeadm_config_and_copies_the_name_of_its_secret() {
    let mut machine = machine();
    machine.metadata.owner_references = Some(vec![ownership::reference(&cluster(), false)]);
    machine.labels_mut().extend([label()]);
    let mut config = owned(KubeadmConfig::new("m", KubeadmConfigSpec::default()));
    let maker = OwnerReference { kind: "MachineSet".to_owned(), uid: "s".to_owned(), ..Default::default() };
    config.owner_references_mut().push(maker);
    let mut observed =
        Observed { cluster: Some(cluster()), bootstrap: Some(config.clone()), ..Observed::default() };
    assert_eq!(next_step(&machine, &observed), Step::AdoptBootstrap, "its maker still owns it");
    config.owner_references_mut().pop();
    observed.bootstrap = Some(config.clone());
    assert_eq!(next_step(&machine, &observed), Step::Nothing, "there is no data yet");
    config.status = Some(KubeadmConfigStatus {
        data_secret_name: Some("m".to_owned()),
        initialization: Some(KubeadmConfigInitialization { data_secret_created: Some(true) }),
        ..KubeadmConfigStatus::default()
    });
    observed.bootstrap = Some(config);
    assert_eq!(next_step(&machine, &observed), Step::SetDataSecret("m".to_owned()));
}

/// Machine with a Node and a server, in the middle of its deletion.
fn going() -> (Machine, Observed) {
    let mut machine = machine();
    machine.metadata.deletion_timestamp = now();
    machine.status = Some(MachineStatus {
        node_ref: Some(NodeReference { name: "n".to_owned() }),
        deletion: Some(MachineDeletionStatus {
            node_drain_start_time: Some(Time("1970-01-01T00:00:00Z".to_owned())),
            wait_for_node_volume_detach_start_time: Some(Time("1970-01-01T00:00:00Z".to_owned())),
            ..MachineDeletionStatus::default()
        }),
        ..MachineStatus::default()
    });
    let observed = Observed {
        cluster: Some(cluster()),
        infrastructure: Some(owned(OpenStackMachine::new("m", OpenStackMachineSpec::default()))),
        deletion: DeletionObservation {
            another_control_plane_machine: true,
            ..DeletionObservation::default()
        },
        now: Timestamp::UNIX_EPOCH,
        ..Observed::default()
    };
    (machine, observed)
}

#[test]
fn a_node_is_drained_then_its_server_deleted_and_then_the_node() {
    let (mut machine, mut observed) = going();
    machine.status.as_mut().unwrap().deletion = None;
    assert_eq!(deletion::next_step(&machine, &observed), Step::Begin(Stage::Drain));
    machine = going().0;
    assert_eq!(deletion::next_step(&machine, &observed), Step::Drain);
    let waiting = Outcome::Waiting("a budget".to_owned());
    observed.deletion.drain = Some(waiting.clone());
    assert_eq!(deletion::next_step(&machine, &observed), Step::Wait(Stage::Drain, waiting));
    observed.deletion.drain = Some(Outcome::Done);
    assert_eq!(deletion::next_step(&machine, &observed), Step::AwaitVolumes);
    observed.deletion.volumes = Some(Outcome::Done);
    assert_eq!(deletion::next_step(&machine, &observed), Step::DeleteInfrastructure);
    machine.annotations_mut().insert(HOOK.to_owned(), String::new());
    let hook = Step::WaitForHook(Stage::PreTerminateHook, HOOK.to_owned());
    assert_eq!(deletion::next_step(&machine, &observed), hook);
    machine.annotations_mut().clear();
    observed.infrastructure.as_mut().unwrap().metadata.deletion_timestamp = now();
    assert!(matches!(deletion::next_step(&machine, &observed), Step::WaitForInfrastructure(_)));
    observed.infrastructure = None;
    observed.bootstrap = Some(owned(KubeadmConfig::new("m", KubeadmConfigSpec::default())));
    assert_eq!(deletion::next_step(&machine, &observed), Step::DeleteBootstrap);
    observed.bootstrap = None;
    assert_eq!(deletion::next_step(&machine, &observed), Step::DeleteNode("n".to_owned()));
    observed.deletion.node = Some(Outcome::Done);
    assert_eq!(deletion::next_step(&machine, &observed), Step::Release);
}

#[test]
fn the_node_of_the_last_control_plane_machine_or_of_a_dying_cluster_is_left_alone() {
    let (machine, observed) = going();
    let mut last = observed.clone();
    last.deletion.another_control_plane_machine = false;
    let mut dying = observed.clone();
    dying.cluster.as_mut().unwrap().metadata.deletion_timestamp = now();
    let mut control_plane = observed.clone();
    control_plane.deletion.control_plane_deleting = true;
    let mut foreign = observed.clone();
    foreign.cluster = None;
    for (case, observed) in
        [("last", last), ("dying", dying), ("control plane", control_plane), ("no cluster", foreign)]
    {
        assert_eq!(deletion::next_step(&machine, &observed), Step::DeleteInfrastructure, "{case}");
        let gone = Observed { infrastructure: None, ..observed };
        assert_eq!(deletion::next_step(&machine, &gone), Step::Release, "{case}");
    }
}

#[test]
fn a_drain_ends_by_its_timeout_by_an_annotation_and_once_the_server_is_being_deleted() {
    let (machine, mut observed) = going();
    observed.deletion.drain = Some(Outcome::Failed("the API is gone".to_owned()));
    observed.deletion.volumes = Some(Outcome::Done);
    assert!(matches!(deletion::next_step(&machine, &observed), Step::Wait(Stage::Drain, _)));
    let timeout =
        MachineDeletionSpec { node_drain_timeout_seconds: Some(60), ..MachineDeletionSpec::default() };
    let mut limited = machine.clone();
    limited.spec.deletion = Some(timeout);
    assert!(matches!(deletion::next_step(&limited, &observed), Step::Wait(Stage::Drain, _)));
    let later = Timestamp::from_second(60).unwrap();
    let late = Observed { now: later, ..observed.clone() };
    assert_eq!(deletion::next_step(&limited, &late), Step::DeleteInfrastructure);
    let mut excluded = machine.clone();
    excluded
        .annotations_mut()
        .insert("machine.cluster.x-k8s.io/exclude-node-draining".to_owned(), String::new());
    assert_eq!(deletion::next_step(&excluded, &observed), Step::DeleteInfrastructure);
    observed.infrastructure.as_mut().unwrap().metadata.deletion_timestamp = now();
    assert!(matches!(deletion::next_step(&machine, &observed), Step::WaitForInfrastructure(_)));
}

/// Node that does not report, or does, with the taint of Capstan or without.
fn node(ready: &str, tainted: bool) -> NodeObservation {
    let key = "node.kubernetes.io/out-of-service";
    let taint = json!({"key": key, "value": "capstan", "effect": "NoExecute"});
    let taints = if tainted { vec![taint] } else { Vec::new() };
    let node = json!({
        "metadata": {"name": "n"}, "spec": {"taints": taints},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    });
    NodeObservation::Found(serde_json::from_value(node).unwrap())
}

fn is_off() -> Option<Verdict> {
    Some(Verdict::Off("Nova says SHUTOFF".to_owned()))
}

fn may_run() -> Option<Verdict> {
    Some(Verdict::Unproved("Nova says ACTIVE".to_owned()))
}

#[test]
fn the_server_of_a_silent_node_whose_drain_waits_is_looked_at_then_tainted_then_its_volumes_detached() {
    let (machine, mut observed) = going();
    observed.node = node("Unknown", false);
    assert_eq!(deletion::next_step(&machine, &observed), Step::Drain);
    for outcome in [Outcome::Waiting("a budget".to_owned()), Outcome::Failed("it is gone".to_owned())] {
        observed.deletion.drain = Some(outcome);
        assert_eq!(deletion::next_step(&machine, &observed), Step::ReadServer);
    }
    observed.deletion.server = is_off();
    assert_eq!(deletion::next_step(&machine, &observed), Step::TakeOutOfService);
    observed.node = node("Unknown", true);
    assert_eq!(deletion::next_step(&machine, &observed), Step::DetachVolumes);
    let waiting = Outcome::Waiting("Nova detaches".to_owned());
    observed.deletion.volumes = Some(waiting.clone());
    let step = deletion::next_step(&machine, &observed);
    assert_eq!(step, Step::Wait(Stage::Volumes, waiting));
    assert!(decide::interval(&step, &observed) < decide::interval(&step, &going().1), "Nova is quick");
    observed.deletion.volumes = Some(Outcome::Done);
    assert_eq!(deletion::next_step(&machine, &observed), Step::DeleteInfrastructure);
    // The next pass looks at the server before anything else.
    observed.deletion = going().1.deletion;
    assert_eq!(deletion::next_step(&machine, &observed), Step::ReadServer);
}

#[test]
fn a_silent_node_alone_is_neither_tainted_nor_loses_its_volumes() {
    let (machine, mut observed) = going();
    observed.node = node("Unknown", false);
    observed.deletion.drain = Some(Outcome::Waiting("a budget".to_owned()));
    let unknown = Some(Verdict::Unknown("no connection".to_owned()));
    for (server, words) in [
        (may_run(), "nothing proves that its server is off: Nova says ACTIVE"),
        (unknown, "OpenStack does not say whether its server is off: no connection"),
    ] {
        observed.deletion.server = server;
        let Step::Wait(Stage::Drain, Outcome::Waiting(text)) = deletion::next_step(&machine, &observed)
        else {
            panic!("the drain waits")
        };
        assert!(text.starts_with("a budget\n") && text.contains(words), "{text}");
    }
    observed.deletion.drain = Some(Outcome::Done);
    assert_eq!(deletion::next_step(&machine, &observed), Step::AwaitVolumes, "its Pods are gone");
    observed.node = node("True", false);
    observed.deletion.drain = Some(Outcome::Waiting("a budget".to_owned()));
    observed.deletion.server = None;
    let step = deletion::next_step(&machine, &observed);
    assert!(matches!(step, Step::Wait(Stage::Drain, _)), "a Node that reports is drained as ever: {step:?}");
}

#[test]
fn the_taint_goes_as_soon_as_the_server_may_run_whatever_the_deletion_waits_for() {
    let returned = |machine: &Machine, observed: &Observed| {
        matches!(deletion::next_step(machine, observed), Step::ReturnToService(_))
    };
    let (machine, mut observed) = going();
    let mut held = machine.clone();
    held.annotations_mut().insert(HOOK.to_owned(), String::new());
    let begun = held.status.as_mut().unwrap().deletion.as_mut().unwrap();
    begun.wait_for_pre_terminate_hook_start_time = Some(Time("1970-01-01T00:00:00Z".to_owned()));
    for machine in [&machine, &held] {
        observed.node = node("Unknown", true);
        observed.deletion.server = None;
        assert_eq!(deletion::next_step(machine, &observed), Step::ReadServer);
        observed.deletion.server = may_run();
        assert!(returned(machine, &observed), "Nova says that it runs");
        observed.deletion.server = Some(Verdict::Unknown("no connection".to_owned()));
        assert!(!returned(machine, &observed), "nothing says that it runs");
        observed.node = node("True", true);
        observed.deletion.server = None;
        assert!(returned(machine, &observed), "its kubelet reports");
    }
    observed.node = node("Unknown", true);
    observed.deletion.server = is_off();
    let hook = Step::WaitForHook(Stage::PreTerminateHook, HOOK.to_owned());
    assert_eq!(deletion::next_step(&held, &observed), hook);
    let interval = decide::interval(&hook, &observed);
    assert!(interval > decide::interval(&hook, &going().1), "each pass asks Nova");
    // Nothing starts a server that is being deleted, but its Node may still report.
    observed.infrastructure.as_mut().unwrap().metadata.deletion_timestamp = now();
    observed.deletion.server = None;
    assert!(matches!(deletion::next_step(&machine, &observed), Step::WaitForInfrastructure(_)));
    observed.node = node("True", true);
    assert!(returned(&machine, &observed));
}

#[test]
fn the_taint_does_not_stay_on_the_node_of_a_machine_that_is_not_deleted() {
    let mut machine = machine();
    machine.metadata.owner_references = Some(vec![ownership::reference(&cluster(), false)]);
    machine.labels_mut().extend([label()]);
    let taints = |ready: &str| {
        let observed = Observed { cluster: Some(cluster()), node: node(ready, true), ..Observed::default() };
        let Step::UpdateNode(patch) = next_step(&machine, &observed) else { panic!("it has no labels") };
        patch.pointer("/spec/taints").cloned()
    };
    assert_eq!(taints("True"), Some(json!([])));
    assert_eq!(taints("Unknown"), None, "nothing says that its server runs");
}

#[test]
fn a_node_that_cannot_be_deleted_holds_its_machine_until_the_timeout() {
    let (mut machine, mut observed) = going();
    observed.infrastructure = None;
    observed.deletion.node = Some(Outcome::Failed("connection refused".to_owned()));
    observed.deletion.node_since = Some(Timestamp::UNIX_EPOCH);
    assert!(matches!(deletion::next_step(&machine, &observed), Step::WaitForNode(_)));
    observed.now = Timestamp::from_second(10).unwrap();
    assert_eq!(deletion::next_step(&machine, &observed), Step::Release, "upstream's default is 10 seconds");
    observed.deletion.node_since = Some(observed.now);
    assert!(
        matches!(deletion::next_step(&machine, &observed), Step::WaitForNode(_)),
        "it counts from the first attempt"
    );
    machine.spec.deletion = Some(MachineDeletionSpec {
        node_deletion_timeout_seconds: Some(0),
        ..MachineDeletionSpec::default()
    });
    assert!(matches!(deletion::next_step(&machine, &observed), Step::WaitForNode(_)), "0 is for ever");
    observed.node = NodeObservation::NotFound;
    assert_eq!(deletion::next_step(&machine, &observed), Step::Release);
}

#[test]
fn a_machine_takes_objects_along_that_it_has_not_adopted_and_leaves_those_of_others() {
    let (machine, mut observed) = going();
    let mut bare = OpenStackMachine::new("m", OpenStackMachineSpec::default());
    observed.node = NodeObservation::NoProviderId;
    observed.cluster = None;
    observed.infrastructure = Some(bare.clone());
    assert_eq!(deletion::next_step(&machine, &observed), Step::DeleteInfrastructure);
    let mut other = machine.clone();
    other.metadata.uid = Some("another".to_owned());
    bare.metadata.owner_references = Some(vec![ownership::reference(&other, true)]);
    observed.infrastructure = Some(bare);
    assert_eq!(deletion::next_step(&machine, &observed), Step::Release);
}

#[test]
fn the_node_of_another_machine_with_the_same_provider_id_is_left_alone() {
    let (machine, mut observed) = going();
    observed.node = NodeObservation::OfAnother("first".to_owned());
    assert_eq!(deletion::next_step(&machine, &observed), Step::DeleteInfrastructure);
    observed.infrastructure = None;
    assert_eq!(deletion::next_step(&machine, &observed), Step::Release);
}

#[test]
fn only_a_failed_call_to_the_workload_cluster_counts_as_a_failure() {
    let failed = || Outcome::Failed("connection reset".to_owned());
    let quiet = Observed::default();
    let unwritten = Observed { node_failure: Some("403".to_owned()), ..Observed::default() };
    let table = [
        ("a drain that failed", Step::Wait(Stage::Drain, failed()), &quiet, true),
        ("volumes that are unknown", Step::Wait(Stage::Volumes, failed()), &quiet, true),
        ("a budget", Step::Wait(Stage::Drain, Outcome::Waiting("a budget".to_owned())), &quiet, false),
        ("a Node that stays", Step::WaitForNode(failed()), &quiet, true),
        ("a Node that was not written", Step::Nothing, &unwritten, true),
        ("nothing", Step::Nothing, &quiet, false),
    ];
    for (case, step, observed, expected) in table {
        assert_eq!(decide::has_failed(&step, observed), expected, "{case}");
    }
}

#[test]
fn a_node_that_cannot_be_written_is_tried_again_soon() {
    let mut machine = machine();
    machine.metadata.owner_references = Some(vec![ownership::reference(&cluster(), false)]);
    machine.labels_mut().extend([label()]);
    let mut observed = Observed {
        cluster: Some(cluster()),
        infrastructure: Some(owned(OpenStackMachine::new("m", OpenStackMachineSpec::default()))),
        node: NodeObservation::Found(Box::default()),
        ..Observed::default()
    };
    assert!(matches!(next_step(&machine, &observed), Step::UpdateNode(_)));
    let at_rest = decide::interval(&Step::Nothing, &observed);
    observed.node_failure = Some("PATCH failed".to_owned());
    assert_eq!(next_step(&machine, &observed), Step::Nothing);
    assert!(decide::interval(&Step::Nothing, &observed) < at_rest);
}
