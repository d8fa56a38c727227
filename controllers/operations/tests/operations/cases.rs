//! Tests of errors, cancellations and waits of operations.

use apiserver_types::OperationPhase;
use controllers_infrastructure::ErrorClass;
use controllers_runtime::Requeue;
use serde_json::{Value, json};

use crate::nova::error;
use crate::world::{CLUSTER, INFRASTRUCTURE, MACHINE, World, is_over, message, path, phase, progress};

fn reboot() -> Value {
    json!({"action": "Reboot", "reboot": {}})
}

fn power_off() -> Value {
    json!({"action": "PowerOff"})
}

fn upgrade(strategy: &str) -> Value {
    json!({"action": "Upgrade", "upgrade": {"version": "v1.30.0", "strategy": strategy}})
}

fn set(world: &World, path: &str, pointer: &str, value: Value) {
    world.api.change(path, |object| {
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[key] = value;
    });
}

#[tokio::test]
async fn a_transient_error_is_retried_until_the_call_succeeds() {
    use ErrorClass as Class;
    let classes = [
        Class::Quota,
        Class::NoValidHost,
        Class::Conflict,
        Class::Throttled,
        Class::Unauthorized,
        Class::Broken,
        Class::Unknown,
        Class::Unreachable,
        Class::Credentials,
    ];
    let table = [
        ("Auto", "rebuild"),
        ("Replace", "delete_server"),
        ("Replace", "create_server"),
        ("Auto", "connect"),
    ];
    for class in classes {
        for (strategy, call) in table {
            let world = World::new(false);
            world.nova().injected_errors.extend((0..3).map(|_| (call, error(class, call))));
            world.request("op", upgrade(strategy));
            let expected = "the fake says no; retrying";
            let case = format!("{call}: {class:?}");
            let failing = world
                .until("op", |operation| progress(operation).contains(expected) || is_over(operation))
                .await;
            assert!(progress(&failing).contains(expected), "{case}");
            let operation = world.finish("op").await;
            assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{case}: {}", message(&operation));
            assert_eq!(world.nova().instances.len(), 1, "{case}");
        }
    }
}

#[tokio::test]
async fn a_permanent_error_fails_the_operation_with_the_message_of_the_cloud() {
    type Spoil = fn(&World);
    let table: [(&str, Value, Spoil, &str); 9] = [
        ("no such server", reboot(), |world| world.nova().instances.clear(), "does not know"),
        (
            "reboot is forbidden",
            reboot(),
            |world| world.nova().injected_errors.push(("reboot", error(ErrorClass::Forbidden, "reboot"))),
            "the fake says no",
        ),
        (
            "power-off is forbidden",
            power_off(),
            |world| {
                world.nova().injected_errors.push(("set_power_state", error(ErrorClass::Forbidden, "stop")))
            },
            "the fake says no",
        ),
        (
            "no image",
            upgrade("Auto"),
            |world| world.nova().images.clear(),
            "name of the server's present image",
        ),
        (
            "no new image",
            upgrade("Auto"),
            |world| world.nova().images.truncate(1),
            "there is no image named \"kube-v1.30.0\"",
        ),
        (
            "too far",
            upgrade("Auto"),
            |world| set(world, MACHINE, "/spec/version", json!("v1.28.0")),
            "more than one minor",
        ),
        (
            "a requested rebuild",
            upgrade("Rebuild"),
            |world| world.nova().rebuilds_fail = true,
            "the host is on fire",
        ),
        (
            "a requested rebuild that is refused",
            upgrade("Rebuild"),
            |world| world.nova().injected_errors.push(("rebuild", error(ErrorClass::Invalid, "rebuild"))),
            "the fake says no",
        ),
        (
            "not ours",
            upgrade("Replace"),
            |world| world.nova().instances.values_mut().for_each(|instance| instance.server.tags.clear()),
            "does not carry the ownership tag",
        ),
    ];
    for (case, spec, spoil, words) in table {
        let world = World::new(false);
        spoil(&world);
        world.request("op", spec);
        let operation = world.finish("op").await;
        assert_eq!(phase(&operation), Some(OperationPhase::Failed), "{case}: {}", message(&operation));
        assert!(message(&operation).contains(words), "{case}: {}", message(&operation));
        let annotations = &world.api.get(INFRASTRUCTURE).unwrap()["metadata"]["annotations"];
        assert!(annotations.get("capstan.dev/operation").is_none(), "{case}");
    }
}

