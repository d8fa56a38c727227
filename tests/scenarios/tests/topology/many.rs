//! Clusters of classes side by side, each with its class in a namespace of its own, as in upstream's `scale`.

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver_types::Cluster;
use kube::api::DeleteParams;
use serde_json::json;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::hollow::{LIMIT, left, until_within};
use crate::hollow_changes::Scene;

/// Number of clusters. More show nothing more, and take longer on two cores; the benchmark has hundreds.
const CLUSTERS: usize = 4;

/// Time limit of each part. The clusters share the processor.
const LIMIT_OF_ALL: Duration = LIMIT.saturating_mul(4);

const FIRST_VERSION: &str = "v1.33.0";
const NEXT_VERSION: &str = "v1.34.0";

#[tokio::test(flavor = "multi_thread")]
async fn scale_clusters_of_classes_come_are_upgraded_and_go_at_the_same_time() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let mut scenes = Vec::new();
    for number in 0..CLUSTERS {
        scenes.push(Scene::create(&world, &format!("scale-{number}"), FIRST_VERSION).await);
    }
    for scene in &scenes {
        until_within(LIMIT_OF_ALL, || scene.missing(FIRST_VERSION)).await;
    }
    let endpoints: BTreeSet<_> = hollow.endpoints().into_iter().collect();
    assert_eq!(endpoints.len(), CLUSTERS, "each has an API of its own");

    let mut before = Vec::new();
    for scene in &scenes {
        before.push(scene.names().await);
        scene.change(json!({"version": NEXT_VERSION})).await;
    }
    for (scene, before) in scenes.iter().zip(&before) {
        until_within(LIMIT_OF_ALL, || scene.missing(NEXT_VERSION)).await;
        assert!(scene.names().await.is_disjoint(before), "all Machines of {} are replaced", scene.namespace);
    }

    for scene in &scenes {
        scene.api::<Cluster>().delete("blue", &DeleteParams::background()).await.unwrap();
    }
    let client = world.admin();
    for scene in &scenes {
        until_within(LIMIT_OF_ALL, || left(&client, &scene.namespace)).await;
    }
    assert_eq!(world.counts(), empty, "the deleted clusters left resources behind");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
