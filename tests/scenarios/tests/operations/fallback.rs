//! Test of a soft reboot that does not end in time, and of the hard one that follows.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::StepState;
use tests_scenarios::{CrashPoint, Side};
use tokio::task::JoinSet;

use crate::testbed::{Root, Testbed};
use crate::worker::{Plan, Worker};

/// Duration of a soft reboot: longer than the test.
const REBOOT_TIME: Duration = Duration::from_secs(3600);

/// Number of concurrent workers: each mostly waits.
const WORKERS: usize = 4;

/// Body of a reboot that times out at once by the operations' clock.
pub(crate) const FALLBACK: Plan = Plan {
    name: "soft reboot that falls back to a hard one",
    body: r#"{"type": "Soft", "softTimeoutSeconds": 5}"#,
    calls: &["reboot", "reboot"],
};

/// Crashes at one worker's share of the effects. Returns the number of crashes.
async fn crash_share(share: usize) -> usize {
    let mut worker = Worker::new(Testbed::with_soft_reboots_of(Root::Image, REBOOT_TIME).await);
    let mut crashes = 0;
    for side in [Side::Before, Side::After] {
        for n in (share..).step_by(WORKERS) {
            let crash_point = Arc::new(CrashPoint::at(n, side));
            let (name, goal) = worker.request(&FALLBACK).await;
            worker.testbed.settle_despite_crash(&crash_point).await;
            let case = format!("{}, crash {side:?} {n}, {:?}", FALLBACK.name, crash_point.effects().last());
            worker.check(&FALLBACK, &name, goal, &case).await;
            let status = worker.testbed.operation(&name).await.status.unwrap();
            let steps = status.steps.clone().unwrap_or_default();
            let step = |name: &str| steps.iter().find(|step| step.name == name).map(|step| step.state);
            assert_eq!(step("AwaitSoftReboot"), Some(StepState::Failed), "{case}: {status:#?}");
            assert_eq!(step("AwaitHardReboot"), Some(StepState::Done), "{case}: {status:#?}");
            if !crash_point.has_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    worker.testbed.end().await;
    crashes
}

#[tokio::test]
async fn a_soft_reboot_that_times_out_is_followed_by_one_hard_one_despite_crashes() {
    let begun = std::time::Instant::now();
    let mut workers = JoinSet::new();
    for share in 0..WORKERS {
        workers.spawn(crash_share(share));
    }
    let crashes: usize = workers.join_all().await.into_iter().sum();
    assert!(crashes > 16, "{crashes} crashes");
    eprintln!("{}: {crashes} crashes in {:?}", FALLBACK.name, begun.elapsed());
}
