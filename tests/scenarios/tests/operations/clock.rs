//! Tests of operations with a wall clock that jumps by hours, forward and back.

use std::sync::Arc;
use std::time::Duration;

use tests_scenarios::{CrashPoint, Side};

use crate::fallback::FALLBACK;
use crate::testbed::{Calls, Root, Testbed};
use crate::worker::{AUTO_VOLUME, HARD, Plan, REBUILD, REPLACE, SOFT, Worker};

const HOURS: i64 = 3600;

/// Jumps in every round: forward, back, or both in turn.
async fn jump_everywhere(plan: Plan, root: Root, reboot_time: Duration) {
    let mut worker = Worker::new(Testbed::with_reboots_of(root, reboot_time).await);
    for jumps in [[5 * HOURS, 0], [-7 * HOURS, 0], [3 * HOURS, -30 * HOURS]] {
        for rounds in 0.. {
            let (name, goal) = worker.request(&plan).await;
            let controllers = worker.testbed.controllers();
            for _ in 0..rounds {
                controllers.round().await.unwrap();
            }
            let over = tests_scenarios::is_over(&worker.testbed.operation(&name).await);
            worker.testbed.world.clock.jump(jumps[0]);
            controllers.round().await.unwrap();
            worker.testbed.world.clock.jump(jumps[1]);
            worker.testbed.settle(&controllers).await;
            let case = format!("{}, jumps of {jumps:?} s after {rounds} rounds", plan.name);
            worker.check(&plan, &name, goal, &case).await;
            if over {
                break;
            }
        }
    }
    worker.testbed.end().await;
}

#[tokio::test]
async fn a_clock_jump_does_not_repeat_a_reboot() {
    Box::pin(jump_everywhere(HARD, Root::Image, Duration::from_millis(1))).await;
    Box::pin(jump_everywhere(SOFT, Root::Image, Duration::from_millis(1))).await;
}

/// Requests a soft reboot of one second, lets the clock jump while it is in flight, and checks the number
/// of reboots. The rounds advance the operations' clock by less than the longer timeout.
async fn jump_while_it_reboots(plan: Plan, reboot_time: u64, seconds: i64) {
    let testbed = Testbed::with_reboots_of(Root::Image, Duration::from_secs(reboot_time)).await;
    let mut worker = Worker::new(testbed);
    let (name, goal) = worker.request(&plan).await;
    let controllers = worker.testbed.controllers();
    while worker.testbed.calls().is_empty() {
        controllers.round().await.unwrap();
    }
    worker.testbed.world.clock.jump(seconds);
    worker.testbed.settle(&controllers).await;
    worker.check(&plan, &name, goal, &format!("{}, a jump of {seconds} s", plan.name)).await;
    worker.testbed.end().await;
}

#[tokio::test]
async fn a_forward_clock_jump_does_not_time_out_a_soft_reboot() {
    let patient = r#"{"type": "Soft", "softTimeoutSeconds": 3600}"#;
    jump_while_it_reboots(Plan { body: patient, ..SOFT }, 1, 5 * HOURS).await;
}

#[tokio::test]
async fn a_soft_reboot_times_out_despite_a_backward_clock_jump() {
    jump_while_it_reboots(FALLBACK, 3, -1000 * HOURS).await;
}

/// Reboot whose process ends before it calls Nova.
async fn crash_before_the_call(worker: &mut Worker) -> (String, (String, String)) {
    for n in 0.. {
        let crash_point = Arc::new(CrashPoint::at(n, Side::Before));
        let requested = worker.request(&HARD).await;
        worker.testbed.work_until_crash(&crash_point).await;
        if crash_point.effects().last().is_some_and(|effect| effect == "reboot_server") {
            return requested;
        }
        assert!(crash_point.has_crashed(), "the operation did not call Nova");
        worker.testbed.settle(&worker.testbed.controllers()).await;
    }
    unreachable!("the range has no end")
}

/// A process ended before its call, or with the call on its way; the next one cannot know. It waits for a
/// call that may be on its way, and a jump of the wall clock does not shorten the wait.
async fn jump_while_a_call_may_be_in_flight(seconds: i64) {
    let mut worker = Worker::new(Testbed::new(Root::Image).await);
    let (name, goal) = crash_before_the_call(&mut worker).await;
    let next = worker.testbed.controllers();
    next.round().await.unwrap();
    worker.testbed.world.clock.jump(seconds);
    next.round().await.unwrap();
    assert_eq!(worker.testbed.calls(), Calls::new(), "no wait after a jump of {seconds} s");
    worker.testbed.settle(&next).await;
    worker.check(&HARD, &name, goal, "after a jump while a call may be in flight").await;
    worker.testbed.end().await;
}

#[tokio::test]
async fn a_forward_clock_jump_does_not_shorten_the_wait_for_a_call() {
    jump_while_a_call_may_be_in_flight(5 * HOURS).await;
}

#[tokio::test]
async fn a_backward_clock_jump_does_not_shorten_the_wait_for_a_call() {
    jump_while_a_call_may_be_in_flight(-5 * HOURS).await;
}

#[tokio::test]
async fn a_clock_jump_does_not_repeat_an_upgrade() {
    Box::pin(jump_everywhere(REBUILD, Root::Image, Duration::from_millis(1))).await;
    Box::pin(jump_everywhere(REPLACE, Root::Image, Duration::from_millis(1))).await;
    Box::pin(jump_everywhere(AUTO_VOLUME, Root::Volume, Duration::from_millis(1))).await;
}
