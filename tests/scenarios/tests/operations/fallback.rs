//! Test of a soft reboot that does not end in time, and of the hard one that follows.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::StepState;
use tests_scenarios::{Fuse, Side};
use tokio::task::JoinSet;

use crate::testbed::{Root, Testbed};
use crate::worker::{Plan, Worker};

/// Duration of a soft reboot: longer than its timeout by the operations' clock, and by the real one long
/// enough for the rest of the test.
const REBOOT_TIME: Duration = Duration::from_secs(10);

/// Number of concurrent workers: each mostly waits.
const WORKERS: usize = 4;

/// Body of a reboot that times out at once by the operations' clock.
pub(crate) const FALLBACK: Plan = Plan {
    name: "soft reboot that falls back to a hard one",
    body: r#"{"type": "Soft", "softTimeoutSeconds": 5}"#,
    calls: &["reboot", "reboot"],
};

/// Cuts one worker's share of the effects. Returns the number of cuts.
async fn cut_share(share: usize) -> usize {
    let mut worker = Worker::new(Testbed::with_reboots_of(Root::Image, REBOOT_TIME).await);
    let mut cuts = 0;
    for side in [Side::Before, Side::After] {
        for n in (share..).step_by(WORKERS) {
            let fuse = Arc::new(Fuse::at(n, side));
            let (name, goal) = worker.request(&FALLBACK).await;
            worker.testbed.settle_through(&fuse).await;
            let case = format!("{}, cut {side:?} {n}, {:?}", FALLBACK.name, fuse.effects().last());
            worker.check(&FALLBACK, &name, goal, &case).await;
            let status = worker.testbed.operation(&name).await.status.unwrap();
            let steps = status.steps.clone().unwrap_or_default();
            let step = |name: &str| steps.iter().find(|step| step.name == name).map(|step| step.state);
            assert_eq!(step("AwaitSoftReboot"), Some(StepState::Failed), "{case}: {status:#?}");
            assert_eq!(step("AwaitHardReboot"), Some(StepState::Done), "{case}: {status:#?}");
            if !fuse.is_blown() {
                break;
            }
            cuts += 1;
        }
    }
    worker.testbed.end().await;
    cuts
}

#[tokio::test]
async fn a_soft_reboot_that_is_late_is_followed_by_one_hard_one_wherever_it_is_cut() {
    let begun = std::time::Instant::now();
    let mut workers = JoinSet::new();
    for share in 0..WORKERS {
        workers.spawn(cut_share(share));
    }
    let cuts: usize = workers.join_all().await.into_iter().sum();
    assert!(cuts > 16, "{cuts} cuts");
    eprintln!("{}: {cuts} cuts in {:?}", FALLBACK.name, begun.elapsed());
}
