//! A topology from its first pass to changes of the class and of the Cluster.

use std::sync::Arc;

use apiserver_types::{
    Cluster, MachineDeployment, MachineHealthCheck, OpenStackCluster, OpenStackMachineTemplate,
};
use kube::ResourceExt;
use serde_json::json;
use tests_scenarios::{CrashPoint, World};

use crate::manifest;
use crate::testbed::{OWNED, Testbed};

/// Objects of a Cluster with one control plane and one worker group.
const ALL: [usize; 6] = [1, 1, 1, 2, 1, 1];

#[tokio::test]
async fn a_class_makes_all_objects_of_a_cluster_and_a_resting_topology_writes_nothing() {
    let testbed = Testbed::start("made", "v1.33.0").await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ", "{:?}", testbed.events().await);
    assert_eq!(testbed.counts().await, ALL);
    let cluster = testbed.cluster().await;
    let marks = cluster.annotations().get("runtime.cluster.x-k8s.io/pending-hooks");
    assert_eq!(marks, None, "no server has a hook");
    let infrastructure = testbed.owned::<OpenStackCluster>().await.remove(0);
    assert_eq!(cluster.spec.infrastructure_ref.unwrap().name, infrastructure.name_any());
    assert_eq!(infrastructure.labels()["tier"], "network");
    let control_plane = testbed.control_plane().await;
    assert_eq!(cluster.spec.control_plane_ref.unwrap().name, control_plane.name_any());
    assert_eq!((control_plane.spec.version.as_str(), control_plane.spec.replicas), ("v1.33.0", Some(1)));
    let deployment = testbed.deployment().await;
    assert_eq!(deployment.labels()["team"], "a");
    assert_eq!(deployment.spec.template.spec.version.as_deref(), Some("v1.33.0"));
    let check = testbed.owned::<MachineHealthCheck>().await.remove(0);
    assert_eq!(check.name_any(), deployment.name_any());
    let created = testbed.events().await;
    let created = created.iter().filter(|event| event.starts_with("TopologyCreate Created "));
    assert_eq!(created.count(), 7);

    testbed.control_plane_is_done().await;
    testbed.settle().await;
    let effects = testbed.crash.effects().len();
    testbed.settle().await;
    let written = testbed.crash.effects().split_off(effects);
    assert!(written.is_empty(), "a resting topology wrote: {written:#?}");
}

/// Each pass made the templates and deleted them again, and the new names in the condition triggered the next pass at once.
#[tokio::test]
async fn an_object_that_is_refused_leaves_no_templates_and_its_report_stays_the_same() {
    let testbed = Testbed::start("refused", "v1.33.0").await;
    testbed.change(json!({"controlPlane": {"replicas": 2}})).await;
    testbed.settle().await;
    let report = testbed.condition().await;
    let start = "False ReconcileFailed failed to create KubeadmControlPlane blue-*: KubeadmControlPlane.";
    let end = "cannot be an even number when etcd is stacked";
    assert!(report.starts_with(start) && report.ends_with(end), "{report}");
    testbed.settle().await;
    assert_eq!(testbed.condition().await, report);
    assert_eq!(testbed.counts().await, [1, 0, 0, 0, 0, 0]);
    let events = testbed.events().await;
    assert!(!events.iter().any(|event| event.contains("MachineTemplate")), "{events:?}");
    testbed.change(json!({"controlPlane": {"replicas": 3}})).await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
}

/// The topology made a second one, and all Machines of the group existed twice.
#[tokio::test]
async fn a_worker_group_without_the_label_of_the_topology_is_reported_and_not_made_again() {
    let testbed = Testbed::start("unlabelled", "v1.33.0").await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    let name = testbed.deployment().await.name_any();
    let label = |value: serde_json::Value| json!({"metadata": {"labels": {OWNED: value}}});
    testbed.merge::<MachineDeployment>(&name, label(serde_json::Value::Null)).await;
    testbed.settle().await;
    let report = testbed.condition().await;
    let expected = format!("False ReconcileFailed MachineDeployment {name} has the label");
    assert!(report.starts_with(&expected), "{report}");
    assert_eq!(testbed.list::<MachineDeployment>().await.len(), 1);
    testbed.merge::<MachineDeployment>(&name, label(json!(""))).await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    assert_eq!(testbed.counts().await, ALL);
}

#[tokio::test]
async fn a_change_of_the_class_rotates_templates_and_a_change_of_labels_does_not() {
    let testbed = Testbed::start("rolls", "v1.33.0").await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    let before = testbed.deployment().await.spec.template.spec;

    let labels = json!({"metadata": {"labels": {"room": "b"}}});
    testbed.merge::<OpenStackMachineTemplate>("worker", labels).await;
    testbed.settle().await;
    let templates = testbed.owned::<OpenStackMachineTemplate>().await;
    let used = templates.iter().find(|it| it.name_any() == before.infrastructure_ref.name).unwrap();
    assert_eq!(used.labels().get("room").map(String::as_str), Some("b"), "{:?}", testbed.condition().await);
    assert_eq!(testbed.deployment().await.spec.template.spec, before, "no Machine is replaced");
    assert!(testbed.events().await.iter().any(|event| event.ends_with("(metadata changes)")));

    let reference = |name: &str| {
        json!({"templateRef": {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate", "name": name,
        }})
    };
    let bootstrap = json!({"templateRef": {
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate", "name": "worker",
    }});
    let worker = json!({"class": "worker", "bootstrap": bootstrap, "infrastructure": reference("larger")});
    let class = json!({
        "workers": {"machineDeployments": [worker]},
        "controlPlane": {"machineInfrastructure": reference("larger")},
    });
    testbed.change_class(class).await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    let after = testbed.deployment().await;
    assert_ne!(after.spec.template.spec.infrastructure_ref, before.infrastructure_ref);
    assert_eq!(after.spec.template.spec.bootstrap, before.bootstrap);
    assert_eq!(after.labels().get("team"), None, "the class has no such label any more");
    assert_eq!(
        testbed.counts().await,
        [1, 1, 1, 2, 1, 0],
        "the old templates are gone, and the health check"
    );
    let rotated = testbed.events().await;
    let rotated = rotated.iter().filter(|event| event.ends_with("(template rotation)")).count();
    assert_eq!(rotated, 2, "of the control plane and of the workers");
}

