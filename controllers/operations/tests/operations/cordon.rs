//! Tests of the actions cordon and uncordon, apart from crashes.

use apiserver_types::{MachineOperation, OperationPhase};
use serde_json::{Value, json};

use crate::world::{MACHINE, World, message, path, phase};

fn world() -> World {
    let world = World::new(false);
    world.with_node();
    world
}

fn cordon() -> Value {
    json!({"action": "Cordon"})
}

fn uncordon(force: bool) -> Value {
    json!({"action": "Uncordon", "uncordon": {"force": force}})
}

/// Carries out an operation to its end.
async fn run(world: &World, name: &str, spec: Value) -> MachineOperation {
    world.request(name, spec);
    world.finish(name).await
}

async fn completes(world: &World, name: &str, spec: Value) -> String {
    let operation = run(world, name, spec).await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{name}: {}", message(&operation));
    message(&operation)
}

#[tokio::test]
async fn a_cordon_marks_the_node_and_an_uncordon_ends_it() {
    let world = world();
    completes(&world, "first", cordon()).await;
    let mark = || world.cordoned_by();
    assert_eq!((world.is_cordoned(), mark().as_deref()), (Some(true), Some("uid-first/boot of before")));
    let said = completes(&world, "second", cordon()).await;
    assert!(said.contains("an earlier action"), "{said}");
    assert_eq!(mark().as_deref(), Some("uid-first/boot of before"));
    for name in ["third", "fourth"] {
        completes(&world, name, uncordon(false)).await;
        assert_eq!((world.is_cordoned(), mark()), (Some(false), None), "{name}");
    }
    assert_eq!(world.nova().instances.len(), 1);
}

#[tokio::test]
async fn the_cordon_of_a_user_is_left_and_ends_only_by_force() {
    let world = world();
    world.cordon_by_hand();
    let said = completes(&world, "first", cordon()).await;
    assert!(said.contains("another client"), "{said}");
    assert_eq!((world.is_cordoned(), world.cordoned_by()), (Some(true), None));
    let refused = run(&world, "second", uncordon(false)).await;
    assert_eq!(refused.condition("Failed").unwrap().reason, "Unsupported");
    assert!(message(&refused).contains("Set force"), "{}", message(&refused));
    assert_eq!(world.is_cordoned(), Some(true));
    completes(&world, "third", uncordon(true)).await;
    assert_eq!(world.is_cordoned(), Some(false));
}

#[tokio::test]
async fn a_machine_without_a_node_is_refused() {
    let drain = |dry_run| json!({"action": "Drain", "drain": {"dryRun": dry_run}});
    for spec in [cordon(), uncordon(true), drain(false), drain(true)] {
        let world = World::new(false);
        let operation = run(&world, "op", spec.clone()).await;
        assert_eq!(operation.condition("Failed").unwrap().reason, "Unsupported", "{spec}");
        assert!(message(&operation).contains("has no Node"), "{spec}: {}", message(&operation));
    }
}

/// Cancels before the n-th pass, for every n.
#[tokio::test]
async fn a_cancelled_cordon_has_no_effect_or_is_complete() {
    let (mut cancelled, mut completed) = (0, 0);
    for passes in 0..8 {
        let world = world();
        world.workload.connected().await;
        world.request("op", cordon());
        let controller = world.controller();
        for _ in 0..passes {
            let _next = controller.pass("ns", "op").await;
        }
        world.api.change(&path("op"), |operation| operation["spec"]["cancelRequested"] = json!(true));
        let operation = world.finish("op").await;
        let case = format!("after {passes} passes: {}", message(&operation));
        match phase(&operation) {
            Some(OperationPhase::Cancelled) => {
                cancelled += 1;
                assert_eq!((world.is_cordoned(), world.cordoned_by()), (Some(false), None), "{case}");
            }
            Some(OperationPhase::Complete) => {
                completed += 1;
                assert_eq!(world.is_cordoned(), Some(true), "{case}");
            }
            other => panic!("{case}: {other:?}"),
        }
    }
    assert!(cancelled > 0 && completed > 0, "{cancelled} cancelled, {completed} completed");
}

/// The Node of a server that keeps its disk stays the same object.
#[tokio::test]
async fn an_upgrade_ends_the_cordon_of_an_earlier_action_and_a_reboot_does_not() {
    let table = [
        (json!({"action": "Reboot", "reboot": {"type": "Hard"}}), Some(true)),
        (json!({"action": "Upgrade", "upgrade": {"version": "v1.30.0", "strategy": "Rebuild"}}), Some(false)),
        (
            json!({"action": "Upgrade",
                "upgrade": {"version": "v1.30.0", "strategy": "Rebuild", "drain": false}}),
            Some(false),
        ),
    ];
    for (spec, expected) in table {
        let world = world();
        world.api.remove("/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmconfigs/m1");
        world.api.change(MACHINE, |machine| machine["spec"]["bootstrap"] = json!({"dataSecretName": "boot"}));
        completes(&world, "first", cordon()).await;
        completes(&world, "op", spec.clone()).await;
        assert_eq!(world.is_cordoned(), expected, "{spec}");
        assert_eq!(world.cordoned_by().is_some(), expected == Some(true), "{spec}");
    }
}
