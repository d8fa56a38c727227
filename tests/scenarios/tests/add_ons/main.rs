//! Tests of add-ons on a hollow cluster: ClusterResourceSets from their sources to the objects in the workload cluster.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod bundles;
mod crashes;
mod credentials;
mod testbed;

use std::time::Duration;

use apiserver_types::{Cluster, ClusterResourceSet, ClusterResourceSetBinding};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tests_hollow_cluster::{WorkloadCall, WorkloadEffect, WorkloadFault};
use tokio_util::sync::CancellationToken;

use testbed::{Testbed, map, resource};

/// Type of the Secrets that may be resources.
const SECRET_TYPE: &str = "addons.cluster.x-k8s.io/resource-set";

#[tokio::test(flavor = "multi_thread")]
async fn sets_reach_a_cluster_and_follow_their_sources() {
    let bed = Testbed::start().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    let none = json!({});
    bed.put_map("once", &map("once", "1")).await;
    bed.create_set("once", "ApplyOnce", json!([resource("ConfigMap", "once")]), none.clone()).await;
    let both = json!([resource("ConfigMap", "follow"), resource("Secret", "follow")]);
    bed.create_set("follow", "Reconcile", both, none.clone()).await;
    bed.until_reason("once", "Applied").await;
    bed.create_secret("follow", SECRET_TYPE, &map("from-secret", "s1")).await;

    bed.create_cluster().await;
    // The cluster cannot be reached for a while. Nothing is applied, but the sources have their owners already.
    let message = bed.until_reason("once", "InternalError").await;
    assert!(message.starts_with("* Cluster blue: not connected to the workload cluster"), "{message}");
    bed.until::<ConfigMap>("once", |map| map.owner_references()[0].name == "once").await;
    assert_eq!(bed.recorded("once").await, []);

    bed.until_value("once", "1").await;
    bed.until_reason("once", "Applied").await;
    // One of the resources is missing, the other is applied.
    bed.until_value("from-secret", "s1").await;
    bed.until_message("follow", "ConfigMap follow does not exist. Create it").await;
    bed.put_map("follow", &map("from-map", "m1")).await;
    bed.until_value("from-map", "m1").await;
    bed.until_reason("follow", "Applied").await;
    let owners = bed.until::<Secret>("follow", |it| !it.owner_references().is_empty()).await;
    assert_eq!(owners.owner_references()[0].kind, "ClusterResourceSet");

    // A change of a source reaches the cluster with one strategy only.
    let before = bed.recorded("follow").await;
    bed.put_map("once", &map("once", "2")).await;
    bed.put_map("follow", &map("from-map", "m2")).await;
    bed.until_value("from-map", "m2").await;
    bed.until_reason("follow", "Applied").await;
    assert_eq!(bed.workload_value("once").await.as_deref(), Some("1"), "ApplyOnce");
    let after = bed.recorded("follow").await;
    assert!(after.iter().all(|(applied, _)| *applied), "{after:?}");
    // The Secret was there first.
    assert_eq!((before[0] == after[0], before[1] == after[1]), (true, false), "{before:?} {after:?}");

    deletions(&bed).await;
    term.cancel();
    running.join_all().await;
}

