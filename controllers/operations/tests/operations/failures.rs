//! Tests of the passes that count as failed in the controllers' metrics.

use std::time::Duration;

use apiserver_types::OperationPhase;
use controllers_infrastructure::ErrorClass;
use controllers_runtime::Requeue;
use serde_json::{Value, json};

use crate::nova::error;
use crate::world::{INFRASTRUCTURE, MACHINE, World, message, path, phase};

/// Number of passes: more than precede the first one with an interval.
const PASSES: usize = 20;

fn reboot() -> Value {
    json!({"action": "Reboot", "reboot": {}})
}

/// Makes passes until one is not followed by the next at once.
async fn first_pause(world: &World) -> Requeue {
    let controller = world.controller();
    for _ in 0..PASSES {
        match controller.pass("ns", "op").await.unwrap() {
            Requeue::Now => {}
            other => return other,
        }
    }
    panic!("it never waits: {:#?}", world.operation("op"));
}

#[tokio::test]
async fn a_cloud_error_fails_the_pass_and_keeps_the_intervals() {
    for call in ["connect", "reboot"] {
        for class in [ErrorClass::Unreachable, ErrorClass::Throttled, ErrorClass::Conflict] {
            let world = World::new(false);
            world.nova().injected_errors.push((call, error(class, call)));
            world.request("op", reboot());
            assert_eq!(
                first_pause(&world).await,
                Requeue::Retry(Duration::from_secs(1)),
                "{call}: {class:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_failed_operation_fails_its_pass_and_is_retired_at_once() {
    let world = World::new(false);
    world.nova().injected_errors.push(("reboot", error(ErrorClass::Forbidden, "reboot")));
    world.request("op", reboot());
    assert_eq!(first_pause(&world).await, Requeue::Retry(Duration::ZERO));
    let operation = world.operation("op").unwrap();
    assert_eq!(phase(&operation), Some(OperationPhase::Failed), "{}", message(&operation));
}

#[tokio::test]
async fn a_pass_that_waits_or_is_cancelled_has_not_failed() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 3] = [
        (MACHINE, |machine| machine["metadata"]["annotations"] = json!({"cluster.x-k8s.io/paused": ""})),
        (INFRASTRUCTURE, |server| server["spec"]["identityRef"] = json!({"name": "none", "cloudName": "c"})),
        ("", |operation| operation["spec"]["cancelRequested"] = json!(true)),
    ];
    for (object, change) in cases {
        let world = World::new(false);
        world.request("op", reboot());
        let object = if object.is_empty() { path("op") } else { object.to_owned() };
        world.api.change(&object, change);
        let next = first_pause(&world).await;
        assert!(matches!(next, Requeue::After(_)), "{object}: {next:?}");
    }
}
