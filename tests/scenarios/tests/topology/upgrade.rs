//! Upgrades of a topology, step by step.

use apiserver_types::{Cluster, KubeadmControlPlane, MachineDeployment};
use kube::ResourceExt;
use serde_json::json;

use crate::testbed::Testbed;

/// Passes in which any upgrade of these tests ends.
const PASSES: usize = 30;

impl Testbed {
    /// Makes passes, and plays the control plane. Returns the changes of versions in their order.
    pub(crate) async fn upgrade(&self) -> Vec<String> {
        let mut log: Vec<String> = Vec::new();
        let (mut plane, mut workers) = self.versions().await;
        for _ in 0..PASSES {
            self.controllers.round_of_topologies().await.unwrap();
            let found = self.versions().await;
            if found.0 != plane {
                log.push(format!("control plane {}", found.0));
            }
            if found.1 != workers {
                log.push(format!("workers {}", found.1));
            }
            (plane, workers) = found;
            self.control_plane_is_done().await;
        }
        log
    }

    async fn versions(&self) -> (String, String) {
        let workers = self.deployment().await.spec.template.spec.version.unwrap_or_default();
        (self.control_plane().await.spec.version, workers)
    }

    pub(crate) async fn done(namespace: &'static str, version: &str) -> Self {
        let testbed = Self::start(namespace, version).await;
        testbed.settle().await;
        testbed.control_plane_is_done().await;
        let initialized = json!({"initialization": {"controlPlaneInitialized": true}});
        testbed.merge_status::<Cluster>("blue", initialized).await;
        testbed.settle().await;
        assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
        testbed
    }
}

#[tokio::test]
async fn an_upgrade_over_five_minors_goes_through_the_versions_of_the_class() {
    let testbed = Testbed::done("chain", "v1.30.0").await;
    let template = testbed.deployment().await.spec.template.spec.infrastructure_ref;
    testbed.change(json!({"version": "v1.35.0"})).await;
    testbed.controllers.round_of_topologies().await.unwrap();
    let status = testbed.cluster().await.status.unwrap();
    let plan = |plan: Option<Vec<apiserver_types::UpgradePlanVersion>>| {
        plan.unwrap_or_default().into_iter().map(|it| it.version).collect::<Vec<_>>()
    };
    assert_eq!(
        plan(status.control_plane.unwrap().upgrade_plan),
        ["v1.31.0", "v1.32.0", "v1.33.0", "v1.34.0", "v1.35.0"]
    );
    assert_eq!(plan(status.workers.unwrap().upgrade_plan), ["v1.33.0", "v1.35.0"]);
    let cluster = testbed.cluster().await;
    assert_eq!(cluster.annotations()["topology.internal.cluster.x-k8s.io/upgrade-step"], "v1.31.0");
    let condition = testbed.condition().await;
    let expected = "False ClusterUpgrading Cluster is upgrading to v1.35.0\n  * KubeadmControlPlane upgrading to \
                    version v1.31.0 (v1.32.0, v1.33.0, v1.34.0, v1.35.0 pending)\n  * MachineDeployment ";
    assert!(condition.starts_with(expected), "{condition}");
    testbed.control_plane_is_done().await;
    let log = testbed.upgrade().await;
    let expected = [
        "control plane v1.32.0",
        "control plane v1.33.0",
        "workers v1.33.0",
        "control plane v1.34.0",
        "control plane v1.35.0",
        "workers v1.35.0",
    ];
    assert_eq!(log, expected);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    let cluster = testbed.cluster().await;
    for annotation in
        ["topology.internal.cluster.x-k8s.io/upgrade-step", "runtime.cluster.x-k8s.io/pending-hooks"]
    {
        assert_eq!(cluster.annotations().get(annotation), None);
    }
    assert_eq!(testbed.deployment().await.spec.template.spec.infrastructure_ref, template, "no rotation");
    let events = testbed.events().await;
    assert!(events.iter().any(|event| event.ends_with(" with version v1.34.0 to v1.35.0")), "{events:#?}");
}

#[tokio::test]
async fn annotations_hold_up_an_upgrade_and_other_changes_wait_for_it() {
    let testbed = Testbed::done("holds", "v1.33.0").await;
    let hook = "before-upgrade.hook.cluster.cluster.x-k8s.io/backup";
    let change =
        json!({"metadata": {"annotations": {hook: ""}}, "spec": {"topology": {"version": "v1.34.0"}}});
    testbed.merge::<Cluster>("blue", change).await;
    testbed.change(json!({"controlPlane": {"replicas": 3}})).await;
    testbed.settle().await;
    assert_eq!(testbed.versions().await, ("v1.33.0".to_owned(), "v1.33.0".to_owned()));
    assert_eq!(testbed.control_plane().await.spec.replicas, Some(1), "it is not written before its upgrade");
    let condition = testbed.condition().await;
    assert!(condition.contains(&format!("BeforeClusterUpgrade: annotation {hook} is set")), "{condition}");

    // The hook goes, and the workers are deferred.
    let deferred = json!({"class": "worker", "name": "md-0", "replicas": 1,
        "metadata": {"annotations": {"topology.cluster.x-k8s.io/defer-upgrade": ""}}});
    let topology = json!({"workers": {"machineDeployments": [deferred]}});
    let change = json!({"metadata": {"annotations": {hook: null}}, "spec": {"topology": topology}});
    testbed.merge::<Cluster>("blue", change).await;
    assert_eq!(testbed.upgrade().await, ["control plane v1.34.0"]);
    assert_eq!(testbed.control_plane().await.spec.replicas, Some(3));
    let condition = testbed.condition().await;
    assert!(condition.starts_with("False MachineDeploymentsUpgradeDeferred "), "{condition}");
    let pending = testbed.cluster().await.annotations()["runtime.cluster.x-k8s.io/pending-hooks"].clone();
    assert!(pending.contains("AfterClusterUpgrade"), "{pending}");
    let annotations = testbed.deployment().await.annotations().clone();
    assert_eq!(annotations.get("topology.cluster.x-k8s.io/defer-upgrade"), None);

    let free = json!([{"class": "worker", "name": "md-0", "replicas": 1}]);
    testbed.change(json!({"workers": {"machineDeployments": free}})).await;
    assert_eq!(testbed.upgrade().await, ["workers v1.34.0"]);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
}

#[tokio::test]
async fn workers_wait_for_a_control_plane_that_is_still_upgrading() {
    let testbed = Testbed::done("order", "v1.33.0").await;
    testbed.change(json!({"version": "v1.34.0"})).await;
    testbed.settle().await;
    assert_eq!(testbed.versions().await, ("v1.34.0".to_owned(), "v1.33.0".to_owned()));
    let name = testbed.control_plane().await.name_any();
    let both = json!([{"version": "v1.33.0", "replicas": 1}, {"version": "v1.34.0", "replicas": 1}]);
    testbed.merge_status::<KubeadmControlPlane>(&name, json!({ "versions": both })).await;
    testbed.settle().await;
    assert_eq!(testbed.versions().await.1, "v1.33.0");
    testbed.control_plane_is_done().await;
    testbed.settle().await;
    assert_eq!(testbed.versions().await.1, "v1.34.0");
    assert_eq!(testbed.owned::<MachineDeployment>().await.len(), 1);
}
