//! Tests of the action drain, apart from crashes.

use apiserver_types::{MachineOperation, OperationPhase, PodTreatment, StepState};
use serde_json::{Value, json};

use crate::world::{CLUSTER, MACHINE, World, message, path, phase, progress};

fn world() -> World {
    let world = World::new(false);
    world.with_node();
    world
}

fn drain(parameters: Value) -> Value {
    let mut spec = json!({"action": "Drain"});
    spec["drain"] = parameters;
    spec
}

/// Metadata of a Pod whose eviction a budget forbids.
fn held() -> Value {
    json!({"labels": {"budget": ""}})
}

fn cancel(world: &World) {
    world.api.change(&path("op"), |operation| operation["spec"]["cancelRequested"] = json!(true));
}

fn steps(operation: &MachineOperation) -> Vec<(&str, StepState)> {
    let steps = operation.status.iter().filter_map(|status| status.steps.as_deref()).flatten();
    steps.map(|step| (step.name.as_str(), step.state)).collect()
}

/// Returns the type and the message of the Event with this reason.
fn event(world: &World, reason: &str) -> (String, String) {
    let events = world.api.under("/api/v1/namespaces/ns/events/");
    let found = events.iter().find(|event| event["reason"] == json!(reason));
    let found = found.unwrap_or_else(|| panic!("no Event {reason}: {events:#?}"));
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (text("type"), text("message"))
}

#[tokio::test]
async fn a_drained_node_stays_cordoned_and_its_server_stays() {
    let world = world();
    world.run_pod("a", json!({}));
    world.request("op", drain(json!({})));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    assert_eq!(steps(&operation), [("DrainNode", StepState::Done), ("UncordonNode", StepState::Skipped)]);
    assert_eq!((world.pods(), world.is_cordoned()), (Vec::new(), Some(true)));
    assert_eq!(world.cordoned_by().as_deref(), Some("uid-op/boot of before"));
    assert_eq!(world.nova().instances.len(), 1);
}

#[tokio::test]
async fn a_budget_fails_the_drain_after_its_time_limit_and_no_pod_is_deleted() {
    for (stays, expected) in
        [(json!(null), Some(false)), (json!(true), Some(false)), (json!(false), Some(true))]
    {
        let world = world();
        world.run_pod("web", held());
        world.request("op", drain(json!({"timeoutSeconds": 60, "uncordonOnFailure": stays})));
        let operation = world.finish("op").await;
        assert_eq!(operation.condition("Failed").unwrap().reason, "DrainBlocked", "{stays}");
        let said = message(&operation);
        assert!(said.contains("ns/web: cannot evict pod as it would violate"), "{said}");
        assert_eq!((world.pods(), world.is_cordoned()), (vec!["web".to_owned()], expected), "{stays}");
        let (kind, text) = event(&world, "DrainNodeFailed");
        assert!(kind == "Warning" && text.contains("ns/web"), "{kind} {text}");
    }
}

#[tokio::test]
async fn a_drain_by_force_deletes_the_pods_after_its_time_limit_and_an_event_lists_them() {
    let world = world();
    world.run_pod("web", held());
    world.request("op", drain(json!({"timeoutSeconds": 60, "force": true})));
    world.until("op", |operation| progress(operation).contains("cannot evict pod")).await;
    assert_eq!(world.pods(), ["web"], "the time limit is not over");
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    let expected = [
        ("DrainNode", StepState::Failed),
        ("DeletePods", StepState::Done),
        ("UncordonNode", StepState::Skipped),
    ];
    assert_eq!(steps(&operation), expected);
    assert_eq!((world.pods(), world.is_cordoned()), (Vec::new(), Some(true)));
    let (kind, text) = event(&world, "DrainNodeFailed");
    assert!(kind == "Warning" && text.contains("gave up the evictions: Pod ns/web"), "{kind} {text}");
}