#[tokio::test]
async fn a_refused_rebuild_becomes_a_replacement_unless_a_rebuild_was_requested() {
    let world = World::new(false);
    world.nova().injected_errors.push(("rebuild", error(ErrorClass::Invalid, "rebuild")));
    world.request("op", upgrade("Auto"));
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete));
    let result = operation.status.as_ref().unwrap().result.clone().unwrap();
    assert_eq!(result.strategy.as_deref(), Some("Replace"));
    assert_ne!(result.server_id, result.previous_server_id);
    let said = message(&operation);
    assert!(said.contains("by Replace") && said.contains("the fake says no"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_off_is_rebooted_hard() {
    let world = World::new(false);
    world.set_status("SHUTOFF");
    world.request("op", reboot());
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete));
    assert!(message(&operation).contains("hard reboot succeeded"), "{}", message(&operation));
}

/// Gives the server a status and a log without the action, and expects the operation to be complete
/// without a call.
async fn completes_without_a_call(spec: Value, status: &str, action: &str) {
    let world = World::new(false);
    world.set_status(status);
    world.request("op", spec);
    let operation = world.finish("op").await;
    assert_eq!(phase(&operation), Some(OperationPhase::Complete), "{}", message(&operation));
    assert_eq!(world.nova().count(action), 0);
    assert!(message(&operation).contains("already"), "{}", message(&operation));
}

#[tokio::test]
async fn a_server_that_is_off_is_not_powered_off() {
    completes_without_a_call(power_off(), "SHUTOFF", "stop").await;
}

#[tokio::test]
async fn a_server_that_runs_is_not_powered_on() {
    completes_without_a_call(json!({"action": "PowerOn"}), "ACTIVE", "start").await;
}

#[tokio::test]
async fn operations_of_a_machine_run_one_at_a_time_and_the_oldest_first() {
    let world = World::new(false);
    world.request("z-older", reboot());
    world.pass_time(5);
    world.request("a-younger", reboot());
    let waiting = world.until("a-younger", |operation| progress(operation).contains("waiting")).await;
    assert_eq!(phase(&waiting), Some(OperationPhase::Pending));
    assert!(progress(&waiting).contains("\"z-older\""), "{}", progress(&waiting));
    world.finish("z-older").await;
    assert_eq!(phase(&world.finish("a-younger").await), Some(OperationPhase::Complete));
    assert_eq!(world.nova().count("reboot"), 2);
}

#[tokio::test]
async fn an_operation_on_a_paused_object_waits() {
    for (path, pointer, value) in [
        (CLUSTER, "/spec/paused", json!(true)),
        (MACHINE, "/metadata/annotations", json!({"cluster.x-k8s.io/paused": ""})),
        (INFRASTRUCTURE, "/metadata/annotations", json!({"cluster.x-k8s.io/paused": "true"})),
    ] {
        let world = World::new(false);
        set(&world, path, pointer, value);
        world.request("op", upgrade("Replace"));
        world.until("op", |operation| progress(operation).contains("paused")).await;
        assert_eq!(phase(&world.operation("op").unwrap()), Some(OperationPhase::Pending));
        set(&world, path, pointer, Value::Null);
        // The same in the middle of the operation.
        world.until("op", |operation| operation.metadata.annotations.is_some()).await;
        set(&world, path, "/metadata/annotations", json!({"cluster.x-k8s.io/paused": ""}));
        world.until("op", |operation| progress(operation).contains("paused")).await;
        set(&world, path, "/metadata/annotations", Value::Null);
        assert_eq!(phase(&world.finish("op").await), Some(OperationPhase::Complete), "{path}");
    }
}

/// Returns how often Nova did this, and which servers exist.
fn servers(world: &World, action: &str) -> (usize, Vec<String>) {
    let nova = world.nova();
    (nova.count(action), nova.instances.keys().cloned().collect())
}

/// Stops before the n-th pass, for every n: either nothing is done, or all of it.
#[tokio::test]
async fn a_cancelled_operation_has_full_effect_or_none() {
    for (spec, action) in [
        (reboot(), "reboot"),
        (power_off(), "stop"),
        (upgrade("Auto"), "rebuild"),
        (upgrade("Replace"), "create"),
    ] {
        let (mut cancelled, mut completed) = (0, 0);
        for passes in 0..30 {
            let world = World::new(false);
            let before = servers(&world, action);
            world.request("op", spec.clone());
            let controller = world.controller();
            for _ in 0..passes {
                if matches!(controller.pass("ns", "op").await, Ok(Requeue::After(_))) {
                    world.pass_time(1);
                }
            }
            set(&world, &path("op"), "/spec/cancelRequested", json!(true));
            let operation = world.finish("op").await;
            let after = servers(&world, action);
            let case = format!("{action} after {passes} passes: {}", message(&operation));
            match phase(&operation) {
                Some(OperationPhase::Cancelled) => {
                    cancelled += 1;
                    assert_eq!(before, after, "{case}");
                }
                Some(OperationPhase::Complete) => {
                    completed += 1;
                    assert_ne!(before, after, "{case}");
                }
                other => panic!("{case}: {other:?}"),
            }
        }
        assert!(cancelled > 0 && completed > 0, "{action}: {cancelled} cancelled, {completed} completed");
    }
}