#[tokio::test]
async fn worker_groups_come_and_go_and_an_autoscaler_owns_a_number_that_is_not_set() {
    let testbed = Testbed::start("groups", "v1.33.0").await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    let two = json!([
        {"class": "worker", "name": "md-0", "metadata": {"labels": {"team": "b"}}},
        {"class": "worker", "name": "md-1", "replicas": 2, "healthCheck": {"enabled": false}},
    ]);
    testbed.change(json!({"workers": {"machineDeployments": two}})).await;
    testbed.settle().await;
    assert_eq!(testbed.counts().await, [1, 1, 2, 3, 2, 1], "{}", testbed.condition().await);
    let named = |list: Vec<MachineDeployment>, name: &str| {
        let is_of = |it: &MachineDeployment| it.labels()["topology.cluster.x-k8s.io/deployment-name"] == name;
        list.into_iter().find(is_of).unwrap()
    };
    let first = named(testbed.owned().await, "md-0");
    assert_eq!(first.labels()["team"], "b", "the topology comes before the class");
    testbed.merge::<MachineDeployment>(&first.name_any(), json!({"spec": {"replicas": 4}})).await;
    testbed.settle().await;
    assert_eq!(named(testbed.owned().await, "md-0").spec.replicas, Some(4));

    testbed
        .change(
            json!({"workers": {"machineDeployments": [{"class": "worker", "name": "md-1", "replicas": 2}]}}),
        )
        .await;
    testbed.settle().await;
    let left = testbed.owned::<MachineDeployment>().await;
    let gone = left.iter().find(|it| it.name_any() == first.name_any());
    assert!(gone.is_none_or(|it| it.metadata.deletion_timestamp.is_some()));
    assert_eq!(left.len() - usize::from(gone.is_some()), 1);
    let checks = testbed.owned::<MachineHealthCheck>().await;
    assert_eq!(
        checks.iter().map(ResourceExt::name_any).collect::<Vec<_>>(),
        [named(left, "md-1").name_any()]
    );
}

#[tokio::test]
async fn what_holds_up_a_topology_is_in_its_condition() {
    let testbed = Testbed::start("held", "v1.33.0").await;
    testbed.merge::<Cluster>("blue", json!({"spec": {"paused": true}})).await;
    testbed.settle().await;
    assert!(testbed.condition().await.starts_with("False Paused "), "{}", testbed.condition().await);
    assert_eq!(testbed.counts().await, [0; 6]);
    let hook = json!({"before-create.hook.cluster.cluster.x-k8s.io/quota": ""});
    testbed
        .merge::<Cluster>("blue", json!({"metadata": {"annotations": hook}, "spec": {"paused": null}}))
        .await;
    testbed.settle().await;
    assert!(testbed.condition().await.starts_with("False ClusterCreating "), "{}", testbed.condition().await);
    assert_eq!(testbed.counts().await, [0; 6]);
    let hook = json!({"before-create.hook.cluster.cluster.x-k8s.io/quota": null});
    testbed.merge::<Cluster>("blue", json!({"metadata": {"annotations": hook}})).await;
    let api = testbed.api::<OpenStackMachineTemplate>();
    let template = api.get("worker").await.unwrap();
    api.delete("worker", &Default::default()).await.unwrap();
    testbed.settle().await;
    let expected =
        "False ReconcileFailed OpenStackMachineTemplate held/worker of the ClusterClass does not exist";
    assert_eq!(testbed.condition().await, expected);
    assert_eq!(testbed.counts().await, [0; 6]);
    let again = OpenStackMachineTemplate::new("worker", template.spec);
    api.create(&Default::default(), &again).await.unwrap();
    testbed.settle().await;
    assert_eq!(testbed.counts().await, ALL, "{}", testbed.condition().await);
}

/// The controller of Clusters waits for this annotation, also without extension servers.
#[tokio::test]
async fn a_cluster_without_its_class_can_be_deleted() {
    let world = World::start().await.unwrap();
    let text = manifest(&world, "gone", "v1.33.0");
    let reference = "classRef: {name: small}";
    assert!(text.contains(reference));
    world.create(&text.replace(reference, "classRef: {name: gone}")).await.unwrap();
    let testbed = Testbed::resume(world, "gone", Arc::new(CrashPoint::never())).await;
    testbed.settle().await;
    let condition = testbed.condition().await;
    assert!(condition.starts_with("False ") && condition.contains("gone"), "{condition}");
    let finalizers = json!({"metadata": {"finalizers": ["cluster.cluster.x-k8s.io"]}});
    testbed.merge::<Cluster>("blue", finalizers).await;
    testbed.api::<Cluster>().delete("blue", &Default::default()).await.unwrap();
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "False Deleting Cluster is deleting");
    let annotations = testbed.cluster().await.annotations().clone();
    assert_eq!(annotations["runtime.cluster.x-k8s.io/ok-to-delete"], "");
}