#[tokio::test]
async fn the_time_limit_of_a_drain_does_not_count_a_pause_of_the_cluster_or_of_the_machine() {
    type Pause = fn(&World, bool);
    let of_cluster: Pause = |world, paused| {
        world.api.change(CLUSTER, |cluster| cluster["spec"]["paused"] = json!(paused));
    };
    let of_machine: Pause = |world, paused| {
        let annotations = if paused { json!({"cluster.x-k8s.io/paused": ""}) } else { json!({}) };
        world.api.change(MACHINE, |machine| machine["metadata"]["annotations"] = annotations);
    };
    for pause in [of_cluster, of_machine] {
        let world = world();
        world.run_pod("web", held());
        world.request("op", drain(json!({"timeoutSeconds": 60})));
        let is_refused = |operation: &MachineOperation| progress(operation).contains("cannot evict pod");
        world.until("op", is_refused).await;
        pause(&world, true);
        let paused = world.until("op", |operation| progress(operation).contains("is paused")).await;
        let step = paused.status.unwrap().steps.unwrap().remove(0);
        assert!(step.name == "DrainNode" && step.paused_since.is_some(), "{step:?}");
        world.pass_time(86_400);
        pause(&world, false);
        let goes_on = world.until("op", is_refused).await;
        assert_eq!(phase(&goes_on), Some(OperationPhase::Running), "{}", message(&goes_on));
        let failed = world.finish("op").await;
        assert_eq!(failed.condition("Failed").unwrap().reason, "DrainBlocked");
        let step = failed.status.unwrap().steps.unwrap().remove(0);
        assert!(step.paused_seconds.is_some_and(|seconds| seconds >= 86_400), "{step:?}");
        assert_eq!(step.paused_since, None);
    }
}

#[tokio::test]
async fn a_drain_by_force_gives_up_a_pod_that_does_not_end() {
    let world = world();
    world.run_pod("stuck", json!({"labels": {"budget": ""}, "finalizers": ["test.capstan.dev/slow"]}));
    world.request("op", drain(json!({"timeoutSeconds": 60, "force": true})));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    assert!(message(&operation).contains("gave up the wait for the end of Pod ns/stuck"));
    assert_eq!((world.pods(), world.is_cordoned()), (vec!["stuck".to_owned()], Some(true)));
    let (kind, text) = event(&world, "DeletePodsFailed");
    assert!(kind == "Warning" && text.contains("ns/stuck"), "{kind} {text}");
}

/// Cancels before the n-th pass, for every n.
#[tokio::test]
async fn a_cancelled_drain_leaves_the_node_schedulable() {
    let (mut cancelled, mut completed) = (0, 0);
    for passes in 0..10 {
        let world = world();
        world.workload.connected().await;
        world.request("op", drain(json!({})));
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

#[tokio::test]
async fn a_drain_that_is_cancelled_while_it_deletes_leaves_the_node_schedulable() {
    let world = world();
    world.run_pod("stuck", json!({"labels": {"budget": ""}, "finalizers": ["test.capstan.dev/slow"]}));
    world.request("op", drain(json!({"timeoutSeconds": 60, "force": true})));
    let deletes = |operation: &MachineOperation| {
        steps(operation).contains(&("DeletePods", StepState::Running))
            && progress(operation).contains("deletionTimestamp set")
    };
    world.until("op", deletes).await;
    cancel(&world);
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Cancelled), "{}", message(&operation));
    assert_eq!(world.is_cordoned(), Some(false));
}

/// The deletion drains the Node, too, and pods would return to it before.
#[tokio::test]
async fn a_drain_whose_machine_is_deleted_leaves_the_node_cordoned() {
    let world = world();
    world.run_pod("web", held());
    world.request("op", drain(json!({})));
    world.until("op", |operation| progress(operation).contains("cannot evict pod")).await;
    world.api.change(MACHINE, |machine| {
        machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
        machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    let operation = world.finish("op").await;
    assert_eq!(operation.condition("Cancelled").unwrap().reason, "MachineDeleting");
    assert_eq!(steps(&operation), [("DrainNode", StepState::Failed), ("UncordonNode", StepState::Skipped)]);
    assert_eq!(world.is_cordoned(), Some(true));
}

#[tokio::test]
async fn a_cancelled_drain_keeps_the_cordon_of_a_user() {
    let world = world();
    world.cordon_by_hand();
    world.run_pod("web", held());
    world.request("op", drain(json!({})));
    world.until("op", |operation| progress(operation).contains("cannot evict pod")).await;
    cancel(&world);
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Cancelled), "{}", message(&operation));
    assert_eq!((world.is_cordoned(), world.cordoned_by()), (Some(true), None));
}

#[tokio::test]
async fn a_dry_run_lists_the_pods_and_changes_nothing() {
    let world = world();
    world.run_pod("a", json!({}));
    world.run_pod("web", held());
    world.request("op", drain(json!({"dryRun": true})));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    assert!(message(&operation).contains("ns/web: cannot evict pod"), "{}", message(&operation));
    let pods = operation.status.unwrap().result.unwrap().pods.unwrap();
    let found: Vec<(&str, PodTreatment)> = pods.iter().map(|pod| (pod.name.as_str(), pod.verdict)).collect();
    assert_eq!(found, [("a", PodTreatment::Evict), ("web", PodTreatment::Refused)]);
    assert_eq!((world.pods().len(), world.is_cordoned(), world.cordoned_by()), (2, Some(false), None));
}
