//! Tests of operations by a leader that freezes directly before an effect, after its permit. Another process takes over,
//! and then the late call reaches the cloud.

use std::sync::Arc;
use std::time::Duration;

use controllers_runtime::TermStart;
use tests_scenarios::{Controllers, CrashPoint, Side};
use tokio::time::Instant;

use crate::testbed::{Calls, Root, Testbed};
use crate::worker::{AUTO_VOLUME, HARD, Plan, REBUILD, REPLACE, SOFT, Worker, expected};

/// Age of the second term. Creations wait for calls of the former leader for 65 seconds, so two are left.
const AGE: Duration = Duration::from_secs(63);

/// Passes of the second process before the late call. Each advances the clock of the operations by half a minute, and the
/// second process may repeat a call after two minutes.
const PASSES: usize = 2;

/// Returns the calls that changed the cloud. A deletion may happen twice: ids are not used again.
fn changes(calls: Calls) -> Calls {
    let is_change = |call: &String| !call.contains(':');
    let counted = |(call, count): (String, usize)| {
        let count = if call.starts_with("DELETE ") { 1 } else { count };
        (call, count)
    };
    let calls: Calls = calls.into_iter().filter(|(call, _)| is_change(call)).collect();
    calls.into_iter().map(counted).collect()
}

/// Freezes before the n-th effect, for every n there is.
async fn late_everywhere(plan: Plan, root: Root) {
    let mut worker = Worker::new(Testbed::new(root).await);
    let mut late = 0;
    for n in 0.. {
        let point = Arc::new(CrashPoint::at(n, Side::Late));
        let (name, goal) = worker.request(&plan).await;
        let first = Controllers::start_in(&worker.testbed.world, &point, TermStart::in_order(1));
        let mut frozen = Box::pin(worker.testbed.settle(&first));
        let is_frozen = tokio::select! {
            () = point.frozen() => true,
            () = &mut frozen => false,
        };
        if is_frozen {
            let now = Instant::now();
            let term = TermStart::after_a_cut(2, now.checked_sub(AGE).unwrap_or(now));
            let second = Controllers::start_in(&worker.testbed.world, &Arc::new(CrashPoint::never()), term);
            for _ in 0..PASSES {
                second.round().await.unwrap();
            }
            point.thaw();
            tokio::select! {
                () = point.crashed() => {}
                () = &mut frozen => {}
            }
            worker.testbed.settle(&second).await;
            late += 1;
        }
        drop(frozen);
        let case = format!("{}, {n} late, {:?}", plan.name, point.effects().last());
        assert_eq!(changes(worker.testbed.calls()), expected(&plan), "{case}");
        worker.is_done(&name, goal, &case).await;
        if !is_frozen {
            break;
        }
    }
    worker.testbed.end().await;
    assert!(late > 6, "{}: {late} late effects", plan.name);
    eprintln!("{}: {late} effects, each of them late once", plan.name);
}

#[tokio::test]
async fn hv06_a_late_hard_reboot_takes_effect_once() {
    Box::pin(late_everywhere(HARD, Root::Image)).await;
}

#[tokio::test]
async fn hv06_a_late_soft_reboot_takes_effect_once() {
    Box::pin(late_everywhere(SOFT, Root::Image)).await;
}

#[tokio::test]
async fn hv06_a_late_rebuild_takes_effect_once() {
    Box::pin(late_everywhere(REBUILD, Root::Image)).await;
}

#[tokio::test]
async fn hv06_a_late_call_of_a_replacement_leaves_one_server() {
    Box::pin(late_everywhere(REPLACE, Root::Image)).await;
}

#[tokio::test]
async fn hv06_a_late_call_of_a_replacement_leaves_one_server_with_one_volume() {
    Box::pin(late_everywhere(AUTO_VOLUME, Root::Volume)).await;
}
