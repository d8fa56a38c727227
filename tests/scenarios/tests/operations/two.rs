//! Tests of two operations on the same worker.

use std::sync::Arc;

use apiserver_types::{MachineOperation, OperationPhase};
use kube::api::ListParams;
use serde_json::json;
use tests_scenarios::{Controllers, CrashPoint, Side};

use crate::testbed::{Root, Testbed};
use crate::worker::{Plan, Worker};

const TWO_REBOOTS: Plan = Plan { name: "two reboots", body: "{}", calls: &["reboot", "reboot"] };

/// Checks that no two are in flight at the same time.
async fn one_at_a_time(testbed: &Testbed, case: &str) {
    let all = testbed.operations().list(&ListParams::default()).await.unwrap();
    let phase = |phase| {
        all.iter().filter(move |it| it.status.as_ref().and_then(|status| status.phase) == Some(phase))
    };
    assert!(phase(OperationPhase::Running).count() <= 1, "{case}: two operations are in flight");
}

/// Returns start and end of an operation.
fn span(operation: &MachineOperation) -> (String, String) {
    let status = operation.status.clone().unwrap();
    (status.start_time.unwrap().0, status.completion_time.unwrap().0)
}

#[tokio::test]
async fn a_concurrent_action_is_refused_and_names_the_running_operation() {
    let testbed = Testbed::new(Root::Image).await;
    testbed.world.cloud.clear_log();
    let key = json!({"idempotencyKey": "k"});
    let (one, other) =
        tokio::join!(testbed.request("reboot", key.clone()), testbed.request("reboot", json!({})));
    // Either may be first.
    let (first, refused) = match (one, other) {
        (Ok(first), Err(refused)) | (Err(refused), Ok(first)) => (first, refused.to_string()),
        both => panic!("both requests or none were accepted: {both:?}"),
    };
    assert!(refused.contains(&format!("machineoperation \"{first}\" is not finished")), "{refused}");
    let refused = testbed.request("upgrade", json!({"version": "v1.30.0"})).await.unwrap_err().to_string();
    assert!(refused.contains(&first), "{refused}");
    let controllers = testbed.controllers();
    testbed.settle(&controllers).await;
    assert_eq!(testbed.calls(), [("reboot".to_owned(), 1)].into());
    // Requests with the same key get the same operation, before and after it is done.
    let second = testbed.request("reboot", key.clone()).await.unwrap();
    assert_eq!(testbed.request("reboot", key.clone()).await.unwrap(), second);
    testbed.settle(&controllers).await;
    assert_eq!(testbed.request("reboot", key).await.unwrap(), second);
    testbed.settle(&controllers).await;
    let times = if second == first { 1 } else { 2 };
    assert_eq!(testbed.calls(), [("reboot".to_owned(), times)].into());
    testbed.end().await;
}

/// One requested and one by a manifest: the second waits, whichever process crashes.
#[tokio::test]
async fn a_second_operation_waits_for_the_first_despite_crashes() {
    let mut worker = Worker::new(Testbed::new(Root::Image).await);
    let mut crashes = 0;
    for side in [Side::Before, Side::After] {
        for n in 0.. {
            let crash_point = Arc::new(CrashPoint::at(n, side));
            let case = format!("two reboots, crash {side:?} {n}");
            let (name, goal) = worker.request(&TWO_REBOOTS).await;
            let second = format!("second-{n}-{side:?}").to_lowercase();
            let reboot = json!({"action": "Reboot", "reboot": {"type": "Hard"}});
            worker.testbed.create_operation(&second, reboot).await;
            let testbed = &worker.testbed;
            let first = Controllers::start(&testbed.world, &crash_point);
            let watched = async {
                while !crash_point.has_crashed() {
                    one_at_a_time(testbed, &case).await;
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
            };
            tokio::select! {
                () = watched => {}
                () = testbed.settle(&first) => {}
            }
            drop(first);
            testbed.settle(&testbed.controllers()).await;
            let (one, other) =
                (span(&testbed.operation(&name).await), span(&testbed.operation(&second).await));
            // Of operations of the same second, the one whose name sorts first is first.
            assert!(one.1 <= other.0 || other.1 <= one.0, "{case}: they overlap: {one:?}, {other:?}");
            worker.check(&TWO_REBOOTS, &name, goal, &case).await;
            if !crash_point.has_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    worker.testbed.end().await;
    assert!(crashes > 20, "{crashes} crashes");
    eprintln!("two reboots: {crashes} crashes");
}
