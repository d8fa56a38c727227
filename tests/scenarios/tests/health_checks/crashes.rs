//! Crashes of the controllers at every step of a replacement: one Machine is replaced, once.

use std::sync::Arc;

use serde_json::json;
use tests_scenarios::{CrashPoint, Side};

use crate::testbed::Bed;

/// Replaces one of two Machines, with a crash of the first process. Returns whether the other one stayed, and the number
/// of Machines.
async fn run(crash: &Arc<CrashPoint>) -> (bool, usize) {
    let spec = json!({
        "clusterName": "c", "selector": {"matchLabels": {"team": "a"}},
    });
    let bed = Bed::start("crash", "role", &spec).await;
    let before = bed.names().await;
    bed.annotate(&before[0], "cluster.x-k8s.io/remediate-machine", json!("")).await;
    let first = bed.controllers(crash);
    tokio::select! {
        () = crash.crashed() => {}
        () = bed.rounds(&first) => {}
    }
    drop(first);
    bed.rounds(&bed.controllers(&Arc::new(CrashPoint::never()))).await;
    let after = bed.names().await;
    (after.contains(&before[1]) && !after.contains(&before[0]), after.len())
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_replacement_ends_in_one_replacement() {
    let never = Arc::new(CrashPoint::never());
    assert_eq!(Box::pin(run(&never)).await, (true, 2));
    let steps = never.effects().len();
    assert!(steps > 8, "{:#?}", never.effects());
    for side in [Side::Before, Side::After] {
        for n in 0..steps {
            let crash = Arc::new(CrashPoint::at(n, side));
            let found = Box::pin(run(&crash)).await;
            assert!(crash.has_crashed(), "step {n}");
            assert_eq!(found, (true, 2), "crash {side:?} {:?}", crash.effects().last());
        }
    }
}
