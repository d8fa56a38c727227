//! Checks that upstream's `quick_start` makes after a cluster is there, and the order of upstream's `cluster_deletion`.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::deletion_order;
use super::looks::Looks;
use super::objects::{Object, Objects};
use super::observer::Observer;

const NAMESPACE: &str = "quick-start";

async fn pause(observer: &Observer, paused: bool) {
    let change = Patch::Merge(json!({"spec": {"paused": paused}}));
    observer.clusters().patch("blue", &PatchParams::default(), &change).await.unwrap();
}

/// Waits until the same objects as before have the same owners and the same finalizers as before.
async fn until_restored(objects: &Objects, before: &[Object]) {
    let mut looks = Looks::begin();
    loop {
        let now = objects.all().await;
        let mut missing = Vec::new();
        for old in before {
            let found =
                now.iter().find(|it| it.path == old.path && it.metadata["uid"] == old.metadata["uid"]);
            for field in ["ownerReferences", "finalizers"] {
                let (wanted, list) = (old.list(field), found.map(|it| it.list(field)).unwrap_or_default());
                if found.is_none() || list != wanted {
                    missing.push(format!("{} of {}: {list:?}, not {wanted:?}", field, old.title()));
                }
            }
        }
        let new = now.iter().filter(|it| !before.iter().any(|old| old.path == it.path));
        missing.extend(new.map(|it| format!("{} is new", it.title())));
        if missing.is_empty() {
            return;
        }
        looks.again(&missing.join("\n")).await;
    }
}

/// Returns the owner references with a version of Cluster API's kinds that no server has served for years.
fn with_old_versions(references: Vec<Value>) -> Vec<Value> {
    let old = |mut reference: Value| {
        let group =
            reference["apiVersion"].as_str().and_then(|it| it.split_once('/')).map(|(group, _)| group);
        if let Some(group) = group.filter(|group| group.ends_with("cluster.x-k8s.io")) {
            reference["apiVersion"] = format!("{group}/v1alpha1").into();
        }
        reference
    };
    references.into_iter().map(old).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn quick_start_owners_and_finalizers_come_back_and_cluster_deletion_waits_at_each_brake() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&super::manifest(&world, NAMESPACE)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;
    let objects = Objects::new(&world, NAMESPACE);
    let before = objects.at_rest().await;
    let counts = world.counts();

    pause(&observer, true).await;
    for object in before.iter().filter(|it| it.metadata.get("ownerReferences").is_some()) {
        objects.change(object, &json!({"ownerReferences": null})).await;
    }
    for object in before.iter().filter(|it| it.metadata.get("finalizers").is_some()) {
        objects.change(object, &json!({"finalizers": null})).await;
    }
    pause(&observer, false).await;
    until_restored(&objects, &before).await;

    pause(&observer, true).await;
    for object in before.iter().filter(|it| it.metadata.get("ownerReferences").is_some()) {
        let old = with_old_versions(object.list("ownerReferences"));
        objects.change(object, &json!({ "ownerReferences": old })).await;
    }
    pause(&observer, false).await;
    until_restored(&objects, &before).await;
    objects.at_rest().await;
    observer.until_available(1, 1).await;
    assert_eq!(world.counts(), counts, "the cloud has as much as before");

    deletion_order::check(&observer, &objects).await;
    assert_eq!(world.counts(), empty, "the deleted cluster left resources behind");
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
