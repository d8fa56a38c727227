//! Tests of operations by controllers that crash before and after every single effect.

use std::sync::Arc;

use tests_scenarios::{Controllers, CrashPoint, Side};

use crate::testbed::{Root, Testbed};
use crate::worker::{AUTO, AUTO_VOLUME, HARD, Plan, REBUILD, REPLACE, SOFT, Worker};

/// Crashes before the n-th effect or after it, for every n there is; and once after every effect.
async fn crash_everywhere(plan: Plan, root: Root) {
    let begun = std::time::Instant::now();
    let mut worker = Worker::new(Testbed::new(root).await);
    let mut crashes = 0;
    for side in [Side::Before, Side::After] {
        for n in 0.. {
            let crash_point = Arc::new(CrashPoint::at(n, side));
            let (name, goal) = worker.request(&plan).await;
            worker.testbed.settle_despite_crash(&crash_point).await;
            let case = format!("{}, crash {side:?} {n}, {:?}", plan.name, crash_point.effects().last());
            worker.check(&plan, &name, goal, &case).await;
            if !crash_point.has_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    let (name, goal) = worker.request(&plan).await;
    let mut processes = 0;
    loop {
        let crash_point = Arc::new(CrashPoint::at(0, Side::After));
        let controllers = Controllers::start(&worker.testbed.world, &crash_point);
        tokio::select! {
            () = crash_point.crashed() => processes += 1,
            () = worker.testbed.settle(&controllers) => break,
        }
    }
    worker.check(&plan, &name, goal, &format!("{}, crash after every effect", plan.name)).await;
    worker.testbed.end().await;
    assert!(
        crashes > 12 && processes > 6,
        "{}: {crashes} crashes, {processes} processes in a row",
        plan.name
    );
    eprintln!("{}: {crashes} crashes, {processes} processes in a row, in {:?}", plan.name, begun.elapsed());
}

#[tokio::test]
async fn a_hard_reboot_takes_effect_once_despite_crashes() {
    crash_everywhere(HARD, Root::Image).await;
}

#[tokio::test]
async fn a_soft_reboot_takes_effect_once_despite_crashes() {
    crash_everywhere(SOFT, Root::Image).await;
}

#[tokio::test]
async fn a_rebuild_takes_effect_once_despite_crashes() {
    crash_everywhere(REBUILD, Root::Image).await;
}

#[tokio::test]
async fn an_upgrade_takes_effect_once_despite_crashes() {
    crash_everywhere(AUTO, Root::Image).await;
}

#[tokio::test]
async fn a_replacement_takes_effect_once_despite_crashes() {
    crash_everywhere(REPLACE, Root::Image).await;
}

#[tokio::test]
async fn a_replacement_of_a_volume_backed_server_takes_effect_once_despite_crashes() {
    crash_everywhere(AUTO_VOLUME, Root::Volume).await;
}
