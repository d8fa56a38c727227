//! Pods in a workload cluster, so that a drain has something to evict.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

/// Runs a pod on each worker, unless it runs already.
pub(crate) async fn run_on_workers(client: &Client) {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for node in nodes.iter().filter(|node| !node.name_any().contains("control-plane")) {
        let name = format!("web-{}", node.name_any());
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true
        });
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": [owner]},
            "spec": {"nodeName": node.name_any(), "containers": [{"name": "web", "image": "web"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        match pods.create(&PostParams::default(), &pod).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
}