/// The Machine is deleted before the n-th pass, for every n: the operation ends, and the Machine's
/// deletion finds every server by its tag or by the recorded id.
#[tokio::test]
async fn the_deletion_of_a_machine_ends_its_operation() {
    for passes in 0..40 {
        let world = World::new(true);
        world.request("op", upgrade("Auto"));
        let controller = world.controller();
        for _ in 0..passes {
            if matches!(controller.pass("ns", "op").await, Ok(Requeue::After(_))) {
                world.pass_time(3);
            }
        }
        world.api.change(MACHINE, |machine| {
            machine["metadata"]["finalizers"] = json!(["machine.cluster.x-k8s.io"]);
            machine["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        });
        let operation = world.finish("op").await;
        assert!(is_over(&operation));
        world.pass_time(3600);
        let id = world.api.get(INFRASTRUCTURE).unwrap()["status"]["instanceID"].as_str().unwrap().to_owned();
        let nova = world.nova();
        assert!(nova.instances.len() <= 1, "after {passes} passes");
        for (server, instance) in &nova.instances {
            assert!(instance.server.tags.contains(&"capstan-uid-m1".to_owned()), "after {passes} passes");
            assert_eq!(*server, id, "after {passes} passes");
        }
    }
}

#[tokio::test]
async fn a_deleted_operation_is_cancelled_and_removed() {
    let world = World::new(false);
    world.request("op", reboot());
    world.until("op", |operation| operation.metadata.finalizers.is_some()).await;
    set(&world, &path("op"), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    let controller = world.controller();
    for _ in 0..10 {
        let _next = controller.pass("ns", "op").await;
    }
    assert!(world.operation("op").is_none());
    assert_eq!(world.nova().count("reboot"), 0);
}

#[tokio::test]
async fn every_transition_is_an_event_on_the_machine() {
    let world = World::new(false);
    world.nova().soft_hangs = true;
    world.request("op", json!({"action": "Reboot", "reboot": {"softTimeoutSeconds": 30}}));
    world.finish("op").await;
    let events = world.api.under("/api/v1/namespaces/ns/events/");
    let reasons: Vec<(&str, &str)> = events
        .iter()
        .map(|event| (event["reason"].as_str().unwrap(), event["type"].as_str().unwrap()))
        .collect();
    for expected in
        [("RebootRunning", "Normal"), ("AwaitSoftRebootFailed", "Warning"), ("RebootComplete", "Normal")]
    {
        assert!(reasons.contains(&expected), "{expected:?} in {reasons:?}");
    }
    for event in &events {
        let about = &event["involvedObject"];
        assert_eq!(
            (&about["kind"], &about["name"], &about["uid"]),
            (&json!("Machine"), &json!("m1"), &json!("uid-m1"))
        );
    }
}

#[tokio::test]
async fn an_operation_waits_for_its_bootstrap_data() {
    let world = World::new(false);
    set(&world, MACHINE, "/spec/bootstrap", json!({}));
    world.request("op", upgrade("Replace"));
    world.until("op", |operation| progress(operation).contains("bootstrap data")).await;
    assert_eq!(world.nova().instances.values().next().unwrap().server.task_state, None);
    set(&world, MACHINE, "/spec/bootstrap", json!({"dataSecretName": "boot"}));
    assert_eq!(phase(&world.finish("op").await), Some(OperationPhase::Complete));
}

/// For a name that is too long for a label, all labels were removed, also those by which a GitOps tool knows its objects.
#[tokio::test]
async fn an_operation_keeps_the_labels_of_its_user_whatever_the_name_of_its_machine() {
    for machine in ["m1".to_owned(), "m".repeat(64)] {
        let world = World::new(false);
        world.request("op", reboot());
        set(&world, &path("op"), "/metadata/labels", json!({"mine": "yes"}));
        set(&world, &path("op"), "/spec/machineName", json!(machine));
        let operation = world.until("op", |operation| operation.metadata.finalizers.is_some()).await;
        let labels = operation.metadata.labels.unwrap_or_default();
        assert_eq!(labels.get("mine").map(String::as_str), Some("yes"), "{machine}");
    }
}
