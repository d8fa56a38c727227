//! Tests of a cloud that fails once, in the one call of an operation.

use tests_openstack_simulator::{FaultEffect, InjectedFault};

use crate::testbed::{Root, Testbed};
use crate::worker::{HARD, Plan, REBUILD, REPLACE, SOFT, Worker, expected};

const PAGE: &str = "<html><head><title>502</title></head><body><h1>Bad Gateway</h1></body></html>";

fn effects() -> [FaultEffect; 6] {
    let status = |code, body: &str, content_type: Option<&str>, retry_after| FaultEffect::Status {
        code,
        body: body.to_owned(),
        content_type: content_type.map(str::to_owned),
        retry_after,
    };
    [
        status(500, r#"{"computeFault": {"code": 500, "message": "Unexpected"}}"#, None, None),
        status(502, PAGE, Some("text/html"), None),
        status(429, r#"{"overLimit": {"message": "slow down"}}"#, None, Some(1)),
        status(409, r#"{"conflictingRequest": {"code": 409, "message": "not now"}}"#, None, None),
        FaultEffect::DropBeforeEffect,
        FaultEffect::DropAfterEffect,
    ]
}

/// Injects an error into the first call of its kind.
fn fault(call: &str, effect: FaultEffect) -> InjectedFault {
    let fault = InjectedFault { count: Some(1), ..InjectedFault::new(effect) };
    match call.split_once(' ') {
        None => InjectedFault { action: Some(call.to_owned()), ..fault },
        Some((method, kind)) => {
            let path = Some(format!("/compute/v2.1/{kind}"));
            InjectedFault { method: Some(method.to_owned()), path, ..fault }
        }
    }
}

async fn check_every_error_of_every_call(plans: &[Plan]) {
    let mut worker = Worker::new(Testbed::new(Root::Image).await);
    for plan in plans {
        for (call, effect) in plan.calls.iter().flat_map(|call| effects().map(|effect| (*call, effect))) {
            let case = format!("{}: {call}: {effect:?}", plan.name);
            let (name, goal) = worker.request(plan).await;
            worker.testbed.world.cloud.inject(fault(call, effect.clone()));
            worker.testbed.settle(&worker.testbed.controllers()).await;
            // A call whose response was lost has taken effect.
            let mut calls = worker.testbed.calls();
            if effect == FaultEffect::DropAfterEffect {
                *calls.entry(call.to_owned()).or_default() += 1;
            }
            let wrong = calls.keys().filter(|made| made.starts_with(&format!("{call}: "))).count();
            assert!(wrong > 0, "{case}: the call did not fail: {calls:?}");
            calls.retain(|made, _| !made.contains(": "));
            assert_eq!(calls, expected(plan), "{case}");
            worker.is_done(&name, goal, &case).await;
            let operation = worker.testbed.operation(&name).await;
            let said = serde_json::to_string(&operation.status).unwrap();
            assert!(!said.contains("<h") && !said.contains("</"), "{case}: {said}");
        }
    }
    worker.testbed.end().await;
}

#[tokio::test]
async fn a_reboot_takes_effect_once_despite_a_failed_call() {
    check_every_error_of_every_call(&[HARD, SOFT]).await;
}

#[tokio::test]
async fn an_upgrade_takes_effect_once_despite_a_failed_call() {
    check_every_error_of_every_call(&[REBUILD, REPLACE]).await;
}
