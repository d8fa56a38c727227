//! Tests of nodes: how they come, live and go.

use std::io::Write;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use tests_hollow_cluster::{HollowClusters, HollowOptions};

use crate::cloud::{Cloud, ready};
use crate::documents::Pki;

#[tokio::test]
async fn a_document_written_by_hand_makes_a_cluster_of_two_nodes() {
    let cloud = Cloud::start().await;
    let first = cloud.init().await;
    let second = cloud.create("worker-0", false, &cloud.pki.join(cloud.endpoint)).await;
    cloud.until_ready("worker-0").await;

    let nodes: Api<Node> = Api::all(cloud.admin());
    let listed = nodes.list(&ListParams::default()).await.unwrap().items;
    let ids: Vec<_> =
        listed.iter().map(|node| node.spec.as_ref().unwrap().provider_id.clone().unwrap()).collect();
    assert_eq!(ids, [format!("openstack:///{first}"), format!("openstack:///{second}")]);
    let taints = |node: &Node| node.spec.as_ref().unwrap().taints.clone().unwrap_or_default().len();
    assert_eq!((taints(&listed[0]), taints(&listed[1])), (1, 0));
    let info = listed[1].status.as_ref().unwrap().node_info.as_ref().unwrap();
    assert_eq!(info.kubelet_version, "v1.33.0");
    let pods: Api<Pod> = Api::namespaced(cloud.admin(), "kube-system");
    let etcd = pods.get("etcd-cp-0").await.unwrap();
    assert!(etcd.metadata.annotations.unwrap().contains_key("kubernetes.io/config.mirror"));
    assert!(cloud.console(&first).await.contains("initialized successfully"));
    assert!(cloud.hollow.has_booted("cp-0") && cloud.hollow.has_booted(&second));
    assert_eq!(cloud.hollow.endpoint_of_authority(&cloud.pki.ca.certificate), Some(cloud.endpoint));
    cloud.hollow.shutdown().await;
}

#[tokio::test]
async fn a_reboot_gives_a_node_a_new_boot_id() {
    let cloud = Cloud::start().await;
    let id = cloud.init().await;
    let boot = cloud.node("cp-0").unwrap()["status"]["nodeInfo"]["bootID"].clone();
    cloud.act(&id, json!({"reboot": {"type": "HARD"}})).await;
    cloud
        .until("a new boot", || {
            let node = cloud.node("cp-0")?;
            (ready(&node) == "True" && node["status"]["nodeInfo"]["bootID"] != boot).then_some(())
        })
        .await;
    assert_eq!(cloud.hollow.etcd_leader(cloud.endpoint).as_deref(), Some("cp-0"));
}

#[tokio::test]
async fn a_node_without_a_kubelet_or_a_server_becomes_unknown() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let worker = cloud.create("worker-0", false, &cloud.pki.join(cloud.endpoint)).await;
    cloud.until_ready("worker-0").await;
    let is_unknown = || cloud.node("worker-0").filter(|node| ready(node) == "Unknown");
    cloud.hollow.kubelet_dead("worker-0", true);
    let node = cloud.until("unknown", is_unknown).await;
    assert_eq!(node["spec"]["taints"].as_array().unwrap().len(), 2);
    cloud.hollow.kubelet_dead("worker-0", false);
    let node = cloud.until_ready("worker-0").await;
    assert!(node["spec"].get("taints").is_none());
    cloud.delete(&worker).await;
    cloud.until("unknown", is_unknown).await;
    let nodes: Api<Node> = Api::all(cloud.admin());
    nodes.delete("worker-0", &kube::api::DeleteParams::default()).await.unwrap();
    let pods = || cloud.hollow.objects(cloud.endpoint, "pods", None);
    cloud
        .until("no pods", || pods().iter().all(|pod| pod["spec"]["nodeName"] != "worker-0").then_some(()))
        .await;
}

#[tokio::test]
async fn the_api_ends_with_the_last_control_plane_server() {
    let cloud = Cloud::start().await;
    let id = cloud.init().await;
    assert!(cloud.hollow.is_listening(cloud.endpoint));
    cloud.hollow.api_down(cloud.endpoint, true);
    assert!(tokio::net::TcpStream::connect(cloud.endpoint).await.is_err());
    cloud.hollow.api_down(cloud.endpoint, false);
    cloud.until("the API", || cloud.hollow.is_listening(cloud.endpoint).then_some(())).await;
    cloud.delete(&id).await;
    cloud.until("no API", || (!cloud.hollow.is_listening(cloud.endpoint)).then_some(())).await;
    assert!(tokio::net::TcpStream::connect(cloud.endpoint).await.is_err());
}

