//! Deletion of a worker whose server is off, while a disruption budget refuses every eviction.

use std::time::Duration;

use apiserver_types::Machine;
use controllers_infrastructure::PowerState;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::scene::Scene;

/// Time in which a deletion that nothing holds up would be over.
const QUIET: Duration = Duration::from_secs(4);

/// Runs a pod on a Node, and forbids its eviction.
pub(crate) async fn run_protected(scene: &Scene, node: &str) {
    let client = scene.workload().await;
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true});
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web", "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "web"}]},
    }))
    .unwrap();
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &pod).await.unwrap();
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }))
    .unwrap();
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &budget).await.unwrap();
    // A budget does not protect a pod that has not started.
    let pods: Api<Pod> = Api::default_namespaced(client);
    scene
        .until("a running pod", async || {
            let status = pods.get("web").await.unwrap().status.unwrap_or_default();
            status.phase.as_deref() == Some("Running")
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_worker_whose_pods_may_not_be_evicted_goes_once_its_server_is_proved_to_be_off() {
    let scene = Scene::start("dead").await;
    let machine = scene.names().await.remove(0);
    let node = scene.node_of(&machine).await;
    run_protected(&scene, &node).await;

    // The kubelet is silent, and the server runs: its pods may still write.
    scene.hollow.kubelet_dead(&machine, true);
    let nodes: Api<Node> = Api::all(scene.workload().await);
    scene
        .until("a silent Node", async || {
            let node = nodes.get(&node).await.unwrap();
            let conditions = node.status.unwrap_or_default().conditions.unwrap_or_default();
            conditions.iter().any(|it| it.type_ == "Ready" && it.status == "Unknown")
        })
        .await;
    let machines: Api<Machine> = scene.api();
    machines.delete(&machine, &DeleteParams::default()).await.unwrap();
    scene
        .until("the refusal of the budget", async || {
            let machine = machines.get(&machine).await.unwrap();
            machine.condition("Deleting").is_some_and(|it| it.message.contains("disruption budget"))
        })
        .await;
    tokio::time::sleep(QUIET).await;
    assert!(machines.get_opt(&machine).await.unwrap().is_some(), "nothing proves that the server is off");

    // Another client of Nova stops the server.
    let cloud = scene.world.project().await.unwrap();
    let servers = cloud.servers_named(&machine).await.unwrap();
    cloud.set_power_state(&servers[0].id, PowerState::Off).await.unwrap();
    scene.until("the end of the Machine", async || machines.get_opt(&machine).await.unwrap().is_none()).await;
    let events: Api<Event> = scene.api();
    let params = ListParams::default().fields("reason=ServerIsOff");
    let told = events.list(&params).await.unwrap().items;
    let message = told[0].message.clone().unwrap();
    assert!(message.contains("Nova says SHUTOFF, and its action stop ended with Success"), "{message}");
    assert!(message.contains("request req-"), "{message}");
    scene.end().await;
}
