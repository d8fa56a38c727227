//! Worker that is older than the control plane by more than its own kubeadm can join, as in upstream's
//! `kubeadm_join_old_nodes`: it joins with the kubeadm of the control plane.

use apiserver_types::{MachineDeployment, MachineSet};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::manifest;
use super::observer::Observer;

const NAMESPACE: &str = "old-workers";

/// Version of the workers: the oldest that the API server of v1.33 serves.
const OLD: &str = "v1.30.0";

/// Command that gets the kubeadm of the control plane.
const DOWNLOAD: &str = "curl -Lo /usr/bin/kubeadm https://dl.k8s.io/release/v1.33.0/bin/linux/amd64/kubeadm";

/// Returns the manifest with old workers.
fn documents(world: &World) -> String {
    let image = |version: &str| {
        format!("{{name: m1.small}}}}\n      image: {{filter: {{name: ubuntu-2204-kube-{version}}}}}")
    };
    let zone = "\n      failureDomain: az1";
    let edits = [
        (format!("version: v1.33.0{zone}"), format!("version: {OLD}{zone}")),
        (image("v1.33.0"), image(OLD)),
        (
            "\n      joinConfiguration:".to_owned(),
            format!("\n      preKubeadmCommands: ['{DOWNLOAD}']\n      joinConfiguration:"),
        ),
    ];
    edits.into_iter().fold(manifest(world, NAMESPACE), |documents, (old, new)| {
        assert_eq!(documents.matches(&old).count(), 1, "{old}");
        documents.replace(&old, &new)
    })
}

/// Waits until the set of the workers says that a preflight check keeps it from creating Machines.
async fn until_held(world: &World, check: &str) {
    let sets: Api<MachineSet> = Api::namespaced(world.admin(), NAMESPACE);
    let mut looks = Looks::begin();
    loop {
        let sets = sets.list(&ListParams::default()).await.unwrap();
        let scaling = sets.items.first().and_then(|set| set.condition("ScalingUp").cloned());
        let message = scaling.map(|it| it.message).unwrap_or_default();
        // The control plane is not stable at first, which is another check.
        if message.contains(check) && !message.contains("ControlPlaneIsStable") {
            return;
        }
        looks.again(&format!("{check}, not {message}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeadm_join_old_nodes_is_held_by_the_preflight_check_and_works_with_the_newer_kubeadm() {
    let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&world, &term);
    world.create(&documents(&world)).await.unwrap();
    let observer = Observer::new(&world, NAMESPACE);
    until_held(&world, "KubeadmVersionSkew").await;

    let skip = json!({"machineset.cluster.x-k8s.io/skip-preflight-checks": "KubeadmVersionSkew"});
    let change = Patch::Merge(json!({"metadata": {"annotations": skip}}));
    let deployments: Api<MachineDeployment> = Api::namespaced(world.admin(), NAMESPACE);
    deployments.patch("blue-md-0", &PatchParams::default(), &change).await.unwrap();
    observer.until_available(1, 1).await;
    observer.until_nodes_are_ready(2).await;
    let nodes: Api<Node> = Api::all(observer.workload().await);
    let nodes = nodes.list(&ListParams::default()).await.unwrap();
    let kubelets = nodes.iter().filter_map(|node| node.status.as_ref()?.node_info.as_ref());
    let mut kubelets: Vec<&str> = kubelets.map(|info| info.kubelet_version.as_str()).collect();
    kubelets.sort_unstable();
    assert_eq!(kubelets, [OLD, "v1.33.0"]);
    term.cancel();
    running.join_all().await;
    drop(hollow);
}