#[tokio::test]
async fn a_rebuilt_worker_joins_again() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let id = cloud.create("worker-0", false, &cloud.pki.join(cloud.endpoint)).await;
    let boot = cloud.until_ready("worker-0").await["status"]["nodeInfo"]["bootID"].clone();
    let image = cloud.image_of("ubuntu-2204-kube-v1.34.0").await;
    cloud.act(&id, json!({"rebuild": {"imageRef": image}})).await;
    cloud
        .until("the new kubelet", || {
            let node = cloud.node("worker-0")?;
            let info = &node["status"]["nodeInfo"];
            (ready(&node) == "True" && info["bootID"] != boot && info["kubeletVersion"] == "v1.34.0")
                .then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_cluster_with_a_state_file_outlives_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let state_file = Some(directory.path().join("nodes.json"));
    let options = HollowOptions { state_file, ..HollowOptions::default() };
    let mut cloud = Cloud::with(options.clone()).await;
    cloud.init().await;
    let id = cloud.create("worker-0", false, &cloud.pki.join(cloud.endpoint)).await;
    let before = cloud.until_ready("worker-0").await;
    let etcd = cloud.hollow.etcd_members(cloud.endpoint);
    cloud.until("the end of the boot", || cloud.hollow.has_booted("worker-0").then_some(())).await;
    cloud.hollow.shutdown().await;

    cloud.hollow = HollowClusters::resume(cloud.simulator.hypervisor(), options).await.unwrap();
    cloud.until("the API", || cloud.hollow.is_listening(cloud.endpoint).then_some(())).await;
    let nodes: Api<Node> = Api::all(cloud.admin());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let after = cloud.until_ready("worker-0").await;
    for pointer in ["/metadata/uid", "/status/nodeInfo/bootID"] {
        assert_eq!(after.pointer(pointer), before.pointer(pointer), "{pointer}");
    }
    assert_eq!(cloud.hollow.etcd_members(cloud.endpoint), etcd);
    cloud.act(&id, json!({"reboot": {"type": "HARD"}})).await;
    let boot = before["status"]["nodeInfo"]["bootID"].clone();
    cloud
        .until("a new boot", || {
            let node = cloud.node("worker-0")?;
            (ready(&node) == "True" && node["status"]["nodeInfo"]["bootID"] != boot).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_worker_may_be_older_than_the_control_plane() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let image = cloud.image_of("ubuntu-2204-kube-v1.32.0").await;
    cloud.create_from(&image, "worker-0", false, &cloud.pki.join(cloud.endpoint)).await;
    let node = cloud.until_ready("worker-0").await;
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.32.0");
    let version = cloud.admin().apiserver_version().await.unwrap();
    assert_eq!(version.git_version, "v1.33.0");
}

/// Returns a document in the older API of kubeadm, compressed.
fn older(document: &str) -> Vec<u8> {
    let list =
        "      - name: cloud-provider\n        value: external\n      - name: provider-id\n        value: ";
    let map = "        cloud-provider: external\n        provider-id: ";
    let converted = document.replace("v1beta4", "v1beta3").replace(list, map).replace("v1.33.0", "v1.30.0");
    assert!(converted.contains("        provider-id: "), "{converted}");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(converted.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn an_old_worker_joins_only_with_the_kubeadm_of_the_control_plane() {
    let cloud = Cloud::start().await;
    cloud.init().await;
    let image = cloud.image_of("ubuntu-2204-kube-v1.30.0").await;
    let document = cloud.pki.join(cloud.endpoint);
    cloud.create_from(&image, "worker-0", false, older(&document)).await;
    let refused = cloud.until_refused("worker-0").await;
    assert!(refused.contains("kubeadm-config") && refused.contains("experimental API spec"), "{refused}");
    let (restart, download) = (
        "systemctl restart containerd",
        "curl -Lo /usr/bin/kubeadm https://dl.k8s.io/release/v1.33.1/bin/linux/amd64/kubeadm",
    );
    assert!(document.contains(restart));
    cloud.create_from(&image, "worker-1", false, older(&document.replace(restart, download))).await;
    let node = cloud.until_ready("worker-1").await;
    assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.30.0");
}

#[tokio::test]
async fn rsa_keys_the_older_configuration_and_compressed_user_data_make_nodes() {
    let mut cloud = Cloud::start().await;
    cloud.pki = Pki::generate_rsa();
    let image = cloud.image_of("ubuntu-2204-kube-v1.30.0").await;
    cloud.create_from(&image, "cp-0", true, older(&cloud.pki.init(cloud.endpoint))).await;
    cloud.until_ready("cp-0").await;
    let id = cloud.create_from(&image, "worker-0", false, older(&cloud.pki.join(cloud.endpoint))).await;
    let node = cloud.until_ready("worker-0").await;
    assert_eq!(node["spec"]["providerID"], format!("openstack:///{id}"));
    let nodes: Api<Node> = Api::all(cloud.admin());
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 2);
    let newer = cloud.pki.join(cloud.endpoint);
    cloud.create_from(&image, "worker-1", false, &newer).await;
    assert!(cloud.until_refused("worker-1").await.contains("experimental API spec"));
}
