//! A workload API that does not answer, and a cluster beside it.

use std::time::{Duration, Instant};

use apiserver_types::MachineDeployment;
use kube::Api;
use kube::api::DeleteParams;
use tests_hollow_cluster::{WorkloadEffect, WorkloadFault};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::observer::Observer;
use super::{manifest, scale};

/// Additional time of a change beside a slow cluster, for what the slow one computes. Its calls that hang take ten
/// seconds each, many times.
const MORE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn one_slow_cluster_slows_no_other() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&manifest(&world, "slow")).await.unwrap();
    let slow = Observer::new(&world, "slow");
    slow.until_available(1, 1).await;
    let endpoint = hollow.endpoints().first().copied();
    let documents = manifest(&world, "quick").replace("10.8.0.0/24", "10.9.0.0/24");
    world.create(&documents).await.unwrap();
    let quick = Observer::new(&world, "quick");
    quick.until_available(1, 1).await;
    let replicas = async |namespace: &str, count: i32| {
        let deployments: Api<MachineDeployment> = Api::namespaced(world.admin(), namespace);
        scale(&deployments, "blue-md-0", count).await;
    };
    let begun = Instant::now();
    replicas("quick", 2).await;
    quick.until_available(1, 2).await;
    let alone = begun.elapsed();

    let effect = WorkloadEffect::Hang;
    hollow.inject(WorkloadFault { endpoint, call: None, effect, count: None });
    // Both a Machine that comes and one that goes wait for answers.
    replicas("slow", 0).await;
    replicas("slow", 2).await;
    let begun = Instant::now();
    replicas("quick", 3).await;
    quick.until_available(1, 3).await;
    replicas("quick", 1).await;
    quick.until_available(1, 1).await;
    let beside = begun.elapsed();
    assert!(!hollow.failed_calls().is_empty(), "no call hung");
    assert!(beside < alone * 4 + MORE, "{beside:?} beside a slow cluster, {alone:?} alone");

    hollow.clear_faults();
    slow.until_available(1, 2).await;
    for observer in [&slow, &quick] {
        observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    }
    slow.until_gone().await;
    quick.until_gone().await;
    assert_eq!(world.counts(), empty, "the deleted clusters left resources behind");
    term.cancel();
    running.join_all().await;
}
