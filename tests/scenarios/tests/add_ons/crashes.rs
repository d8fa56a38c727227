//! A process that ends at each step of a set: the next one completes it.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, ClusterResourceSet};
use serde_json::json;
use tests_scenarios::{CrashPoint, EachEffect};
use tokio_util::sync::CancellationToken;

use crate::testbed::{Testbed, map, resource};

/// Time after which a process that has not crashed is replaced all the same. On a busy machine, a start takes seconds.
const TERM: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_completed_whatever_step_a_process_ends_at() {
    let bed = Testbed::start().await;
    bed.put_map("a", &map("a", "1")).await;
    let resources = json!([resource("ConfigMap", "a")]);
    bed.create_cluster().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    bed.until::<Cluster>("blue", |it| it.condition("RemoteConnectionProbe").is_some_and(|it| it.holds()))
        .await;
    term.cancel();
    running.join_all().await;

    bed.create_set("crashing", "Reconcile", resources, json!({"capstan.dev/prune": "true"})).await;
    let parts = ["clusterresourceset", "configmaps/a", "configmaps"];
    let each = Arc::new(EachEffect::containing(parts));
    let mut processes = 0;
    loop {
        let crash_point = Arc::new(CrashPoint::at_each(&each));
        let term = CancellationToken::new();
        let running = tests_scenarios::run_until_crash(&bed.world, &crash_point, &term);
        let is_applied = tokio::select! {
            applied = tokio::time::timeout(TERM, bed.until_reason("crashing", "Applied")) => applied.is_ok(),
            () = crash_point.crashed() => false,
        };
        drop(running);
        processes += 1;
        if is_applied {
            break;
        }
        assert!(processes < 100, "{:?}", each.crashes());
    }
    let crashes = each.crashes();
    assert!(crashes.len() >= 5, "the process has ended at few steps: {crashes:?}");
    assert_eq!(bed.workload_value("a").await.as_deref(), Some("1"));
    let recorded = bed.recorded("crashing").await;
    assert!(matches!(recorded.as_slice(), [(true, Some(_))]), "{recorded:?}");
    let set = bed.api::<ClusterResourceSet>().get("crashing").await.unwrap();
    assert!(set.condition("ResourcesApplied").unwrap().holds());
}
