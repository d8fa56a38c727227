//! Limits of remediations at the same time: of a MachineSet without a MachineDeployment, and of a Cluster.

use std::sync::Arc;

use apiserver_types::{Cluster, Machine, MachineSet};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint};

use crate::testbed::Bed;

/// Annotation of a Machine that a user wants to be replaced.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

/// Annotation with the limit.
const LIMIT: &str = "capstan.dev/remediation-max-in-flight";

/// Starts a MachineDeployment with two Machines, and a set of its own with three.
async fn start(namespace: &'static str) -> Bed {
    let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"team": "a"}}});
    let bed = Bed::start(namespace, "role", &spec).await;
    let set = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "alone", "namespace": namespace},
        "spec": {
            "clusterName": "c", "replicas": 3, "selector": {},
            "template": {
                "metadata": {"labels": {"team": "a"}},
                "spec": {
                    "clusterName": "c", "version": "v1.29.0", "bootstrap": {"dataSecretName": "bootstrap"},
                    "infrastructureRef": {
                        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "first",
                    },
                },
            },
        },
    });
    let set: MachineSet = serde_json::from_value(set).unwrap();
    bed.api::<MachineSet>().create(&PostParams::default(), &set).await.unwrap();
    let controllers = process(&bed);
    for _ in 0..3 {
        bed.round(&controllers).await;
    }
    assert_eq!(bed.list::<Machine>().await.len(), 5);
    bed
}

/// Starts a process that knows nothing of the ones before.
fn process(bed: &Bed) -> Controllers {
    bed.controllers(&Arc::new(CrashPoint::never()))
}

async fn limit_set(bed: &Bed, value: Value) -> Result<MachineSet, kube::Error> {
    let change = Patch::Merge(json!({"metadata": {"annotations": {LIMIT: value}}}));
    bed.api::<MachineSet>().patch("alone", &PatchParams::default(), &change).await
}

async fn limit_cluster(bed: &Bed, value: Value) -> Result<Cluster, kube::Error> {
    let change = Patch::Merge(json!({"metadata": {"annotations": {LIMIT: value}}}));
    bed.api::<Cluster>().patch("c", &PatchParams::default(), &change).await
}

/// Lets all Machines fail whose name begins so.
async fn fail(bed: &Bed, begin: &str) {
    for name in bed.names().await.iter().filter(|name| name.starts_with(begin)) {
        bed.annotate(name, REMEDIATE, json!("")).await;
    }
}

/// Returns the number of Machines that are being deleted, and the messages of those that wait.
async fn state(bed: &Bed) -> (usize, Vec<String>) {
    let machines = bed.list::<Machine>().await;
    let deleting = machines.iter().filter(|it| it.metadata.deletion_timestamp.is_some()).count();
    let answers = machines.iter().filter_map(|it| it.condition("OwnerRemediated"));
    let deferred = answers.filter(|it| it.reason == "RemediationDeferred").map(|it| it.message.clone());
    (deleting, deferred.collect())
}

/// Makes rounds until all failed Machines are replaced. Never more than `most` are being deleted.
async fn until_replaced(bed: &Bed, before: &[String], most: usize) {
    for _ in 0..40 {
        let controllers = process(bed);
        controllers.round_of_health_checks().await.unwrap();
        // As in a real process, the sets do not wait for each other.
        controllers.sets_at_once().await.unwrap();
        let (deleting, _) = state(bed).await;
        assert!(deleting <= most, "{deleting} at the same time");
        bed.round(&process(bed)).await;
        let names = bed.names().await;
        if names.len() == 5 && before.iter().all(|name| !names.contains(name)) {
            return;
        }
    }
    panic!("not replaced: {:#?}", bed.list::<Machine>().await);
}

#[tokio::test]
async fn a_set_alone_has_a_limit_by_its_annotation() {
    let bed = start("alone").await;
    limit_set(&bed, json!("34%")).await.unwrap();
    fail(&bed, "alone").await;
    let controllers = process(&bed);
    controllers.round_of_health_checks().await.unwrap();
    controllers.round_of_sets().await.unwrap();
    let text = "Waiting because there are already too many remediations in progress (annotation \
        capstan.dev/remediation-max-in-flight is 34%)";
    assert_eq!(state(&bed).await, (2, vec![text.to_owned()]), "34% of 3, rounded up");
    let before: Vec<String> =
        bed.names().await.into_iter().filter(|name| name.starts_with("alone")).collect();
    until_replaced(&bed, &before, 2).await;
    for value in ["few", "101%", "-1"] {
        let text = limit_set(&bed, json!(value)).await.unwrap_err().to_string();
        assert!(text.contains(&format!("metadata.annotations[{LIMIT}]")), "{text}");
    }
}

#[tokio::test]
async fn without_a_limit_all_are_replaced_at_the_same_time() {
    let bed = start("unlimited").await;
    fail(&bed, "").await;
    let controllers = process(&bed);
    controllers.round_of_health_checks().await.unwrap();
    controllers.round_of_sets().await.unwrap();
    assert_eq!(state(&bed).await, (5, Vec::new()));
}

#[tokio::test]
async fn a_cluster_has_one_limit_for_all_its_sets_and_the_lower_one_wins() {
    let bed = start("shared").await;
    limit_cluster(&bed, json!("20%")).await.unwrap();
    limit_set(&bed, json!("2")).await.unwrap();
    fail(&bed, "").await;
    for _ in 0..3 {
        let controllers = process(&bed);
        controllers.round_of_health_checks().await.unwrap();
        controllers.sets_at_once().await.unwrap();
        let (deleting, waiting) = state(&bed).await;
        assert_eq!((deleting, waiting.len()), (1, 4), "20% of 5");
        let text = "(annotation capstan.dev/remediation-max-in-flight of Cluster c is 20%)";
        assert!(waiting.iter().all(|it| it.ends_with(text)), "{waiting:#?}");
    }
    let before = bed.names().await;
    until_replaced(&bed, &before, 1).await;
    // The limit of a set may be the lower one.
    limit_set(&bed, json!("0")).await.unwrap();
    limit_cluster(&bed, json!("4")).await.unwrap();
    fail(&bed, "").await;
    let controllers = process(&bed);
    controllers.round_of_health_checks().await.unwrap();
    controllers.round_of_sets().await.unwrap();
    let machines = bed.list::<Machine>().await;
    let is_going = |it: &&Machine| it.metadata.deletion_timestamp.is_some();
    let going: Vec<String> = machines.iter().filter(is_going).map(ResourceExt::name_any).collect();
    assert!(going.len() == 2 && going.iter().all(|name| name.starts_with("md")), "{going:?}");
    let text = limit_cluster(&bed, json!("many")).await.unwrap_err().to_string();
    assert!(text.contains(&format!("metadata.annotations[{LIMIT}]")), "{text}");
}
