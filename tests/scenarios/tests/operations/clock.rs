//! A clock that jumps by hours, forward and back.

use std::sync::Arc;
use std::time::Duration;

use tests_scenarios::{Fuse, Side};

use crate::fallback::FALLBACK;
use crate::testbed::{Calls, Place, Root};
use crate::worker::{AUTO_VOLUME, HARD, Plan, REBUILD, REPLACE, SOFT, Worker};

const HOURS: i64 = 3600;

/// Jumps in the middle, at every round: forward, back, or to and fro.
async fn jump_everywhere(plan: Plan, root: Root, reboot_time: Duration) {
    let mut worker = Worker::new(Place::with_reboots_of(root, reboot_time).await);
    for jumps in [[5 * HOURS, 0], [-7 * HOURS, 0], [3 * HOURS, -30 * HOURS]] {
        for rounds in 0.. {
            let (name, goal) = worker.ask(&plan).await;
            let controllers = worker.place.controllers();
            for _ in 0..rounds {
                controllers.round().await.unwrap();
            }
            let over = tests_scenarios::is_over(&worker.place.operation(&name).await);
            worker.place.world.clock.jump(jumps[0]);
            controllers.round().await.unwrap();
            worker.place.world.clock.jump(jumps[1]);
            worker.place.settle(&controllers).await;
            let case = format!("{}, jumps of {jumps:?} s after {rounds} rounds", plan.name);
            worker.check(&plan, &name, goal, &case).await;
            if over {
                break;
            }
        }
    }
    worker.place.end().await;
}

#[tokio::test]
async fn a_clock_that_jumps_doubles_no_reboot() {
    jump_everywhere(HARD, Root::Image, Duration::from_millis(1)).await;
    jump_everywhere(SOFT, Root::Image, Duration::from_millis(1)).await;
}

/// Asks for a soft reboot that takes a second, lets the clock jump when Nova has it, and finds as
/// many reboots as were due. Rounds take less of the operations' clock than the patient one has.
async fn jump_while_it_reboots(plan: Plan, reboot_time: u64, seconds: i64) {
    let place = Place::with_reboots_of(Root::Image, Duration::from_secs(reboot_time)).await;
    let mut worker = Worker::new(place);
    let (name, goal) = worker.ask(&plan).await;
    let controllers = worker.place.controllers();
    while worker.place.calls().is_empty() {
        controllers.round().await.unwrap();
    }
    worker.place.world.clock.jump(seconds);
    worker.place.settle(&controllers).await;
    worker.check(&plan, &name, goal, &format!("{}, a jump of {seconds} s", plan.name)).await;
    worker.place.end().await;
}

#[tokio::test]
async fn a_soft_reboot_is_not_late_because_the_clock_jumped() {
    let patient = r#"{"type": "Soft", "softTimeoutSeconds": 3600}"#;
    jump_while_it_reboots(Plan { body: patient, ..SOFT }, 1, 5 * HOURS).await;
}

#[tokio::test]
async fn a_soft_reboot_is_late_though_the_clock_jumped_back() {
    jump_while_it_reboots(FALLBACK, 3, -1000 * HOURS).await;
}

/// A reboot whose process dies when it is about to call Nova.
async fn cut_before_the_call(worker: &mut Worker) -> (String, (String, String)) {
    for n in 0.. {
        let fuse = Arc::new(Fuse::at(n, Side::Before));
        let asked = worker.ask(&HARD).await;
        worker.place.work_until_cut(&fuse).await;
        if fuse.effects().last().is_some_and(|effect| effect == "reboot_server") {
            return asked;
        }
        assert!(fuse.is_blown(), "Nova was never called");
        worker.place.settle(&worker.place.controllers()).await;
    }
    unreachable!("there are more numbers")
}

/// A process died before its call, or with the call on its way: nobody can know. The next one waits
/// for a call that is on its way, and the hand of a clock that is turned is no waiting.
async fn jump_while_a_call_may_be_on_its_way(seconds: i64) {
    let mut worker = Worker::new(Place::new(Root::Image).await);
    let (name, goal) = cut_before_the_call(&mut worker).await;
    let next = worker.place.controllers();
    next.round().await.unwrap();
    worker.place.world.clock.jump(seconds);
    next.round().await.unwrap();
    assert_eq!(worker.place.calls(), Calls::new(), "it did not wait: a jump of {seconds} s");
    worker.place.settle(&next).await;
    worker.check(&HARD, &name, goal, "after a jump while a call may be on its way").await;
    worker.place.end().await;
}

#[tokio::test]
async fn a_clock_that_is_put_forward_settles_nothing() {
    jump_while_a_call_may_be_on_its_way(5 * HOURS).await;
}

#[tokio::test]
async fn a_clock_that_is_put_back_settles_nothing() {
    jump_while_a_call_may_be_on_its_way(-5 * HOURS).await;
}

#[tokio::test]
async fn a_clock_that_jumps_doubles_no_upgrade() {
    jump_everywhere(REBUILD, Root::Image, Duration::from_millis(1)).await;
    jump_everywhere(REPLACE, Root::Image, Duration::from_millis(1)).await;
    jump_everywhere(AUTO_VOLUME, Root::Volume, Duration::from_millis(1)).await;
}
