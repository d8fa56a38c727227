//! Tests of upgrades whose Machine has a Node, apart from crashes.

use apiserver_types::{OperationPhase, StepState};
use controllers_infrastructure::ErrorClass;
use serde_json::{Value, json};

use crate::nova::error;
use crate::world::{MACHINE, World, message, path, phase, progress};

fn upgrade(strategy: &str) -> Value {
    json!({"action": "Upgrade", "upgrade": {"version": "v1.30.0", "strategy": strategy, "drain": false}})
}

#[tokio::test]
async fn an_upgrade_of_a_control_plane_machine_is_refused() {
    let world = World::new(false);
    world.api.change(MACHINE, |machine| {
        machine["metadata"]["labels"] = json!({"cluster.x-k8s.io/control-plane": ""});
    });
    world.request("op", upgrade("Auto"));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Failed));
    assert_eq!(operation.condition("Failed").unwrap().reason, "Unsupported");
    assert!(message(&operation).contains("KubeadmControlPlane"), "{}", message(&operation));
    assert_eq!(world.nova().count("rebuild"), 0);
}

#[tokio::test]
async fn a_node_that_is_not_drained_joins_again_too() {
    let world = World::new(false);
    world.with_node();
    world.request("op", upgrade("Rebuild"));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    let steps = operation.status.unwrap().steps.unwrap();
    let steps: Vec<(&str, StepState)> = steps.iter().map(|step| (step.name.as_str(), step.state)).collect();
    let names = [
        "ChooseWay",
        "ClaimServer",
        "PrepareJoin",
        "DeleteNode",
        "PrepareRebuild",
        "Rebuild",
        "AwaitRebuild",
        "RecordVersion",
        "AwaitNode",
    ];
    assert_eq!(steps, names.map(|name| (name, StepState::Done)));
    world.has_rejoined("not drained");
}

#[tokio::test]
async fn nothing_is_done_to_a_server_before_its_token_exists() {
    let world = World::new(false);
    world.with_node();
    world.api.remove("/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmconfigs/m1");
    world.request("op", upgrade("Rebuild"));
    let waiting = world.until("op", |operation| progress(operation).contains("does not exist")).await;
    assert!(progress(&waiting).contains("KubeadmConfig \"m1\""), "{}", progress(&waiting));
    world.api.change(&path("op"), |operation| operation["spec"]["cancelRequested"] = json!(true));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Cancelled), "{}", message(&operation));
    assert_eq!(world.nova().count("rebuild"), 0);
    let machine = world.api.get(MACHINE).unwrap();
    assert!(machine["metadata"]["annotations"]["capstan.dev/rejoin"].is_null(), "{machine}");
}

#[tokio::test]
async fn a_refused_rebuild_says_how_the_node_comes_back() {
    let world = World::new(false);
    world.with_node();
    world.nova().injected_errors.push(("rebuild", error(ErrorClass::Invalid, "rebuild")));
    world.request("op", upgrade("Rebuild"));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Failed));
    assert!(message(&operation).ends_with("registers the Node again"), "{}", message(&operation));
}

#[tokio::test]
async fn a_cancellation_after_the_deletion_of_the_node_is_too_late() {
    let world = World::new(false);
    world.with_node();
    world.request("op", upgrade("Rebuild"));
    let is_announced = |operation: &apiserver_types::MachineOperation| {
        let steps = operation.status.iter().filter_map(|status| status.steps.as_deref()).flatten();
        steps.into_iter().any(|step| step.name == "DeleteNode" && step.state == StepState::Running)
    };
    world.until("op", is_announced).await;
    world.api.change(&path("op"), |operation| operation["spec"]["cancelRequested"] = json!(true));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    world.has_rejoined("cancelled too late");
}
