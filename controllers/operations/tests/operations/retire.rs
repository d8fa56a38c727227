//! Tests of retirements, apart from crashes.

use apiserver_types::{MachineOperation, OperationPhase, StepState};
use serde_json::{Value, json};

use crate::world::{CLUSTER, INFRASTRUCTURE, MACHINE, World, message, path, phase, progress};

/// Returns a world whose Machine has a Node, and a finalizer as every Machine has.
fn world() -> World {
    let world = World::new(false);
    world.with_node();
    world.api.change(MACHINE, |machine| {
        machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
    });
    world
}

fn retire() -> Value {
    json!({"action": "Retire"})
}

fn cancel(world: &World) {
    world.api.change(&path("op"), |operation| operation["spec"]["cancelRequested"] = json!(true));
}

fn is_deleted(world: &World) -> bool {
    let machine = world.api.get(MACHINE);
    machine.is_none_or(|machine| machine["metadata"]["deletionTimestamp"].is_string())
}

fn step_names(operation: &MachineOperation) -> Vec<&str> {
    let steps = operation.status.iter().filter_map(|status| status.steps.as_deref()).flatten();
    steps.map(|step| step.name.as_str()).collect()
}

#[tokio::test]
async fn a_machine_is_deleted_once_its_volumes_are_detached() {
    let world = world();
    world.attach_volume();
    world.request("op", retire());
    let waiting = world.until("op", |operation| progress(operation).contains("VolumeAttachment")).await;
    assert_eq!(step_names(&waiting), ["DrainNode", "AwaitVolumes", "DeleteMachine", "UncordonNode"]);
    assert!(!is_deleted(&world), "{}", progress(&waiting));
    assert_eq!(world.is_cordoned(), Some(true));
    world.detach_volume();
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    assert!(is_deleted(&world));
    assert_eq!(world.is_cordoned(), Some(true), "the Node goes with its Machine");
}

/// Cancels before the n-th pass, for every n: the Machine stays and its Node is schedulable, or it is deleted.
#[tokio::test]
async fn a_cancelled_retirement_leaves_the_node_schedulable() {
    let (mut cancelled, mut completed) = (0, 0);
    for passes in 0..14 {
        let world = world();
        world.workload.connected().await;
        world.request("op", retire());
        let controller = world.controller();
        for _ in 0..passes {
            let _next = controller.pass("ns", "op").await;
        }
        cancel(&world);
        let operation = world.finish("op").await;
        let case = format!("after {passes} passes: {}", message(&operation));
        match phase(&operation) {
            Some(OperationPhase::Cancelled) => {
                cancelled += 1;
                assert_eq!((is_deleted(&world), world.is_cordoned()), (false, Some(false)), "{case}");
            }
            Some(OperationPhase::Complete) => {
                completed += 1;
                assert_eq!((is_deleted(&world), world.is_cordoned()), (true, Some(true)), "{case}");
            }
            other => panic!("{case}: {other:?}"),
        }
    }
    assert!(cancelled > 0 && completed > 0, "{cancelled} cancelled, {completed} completed");
}

#[tokio::test]
async fn volumes_that_stay_attached_fail_the_retirement_and_nothing_is_deleted() {
    let world = world();
    world.attach_volume();
    world.api.change(MACHINE, |machine| {
        machine["spec"]["deletion"] = json!({"nodeVolumeDetachTimeoutSeconds": 60});
    });
    world.request("op", retire());
    let operation = world.finish("op").await;
    assert_eq!(operation.condition("Failed").unwrap().reason, "VolumesNotDetached");
    assert!(message(&operation).contains("pv1"), "{}", message(&operation));
    assert_eq!((is_deleted(&world), world.is_cordoned()), (false, Some(false)));
}

#[tokio::test]
async fn the_time_limit_of_the_wait_for_volumes_does_not_count_a_pause_of_the_cluster() {
    let world = world();
    world.attach_volume();
    world.api.change(MACHINE, |machine| {
        machine["spec"]["deletion"] = json!({"nodeVolumeDetachTimeoutSeconds": 60});
    });
    let pause = |paused: bool| {
        world.api.change(CLUSTER, |cluster| cluster["spec"]["paused"] = json!(paused));
    };
    let waits = |operation: &MachineOperation| progress(operation).contains("VolumeAttachment");
    world.request("op", retire());
    world.until("op", waits).await;
    pause(true);
    world.until("op", |operation| progress(operation).contains("is paused")).await;
    world.pass_time(86_400);
    pause(false);
    let goes_on = world.until("op", waits).await;
    assert_eq!(phase(&goes_on), Some(OperationPhase::Running), "{}", message(&goes_on));
    let failed = world.finish("op").await;
    assert_eq!(failed.condition("Failed").unwrap().reason, "VolumesNotDetached");
    let step = failed.status.unwrap().steps.unwrap().remove(1);
    assert!(step.name == "AwaitVolumes" && step.paused_since.is_none(), "{step:?}");
    assert!(step.paused_seconds.is_some_and(|seconds| seconds >= 86_400), "{step:?}");
}

