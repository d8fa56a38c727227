//! Looks into a workload cluster that fail a few times.

use controllers_workload::Timing;
use tests_hollow_cluster::{WorkloadCall, WorkloadEffect, WorkloadFault};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::manifest;
use super::observer::Observer;

/// Number of looks that fail. More than changes of objects would trigger.
const FAILURES: u64 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_looks_at_etcd_again_soon_after_it_failed() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let world = world.with_workload_timing(Timing::faster(20));
    let mut running = tests_scenarios::run(&world, &CancellationToken::new());
    world.create(&manifest(&world, "looks")).await.unwrap();
    let observer = Observer::new(&world, "looks");
    observer.until_available(1, 1).await;
    running.shutdown().await;

    let call = WorkloadCall { verb: "get", resource: "pods/portforward".to_owned() };
    let effect = WorkloadEffect::Status {
        code: 403,
        reason: "Forbidden",
        message: "the webhook is gone",
        retry_after: None,
    };
    let count = Some(FAILURES);
    hollow.inject(WorkloadFault { endpoint: None, call: Some(call.clone()), effect, count });
    let mut running = tests_scenarios::run(&world, &CancellationToken::new());
    let mut looks = Looks::begin();
    loop {
        let failed = hollow.failed_calls().get(&call).copied().unwrap_or_default();
        if failed == FAILURES {
            break;
        }
        looks.again(&format!("some of {FAILURES} looks, after {failed}")).await;
    }
    observer.until_available(1, 1).await;
    running.shutdown().await;
}