/// A set that goes leaves its objects, and a Cluster that goes takes the binding with it.
async fn deletions(bed: &Testbed) {
    let owners = bed.binding().await.owner_references().len();
    assert_eq!(owners, 2, "both sets own the binding");
    bed.api::<ClusterResourceSet>().delete("once", &DeleteParams::default()).await.unwrap();
    bed.until_gone::<ClusterResourceSet>("once").await;
    assert_eq!(bed.recorded("once").await, []);
    assert_eq!(bed.binding().await.owner_references().len(), 1);
    assert_eq!(bed.workload_value("once").await.as_deref(), Some("1"), "applied objects stay");
    let states = bed.binding().await.annotations()["capstan.dev/resource-set-states"].clone();
    assert!(states.contains(r#"{"follow":{"status":"True","reason":"Applied""#), "{states}");

    bed.api::<Cluster>().delete("blue", &DeleteParams::background()).await.unwrap();
    bed.until_gone::<Cluster>("blue").await;
    bed.until_gone::<ClusterResourceSetBinding>("blue").await;
    bed.until_reason("follow", "Applied").await;
    bed.api::<ClusterResourceSet>().delete("follow", &DeleteParams::default()).await.unwrap();
    bed.until_gone::<ClusterResourceSet>("follow").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn obstacles_are_reported_and_pass() {
    let bed = Testbed::start().await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&bed.world, &term);
    bed.create_cluster().await;
    bed.until::<Cluster>("blue", |it| it.condition("RemoteConnectionProbe").is_some_and(|it| it.holds()))
        .await;

    // A Secret of another type, by a mistake in a name.
    bed.put_map("fine", &map("fine", "1")).await;
    let with_secret = json!([resource("ConfigMap", "fine"), resource("Secret", "credentials")]);
    bed.create_set("wrong", "Reconcile", with_secret, json!({})).await;
    let message = bed.until_reason("wrong", "WrongSecretType").await;
    assert_eq!(message, "Secret type of resource credentials is not supported");
    let only_map = json!({"spec": {"resources": [resource("ConfigMap", "fine")]}});
    let sets = bed.api::<ClusterResourceSet>();
    sets.patch("wrong", &PatchParams::default(), &Patch::Merge(only_map)).await.unwrap();
    bed.until_reason("wrong", "Applied").await;

    // An object that the cluster refuses does not stop the others.
    let unknown = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n";
    bed.put_map("mixed", &format!("{unknown}---\n{}", map("mixed", "1"))).await;
    bed.create_set("mixed", "Reconcile", json!([resource("ConfigMap", "mixed")]), json!({})).await;
    let message = bed.until_reason("mixed", "NotApplied").await;
    assert!(
        message.contains(
            "Failed to apply ClusterResourceSet resources to Cluster: ConfigMap mixed: Widget w: \
        the workload cluster does not serve Widget of example.com/v1"
        ),
        "{message}"
    );
    bed.until_value("mixed", "1").await;
    assert_eq!(bed.recorded("mixed").await, [(false, None)]);

    // A set applies the object of another one: each follows its own source.
    bed.put_map("mixed", &map("fine", "2")).await;
    bed.until_value("fine", "2").await;
    bed.until_reason("mixed", "Applied").await;

    // The API refuses for a while.
    let call = WorkloadCall { verb: "patch", resource: "configmaps".to_owned() };
    let effect = WorkloadEffect::Status {
        code: 500,
        reason: "InternalError",
        message: "etcdserver: leader changed",
        retry_after: None,
    };
    bed.hollow.inject(WorkloadFault { endpoint: None, call: Some(call), effect, count: Some(2) });
    bed.put_map("mixed", &map("fine", "3")).await;
    bed.until_value("fine", "3").await;
    bed.until_reason("mixed", "Applied").await;

    repair_and_prune(&bed).await;
    unselected(&bed).await;
    term.cancel();
    running.join_all().await;
}

/// With the annotations, objects that leave the set are deleted, and a resource waits for the one before it.
async fn repair_and_prune(bed: &Testbed) {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: first, namespace: kube-system}\n\
                      spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: []}}}\n";
    bed.put_map("first", &format!("{deployment}---\n{}---\n{}", map("stays", "1"), map("leaves", "1"))).await;
    bed.put_map("second", &map("second", "1")).await;
    let annotations = json!({"capstan.dev/prune": "true", "capstan.dev/wait-for": "ready"});
    let resources = json!([resource("ConfigMap", "first"), resource("ConfigMap", "second")]);
    bed.create_set("ordered", "Reconcile", resources, annotations).await;
    let message = bed.until_reason("ordered", "NotApplied").await;
    assert!(
        message.contains("waits until these objects are ready: Deployment kube-system/first"),
        "{message}"
    );
    assert_eq!(bed.workload_value("second").await, None);
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> =
        Api::namespaced(bed.workload().await, "kube-system");
    let available = json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}});
    deployments.patch_status("first", &PatchParams::default(), &Patch::Merge(available)).await.unwrap();
    bed.until_value("second", "1").await;
    bed.until_reason("ordered", "Applied").await;
    bed.put_map("first", &format!("{deployment}---\n{}", map("stays", "2"))).await;
    bed.until_value("stays", "2").await;
    bed.until_reason("ordered", "Applied").await;
    for _ in 0..100 {
        if bed.workload_value("leaves").await.is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(bed.workload_value("leaves").await, None, "it has left the set");
    let inventory = bed.binding().await.annotations()["capstan.dev/resource-set-inventory"].clone();
    assert!(inventory.contains("stays") && !inventory.contains("leaves"), "{inventory}");
}

/// Selected later, a Cluster gets the sets; a paused set does nothing.
async fn unselected(bed: &Testbed) {
    bed.label_cluster(json!("off")).await;
    bed.put_map("late", &map("late", "1")).await;
    bed.create_set("late", "ApplyOnce", json!([resource("ConfigMap", "late")]), json!({})).await;
    bed.until_reason("late", "Applied").await;
    assert_eq!(bed.workload_value("late").await, None, "no Cluster is selected");
    bed.put_map("paused", &map("paused", "1")).await;
    let pause = json!({"cluster.x-k8s.io/paused": ""});
    bed.create_set("paused", "ApplyOnce", json!([resource("ConfigMap", "paused")]), pause).await;
    bed.label_cluster(json!("on")).await;
    bed.until_value("late", "1").await;
    let set = bed
        .until::<ClusterResourceSet>("paused", |it| it.condition("Paused").is_some_and(|it| it.holds()))
        .await;
    assert!(set.condition("ResourcesApplied").is_none() && set.finalizers().is_empty());
    let resume = Patch::Merge(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}));
    bed.api::<ClusterResourceSet>().patch("paused", &PatchParams::default(), &resume).await.unwrap();
    bed.until_value("paused", "1").await;
}
