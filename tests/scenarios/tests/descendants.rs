//! Test of the deletion of a Cluster with all its descendants.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use apiserver_types::{
    Cluster, KubeadmControlPlane, Machine, MachineDeployment, MachinePool, MachineSet, OpenStackCluster,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tests_scenarios::{Controllers, CrashPoint, World};

const NAMESPACE: &str = "descendants";

/// Descendants of Cluster `c`, and a MachineDeployment of another Cluster.
const DESCENDANTS: &str = include_str!("descendants.yaml");

async fn names<K>(client: &Client) -> Vec<String>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let api: Api<K> = Api::namespaced(client.clone(), NAMESPACE);
    api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

/// A deleted Cluster left its MachineDeployments, MachineSets, MachinePools and control plane behind.
#[tokio::test]
async fn the_deletion_of_a_cluster_deletes_exactly_its_descendants() {
    let world = World::start().await.unwrap();
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    let manifest = include_str!("cluster.yaml").replace("NAMESPACE", NAMESPACE).replace("CLOUDS\n", &clouds);
    world.create(&manifest).await.unwrap();
    world.create(&DESCENDANTS.replace("NAMESPACE", NAMESPACE)).await.unwrap();
    let client = world.admin();
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), NAMESPACE);
    let reference = json!({"spec": {"controlPlaneRef":
        {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "kcp"}}});
    clusters.patch("c", &PatchParams::default(), &Patch::Merge(&reference)).await.unwrap();
    let controllers = Controllers::start(&world, &Arc::new(CrashPoint::never()));
    let is_up = |client: Client| async move {
        let machine = Api::<Machine>::namespaced(client, NAMESPACE).get("m").await?;
        Ok(machine.condition("InfrastructureReady").is_some_and(|it| it.holds()))
    };
    controllers.until("the Machine is provisioned", is_up).await.unwrap();

    // A finalizer of another controller holds the MachineDeployment.
    let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), NAMESPACE);
    let hold = |finalizers: &[&str]| json!({"metadata": {"finalizers": finalizers}});
    let change = Patch::Merge(hold(&["example.com/hold"]));
    deployments.patch("md", &PatchParams::default(), &change).await.unwrap();
    clusters.delete("c", &DeleteParams::background()).await.unwrap();
    let waits = |client: Client| async move {
        let cluster = Api::<Cluster>::namespaced(client.clone(), NAMESPACE).get("c").await?;
        let deleting = cluster.condition("Deleting").cloned();
        let machines = Api::<MachineSet>::namespaced(client, NAMESPACE).list(&ListParams::default()).await?;
        Ok(machines.items.is_empty()
            && deleting.is_some_and(|it| {
                it.reason == "WaitingForWorkersDeletion" && it.message == "* MachineDeployments: md"
            }))
    };
    controllers.until("the MachineDeployment is the only remaining worker object", waits).await.unwrap();
    assert_eq!(names::<KubeadmControlPlane>(&client).await, ["kcp"], "it must be deleted after the workers");
    assert_eq!(names::<Machine>(&client).await, ["m"], "it must be deleted after the control plane object");

    let change = Patch::Merge(hold(&[]));
    deployments.patch("md", &PatchParams::default(), &change).await.unwrap();
    let is_gone = |client: Client| async move {
        let clusters = Api::<Cluster>::namespaced(client, NAMESPACE).list(&ListParams::default()).await?;
        Ok(clusters.items.is_empty())
    };
    controllers.until("the cluster is deleted", is_gone).await.unwrap();
    let nothing: [&str; 0] = [];
    assert_eq!(names::<MachineDeployment>(&client).await, ["of-another"]);
    assert_eq!(names::<MachinePool>(&client).await, nothing);
    assert_eq!(names::<MachineSet>(&client).await, nothing);
    assert_eq!(names::<KubeadmControlPlane>(&client).await, nothing);
    assert_eq!(names::<Machine>(&client).await, nothing);
    assert_eq!(names::<OpenStackCluster>(&client).await, nothing);
}
