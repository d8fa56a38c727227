//! Names without a random part: an object of another owner that has the name of a part of the topology.

use apiserver_types::{
    KubeadmControlPlane, MachineDeployment, MachineHealthCheck, OpenStackCluster, OpenStackClusterTemplate,
};
use k8s_openapi::NamespaceResourceScope;
use kube::api::DeleteParams;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::testbed::Testbed;

/// Objects of a user with the names that the class gives: control plane, worker group and health check.
const FOREIGN: &str = "\
apiVersion: controlplane.cluster.x-k8s.io/v1beta2
kind: KubeadmControlPlane
metadata: {name: blue-plane, namespace: taken}
spec:
  version: v1.32.0
  replicas: 1
  kubeadmConfigSpec: {preKubeadmCommands: [echo]}
  machineTemplate:
    spec:
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackMachineTemplate, name: plane}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {name: blue-md, namespace: taken}
spec:
  clusterName: blue
  replicas: 0
  selector: {matchLabels: {of: user}}
  template:
    metadata: {labels: {of: user}}
    spec:
      clusterName: blue
      version: v1.32.0
      bootstrap: {dataSecretName: own}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: OpenStackMachineTemplate, name: worker}
";

/// Returns a class whose names have no random part.
fn class() -> Value {
    let naming = |template: &str| json!({ "template": template });
    let template = |group: &str, kind: &str| {
        let version = format!("{group}.cluster.x-k8s.io/v1beta2");
        json!({"templateRef": {"apiVersion": version, "kind": kind, "name": "worker"}})
    };
    let worker = json!({
        "class": "worker",
        "naming": naming("{{ .cluster.name }}-md"),
        "bootstrap": template("bootstrap", "KubeadmConfigTemplate"),
        "infrastructure": template("infrastructure", "OpenStackMachineTemplate"),
        "healthCheck": {"checks": {"nodeStartupTimeoutSeconds": 600}},
    });
    json!({
        "infrastructure": {"naming": naming("{{ .cluster.name }}")},
        "controlPlane": {"naming": naming("{{ .cluster.name }}-plane")},
        "workers": {"machineDeployments": [worker]},
    })
}

impl Testbed {
    async fn object<K>(&self, name: &str) -> Value
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        serde_json::to_value(self.api::<K>().get(name).await.unwrap()).unwrap()
    }

    /// Makes passes. Asserts that the condition names the object and what to do.
    async fn assert_taken(&self, object: &str) {
        self.settle().await;
        let (first, found) = (self.condition().await, "exists already, and does not belong to this topology");
        assert!(first.starts_with(&format!("False ReconcileFailed {object} {found}")), "{first}");
        assert!(first.contains("Delete it, or put {{ .random }} into the naming template"), "{first}");
        self.settle().await;
        assert_eq!(self.condition().await, first, "the text stays the same");
    }

    async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        self.api::<K>().delete(name, &DeleteParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn an_object_of_another_owner_with_a_name_of_the_topology_is_reported_and_left_unchanged() {
    let testbed = Testbed::start("taken", "v1.33.0").await;
    testbed.change_class(class()).await;
    testbed.world.create(FOREIGN).await.unwrap();
    // The OpenStackCluster of a user is as the class makes it, so that it can be handed over.
    let template = testbed.api::<OpenStackClusterTemplate>().get("network").await.unwrap();
    let network = OpenStackCluster::new("blue", template.spec.template.spec);
    testbed.api::<OpenStackCluster>().create(&Default::default(), &network).await.unwrap();
    let network = testbed.object::<OpenStackCluster>("blue").await;
    let plane = testbed.object::<KubeadmControlPlane>("blue-plane").await;
    let workers = testbed.object::<MachineDeployment>("blue-md").await;

    testbed.assert_taken("OpenStackCluster taken/blue").await;
    assert_eq!(testbed.object::<OpenStackCluster>("blue").await, network);
    assert_eq!(testbed.counts().await, [0; 6]);
    let cluster = testbed.cluster().await;
    assert_eq!(cluster.spec.infrastructure_ref, None, "the deletion of the Cluster does not reach it");

    // The labels of the message hand it over. Then the control plane is next.
    assert!(testbed.condition().await.ends_with(
        "the labels cluster.x-k8s.io/cluster-name=\"blue\", topology.cluster.x-k8s.io/owned=\"\""
    ));
    let labels = json!({"cluster.x-k8s.io/cluster-name": "blue", "topology.cluster.x-k8s.io/owned": ""});
    testbed.merge::<OpenStackCluster>("blue", json!({"metadata": {"labels": labels}})).await;
    testbed.assert_taken("KubeadmControlPlane taken/blue-plane").await;
    assert_eq!(testbed.object::<KubeadmControlPlane>("blue-plane").await, plane);
    assert_eq!(testbed.cluster().await.spec.infrastructure_ref.unwrap().name, "blue");
    assert_eq!(testbed.counts().await, [1, 0, 0, 0, 0, 0]);

    testbed.delete::<KubeadmControlPlane>("blue-plane").await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    testbed.assert_taken("MachineDeployment taken/blue-md").await;
    assert_eq!(testbed.object::<MachineDeployment>("blue-md").await, workers);
    assert_eq!(testbed.counts().await, [1, 1, 0, 1, 0, 0], "no template or health check of the group");

    testbed.delete::<MachineDeployment>("blue-md").await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    assert_eq!(testbed.counts().await, [1, 1, 1, 2, 1, 1]);
    assert_eq!(testbed.object::<MachineHealthCheck>("blue-md").await["spec"]["clusterName"], "blue");
}

#[tokio::test]
async fn two_worker_groups_cannot_share_a_name() {
    let testbed = Testbed::start("shared", "v1.33.0").await;
    testbed.change_class(class()).await;
    let group = |name: &str| json!({"class": "worker", "name": name, "replicas": 1});
    testbed.change(json!({"workers": {"machineDeployments": [group("md-0"), group("md-1")]}})).await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    testbed.assert_taken("MachineDeployment shared/blue-md").await;
    let only = testbed.deployment().await;
    assert_eq!(only.labels()["topology.cluster.x-k8s.io/deployment-name"], "md-0");
    assert_eq!(testbed.counts().await, [1, 1, 1, 2, 1, 1]);
}
