//! Workers of a whole cluster whose Nodes become unhealthy or disappear.

use std::time::Duration;

use apiserver_types::{ConditionStatus, Machine, MachineHealthCheck};
use k8s_openapi::api::core::v1::{Event, Node};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::scene::Scene;

/// Time in which nothing may happen: several times what a mark takes.
const QUIET: Duration = Duration::from_secs(4);

fn is_marked(machine: &Machine) -> bool {
    machine.condition("HealthCheckSucceeded").is_some_and(|it| it.status == ConditionStatus::False)
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_whose_nodes_fail_or_disappear_are_replaced() {
    let scene = Scene::start("nodes").await;
    let names = scene.names().await;
    scene.hollow.kubelet_dead(&names[0], true);
    scene.until("a replacement of a dead Node", async || scene.is_replaced(&names[0]).await).await;
    assert!(scene.names().await.contains(&names[1]), "the healthy one stays");
    let events: Api<Event> = scene.api();
    let params = ListParams::default().fields("reason=MachineMarkedUnhealthy");
    let told = events.list(&params).await.unwrap().items;
    assert!(
        told.iter().any(|it| it
            .message
            .as_ref()
            .unwrap()
            .contains("Condition Ready on Node is reporting status Unknown")),
        "{told:#?}"
    );

    let node = scene.node_of(&names[1]).await;
    Api::<Node>::all(scene.workload().await).delete(&node, &DeleteParams::default()).await.unwrap();
    scene.until("a replacement of a deleted Node", async || scene.is_replaced(&names[1]).await).await;
    let told = events.list(&params).await.unwrap().items;
    assert!(
        told.iter().any(|it| it.message.as_ref().unwrap().contains(&format!("Node {node} has been deleted"))),
        "{told:#?}"
    );
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_dead_nodes_and_a_lost_connection_replace_nothing() {
    let scene = Scene::start("restricted").await;
    let names = scene.names().await;

    // The connection is lost while a Node fails.
    scene.hollow.api_down(scene.endpoint(), true);
    scene.hollow.kubelet_dead(&names[0], true);
    scene
        .until("the loss of the connection", async || {
            scene
                .check()
                .await
                .condition("RemediationAllowed")
                .is_some_and(|it| it.reason == "ConnectionDown")
        })
        .await;
    tokio::time::sleep(QUIET).await;
    assert!(!scene.workers().await.iter().any(is_marked), "{:#?}", scene.workers().await);
    assert_eq!(scene.names().await, names);
    assert_eq!(scene.check().await.status.unwrap().current_healthy, Some(2), "the last one that was known");
    scene.hollow.kubelet_dead(&names[0], false);
    scene.hollow.api_down(scene.endpoint(), false);
    scene
        .until("the connection", async || {
            scene.check().await.condition("RemediationAllowed").is_some_and(apiserver_types::Condition::holds)
        })
        .await;

    // Both fail at the same time.
    let change = json!({"spec": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 0}}}});
    let patch = Patch::Merge(&change);
    scene.api::<MachineHealthCheck>().patch("workers", &PatchParams::default(), &patch).await.unwrap();
    names.iter().for_each(|name| scene.hollow.kubelet_dead(name, true));
    // No time-out wakes the health check during a short circuit.
    scene
        .until("two marks", async || {
            let time = format!("{:?}", std::time::Instant::now());
            let change = json!({"metadata": {"annotations": {"time": time}}});
            let patch = Patch::Merge(&change);
            let checks = scene.api::<MachineHealthCheck>();
            checks.patch("workers", &PatchParams::default(), &patch).await.unwrap();
            scene.workers().await.iter().all(is_marked)
        })
        .await;
    tokio::time::sleep(QUIET).await;
    assert_eq!(scene.names().await, names);
    assert!(scene.workers().await.iter().all(|it| it.condition("OwnerRemediated").is_none()));
    let check = scene.check().await;
    assert_eq!(check.condition("RemediationAllowed").unwrap().reason, "TooManyUnhealthy");

    // They recover.
    names.iter().for_each(|name| scene.hollow.kubelet_dead(name, false));
    scene.until("two healthy workers", async || scene.healthy().await == Some(2)).await;
    assert!(!scene.workers().await.iter().any(is_marked));
    assert_eq!(scene.names().await, names);
    scene.end().await;
}
