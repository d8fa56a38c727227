//! Tests of whole clusters: from manifests to Nodes that are Ready, on hollow clusters.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod adoption;
mod bad_input;
mod balancer;
mod cleanup;
mod cluster_upgrade;
mod clusterctl;
mod crashes;
mod deletion_order;
mod drain_plan;
mod drain_timeout;
mod dual_stack;
mod endpoint;
mod failed_looks;
mod histories;
mod ipv6;
mod kubectl;
mod later_machines;
mod leftovers;
mod looks;
mod made_again;
mod node_drain;
mod objects;
mod observer;
mod old_workers;
mod outages;
mod pods;
mod quick_start;
mod remediations;
mod rollouts;
mod shares;
mod slow;
mod upgrade;
mod workload_faults;

use apiserver_types::{KubeadmControlPlane, MachineDeployment};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_openstack_simulator::Simulator;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use observer::Observer;

/// Cluster of upstream's shape without a load balancer: one control plane Machine and one worker.
const MANIFEST: &str = include_str!("cluster.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_comes_scales_and_goes_without_a_trace() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let empty = world.counts();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    let namespace = "whole";
    world.create(&manifest(&world, namespace)).await.unwrap();
    let observer = Observer::new(&world, namespace);

    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;

    let deployments: Api<MachineDeployment> = Api::namespaced(world.admin(), namespace);
    scale(&deployments, "blue-md-0", 3).await;
    observer.until_available(1, 3).await;
    scale(&deployments, "blue-md-0", 1).await;
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;

    let control_planes: Api<KubeadmControlPlane> = Api::namespaced(world.admin(), namespace);
    scale(&control_planes, "blue-control-plane", 3).await;
    observer.until_available(3, 1).await;
    observer.until_expiry_is_known().await;
    scale(&control_planes, "blue-control-plane", 1).await;
    let refused = endpoint::refused_during(&observer, observer.until_available(1, 1)).await;
    assert_eq!(refused, Vec::<String>::new(), "the endpoint leaves a Machine before its API server stops");
    observer.until_nodes_are_ready(2).await;

    observer.clusters().delete("blue", &DeleteParams::background()).await.unwrap();
    observer.until_gone().await;
    assert_eq!(world.counts(), empty, "the deleted cluster left resources behind");
    let calls = world.cloud.log();
    assert!(
        !calls.iter().any(|call| call.path.starts_with("/share")),
        "its workload cluster has no driver of shares"
    );
    term.cancel();
    running.join_all().await;
    drop(hollow);
}

fn manifest(world: &World, namespace: &str) -> String {
    manifest_of(&world.cloud, namespace)
}

/// Returns the manifest of a cluster in this cloud.
fn manifest_of(cloud: &Simulator, namespace: &str) -> String {
    let clouds = cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    MANIFEST.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds)
}

/// Scales by the subresource, as cluster-autoscaler does.
async fn scale<K: Clone + std::fmt::Debug + serde::de::DeserializeOwned>(
    api: &Api<K>,
    name: &str,
    replicas: i32,
) {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    api.patch_scale(name, &PatchParams::default(), &patch).await.unwrap();
}

/// Returns the number in a variable of the environment.
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}