#[tokio::test]
async fn a_retirement_is_cancelled_also_in_a_pause_of_the_wait_for_volumes() {
    let world = world();
    world.attach_volume();
    world.request("op", retire());
    world.until("op", |operation| progress(operation).contains("VolumeAttachment")).await;
    world.api.change(CLUSTER, |cluster| cluster["spec"]["paused"] = json!(true));
    world.until("op", |operation| progress(operation).contains("is paused")).await;
    cancel(&world);
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Cancelled), "{}", message(&operation));
    assert_eq!((is_deleted(&world), world.is_cordoned()), (false, Some(false)));
}

#[tokio::test]
async fn a_machine_without_a_node_or_a_server_is_deleted_at_once() {
    let world = World::new(false);
    world.api.change(INFRASTRUCTURE, |object| {
        object["spec"]["providerID"] = Value::Null;
        object["status"] = json!({});
    });
    world.request("op", retire());
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    assert_eq!(step_names(&operation), ["DeleteMachine"]);
    assert_eq!(world.api.get(MACHINE), None);
}

#[tokio::test]
async fn annotations_of_the_machine_skip_the_drain_and_the_wait_for_volumes() {
    let prefix = "machine.cluster.x-k8s.io";
    let table = [
        (format!("{prefix}/exclude-node-draining"), vec!["DeleteMachine"]),
        (
            format!("{prefix}/exclude-wait-for-node-volume-detach"),
            vec!["DrainNode", "DeleteMachine", "UncordonNode"],
        ),
    ];
    for (annotation, expected) in table {
        let world = world();
        world.attach_volume();
        world.api.change(MACHINE, |machine| {
            machine["metadata"]["annotations"] = json!({annotation.as_str(): ""});
        });
        world.request("op", retire());
        let operation = world.finish("op").await;
        assert_eq!(
            phase(&operation),
            Some(OperationPhase::Complete),
            "{annotation}: {}",
            message(&operation)
        );
        assert_eq!(step_names(&operation), expected, "{annotation}");
    }
}

#[tokio::test]
async fn nothing_is_done_to_the_node_of_a_machine_that_must_not_be_retired() {
    let table = [
        ("annotations", "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup", "Delete the Machine"),
        ("labels", "cluster.x-k8s.io/control-plane", "only control plane Machine"),
    ];
    for (map, key, words) in table {
        let world = world();
        world.api.change(MACHINE, |machine| machine["metadata"][map] = json!({key: ""}));
        world.request("op", retire());
        let operation = world.finish("op").await;
        assert_eq!(operation.condition("Failed").unwrap().reason, "Unsupported", "{key}");
        assert!(message(&operation).contains(words), "{}", message(&operation));
        assert_eq!((is_deleted(&world), world.is_cordoned()), (false, Some(false)), "{key}");
    }
}

/// Each deletion checks that another control plane Machine stays.
#[tokio::test]
async fn of_the_last_two_control_plane_machines_only_one_is_retired() {
    const SECOND: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m2";
    let world = World::new(false);
    let labels = json!({"cluster.x-k8s.io/control-plane": ""});
    world.api.change(MACHINE, |machine| machine["metadata"]["labels"] = labels.clone());
    let spec = world.api.get(MACHINE).unwrap()["spec"].clone();
    world.api.put(SECOND, json!({"metadata": {"labels": labels}, "spec": spec}));
    world.request("op", retire());
    world.request("other", retire());
    world.api.change(&path("other"), |operation| operation["spec"]["machineName"] = json!("m2"));

    let controller = world.controller();
    let is_announced = |operation: &MachineOperation| {
        let mut steps = operation.status.iter().filter_map(|status| status.steps.as_deref()).flatten();
        steps.any(|step| step.name == "DeleteMachine" && step.state == StepState::Running)
    };
    for name in ["op", "other"] {
        for _ in 0..10 {
            if !is_announced(&world.operation(name).unwrap()) {
                controller.pass("ns", name).await.unwrap();
            }
        }
        assert!(is_announced(&world.operation(name).unwrap()), "{name}");
    }
    let (first, second) = tokio::join!(controller.pass("ns", "op"), controller.pass("ns", "other"));
    first.and(second).unwrap();
    let left = [MACHINE, SECOND].into_iter().filter(|machine| world.api.get(machine).is_some());
    assert_eq!(left.count(), 1);
    let waits = ["op", "other"].map(|name| progress(&world.operation(name).unwrap()));
    assert!(waits.iter().any(|text| text.contains("only control plane Machine")), "{waits:?}");
}

/// A naming template with an index gives the name of a deleted Machine to a new one.
#[tokio::test]
async fn an_operation_does_nothing_to_a_later_machine_of_the_same_name() {
    for action in [retire(), json!({"action": "Reboot", "reboot": {}}), json!({"action": "PowerOff"})] {
        let world = world();
        world.request("op", action.clone());
        world.until("op", |operation| phase(operation) == Some(OperationPhase::Running)).await;
        world.api.change(MACHINE, |machine| machine["metadata"]["uid"] = json!("uid-later"));
        let operation = world.finish("op").await;
        let text = message(&operation);
        assert_eq!(phase(&operation), Some(OperationPhase::Failed), "{action}: {text}");
        assert!(text.contains("was deleted before the operation had ended"), "{action}: {text}");
        assert!(!is_deleted(&world), "{action}");
        let nova = world.nova();
        assert_eq!(nova.count("reboot") + nova.count("stop"), 0, "{action}");
    }
}
