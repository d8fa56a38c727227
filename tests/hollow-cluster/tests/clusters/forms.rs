//! Suite that both forms of a cluster pass: the light one of this process, and the heavy one with real programs.
//! `cargo xtask e2e --only hollow` names the programs; without them only the light form is tested.

use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_hollow_cluster::{HollowOptions, RealPrograms};

use crate::cloud::{Cloud, ready};

/// Environment variables with the paths of the programs.
const KUBE_APISERVER: &str = "CAPSTAN_HOLLOW_KUBE_APISERVER";
const ETCD: &str = "CAPSTAN_HOLLOW_ETCD";

fn options(real: Option<RealPrograms>) -> HollowOptions {
    HollowOptions { real, heartbeat: Duration::from_millis(300), ..HollowOptions::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_this_process_lives_as_a_real_one() {
    Box::pin(live(&Cloud::with(options(None)).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_a_real_api_server_lives_as_a_real_one() {
    let path = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let (Some(kube_apiserver), Some(etcd)) = (path(KUBE_APISERVER), path(ETCD)) else {
        eprintln!("without {KUBE_APISERVER} and {ETCD} there is no real API server to test");
        return;
    };
    let cloud = Cloud::with(options(Some(RealPrograms { kube_apiserver, etcd }))).await;
    Box::pin(live(&cloud)).await;
    cloud.hollow.shutdown().await;
}

/// Lets a cluster of two nodes come, work and go.
async fn live(cloud: &Cloud) {
    let first = cloud.init().await;
    let worker = cloud.create("worker-0", false, &cloud.pki.join(cloud.endpoint)).await;
    cloud.until_ready("worker-0").await;
    let client = cloud.admin();
    nodes_are_registered(cloud, &client, [&first, &worker]).await;
    kubelets_send_heartbeats(&client).await;
    cordoned_nodes_get_no_pods(cloud, &client).await;
    evictions_honour_budgets(cloud, &client).await;
    nodes_end_with_their_servers(cloud, &client, &worker).await;
    cloud.delete(&first).await;
    let stopped = || (!cloud.hollow.is_listening(cloud.endpoint)).then_some(());
    cloud.until("the end of the API", stopped).await;
}

async fn nodes_are_registered(cloud: &Cloud, client: &Client, servers: [&str; 2]) {
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, server) in ["cp-0", "worker-0"].into_iter().zip(servers) {
        let spec = nodes.get(name).await.unwrap().spec.unwrap();
        assert_eq!(spec.provider_id.as_deref(), Some(format!("openstack:///{server}").as_str()));
        assert_eq!(spec.taints.unwrap_or_default().len(), usize::from(name == "cp-0"));
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "kube-system");
    for component in ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"] {
        let pod = pods.get(&format!("{component}-cp-0")).await.unwrap();
        assert!(pod.metadata.annotations.unwrap().contains_key("kubernetes.io/config.mirror"));
        assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    }
    assert_eq!(cloud.hollow.etcd_members(cloud.endpoint).len(), 1);
}

async fn kubelets_send_heartbeats(client: &Client) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-node-lease");
    let first = leases.get("worker-0").await.unwrap().spec.unwrap().renew_time;
    for _ in 0..100 {
        if leases.get("worker-0").await.unwrap().spec.unwrap().renew_time > first {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the Lease is not renewed");
}

fn pod(name: &str, spec: &Value) -> Pod {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
    let mut spec = spec.clone();
    spec["containers"] = json!([{"name": "web", "image": "web"}]);
    let metadata = json!({"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
}

async fn cordoned_nodes_get_no_pods(cloud: &Cloud, client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let cordon = async |on: bool| {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": on}}));
        nodes.patch("worker-0", &PatchParams::default(), &patch).await.unwrap();
    };
    cordon(true).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.create(&PostParams::default(), &pod("waits", &json!({}))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(pods.get("waits").await.unwrap().spec.unwrap().node_name, None);
    cordon(false).await;
    let runs = || {
        let pods = cloud.hollow.objects(cloud.endpoint, "pods", Some("default"));
        pods.iter()
            .any(|it| it["spec"]["nodeName"] == "worker-0" && it["status"]["phase"] == "Running")
            .then_some(())
    };
    cloud.until("the pod runs on the Node that is not cordoned", runs).await;
    pods.delete("waits", &DeleteParams::default()).await.unwrap();
    until_pods(cloud, 0).await;
}

/// Waits until the default namespace has this number of pods, and all run.
async fn until_pods(cloud: &Cloud, count: usize) {
    let settled = || {
        let pods = cloud.hollow.objects(cloud.endpoint, "pods", Some("default"));
        let run = pods.iter().all(|pod| pod["status"]["phase"] == "Running");
        (pods.len() == count && run).then_some(())
    };
    cloud.until("pods", settled).await;
}

async fn evictions_honour_budgets(cloud: &Cloud, client: &Client) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &pod(name, &json!({"nodeName": "worker-0"}))).await.unwrap();
    }
    until_pods(cloud, 2).await;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(client.clone());
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    let budget = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    let allows = || {
        let budgets = cloud.hollow.objects(cloud.endpoint, "poddisruptionbudgets", Some("default"));
        (budgets.first()?["status"]["disruptionsAllowed"] == 1).then_some(())
    };
    cloud.until("the status of the budget", allows).await;
    pods.evict("a", &EvictParams::default()).await.unwrap();
    until_pods(cloud, 1).await;
    let refused = pods.evict("b", &EvictParams::default()).await.unwrap_err();
    let kube::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!(status.code, 429);
    assert_eq!(status.details.as_ref().unwrap().causes[0].reason, "DisruptionBudget");
    budgets.delete("web", &DeleteParams::default()).await.unwrap();
    pods.evict("b", &EvictParams::default()).await.unwrap();
    until_pods(cloud, 0).await;
}

async fn nodes_end_with_their_servers(cloud: &Cloud, client: &Client, worker: &str) {
    cloud.delete(worker).await;
    let unknown = || cloud.node("worker-0").filter(|node| ready(node) == "Unknown");
    cloud.until("the Node is unknown", unknown).await;
    Api::<Node>::all(client.clone()).delete("worker-0", &DeleteParams::default()).await.unwrap();
    let pods = || cloud.hollow.objects(cloud.endpoint, "pods", None);
    let gone = || pods().iter().all(|pod| pod["spec"]["nodeName"] != "worker-0").then_some(());
    cloud.until("the pods of the Node are gone", gone).await;
}
