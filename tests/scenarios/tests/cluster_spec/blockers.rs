//! Tests of resources of other owners that prevent a deletion.

use super::*;

/// Creates a port as another owner.
async fn port(scene: &Scene, network: &str, groups: Vec<String>) -> String {
    let new = NewPort {
        name: "other".to_owned(),
        network_id: network.to_owned(),
        security_groups: Some(groups),
        ..NewPort::default()
    };
    scene.cloud.create_port(&new).await.unwrap().id
}

/// Deletes the cluster, and waits until the message about what blocks it has all of these texts.
async fn blocked(scene: &Scene, namespace: &str, texts: &[String]) {
    scene.begin_deletion(namespace).await;
    let is_blocked = |cluster: &OpenStackCluster| {
        let ready = cluster.condition("Ready").filter(|it| it.reason == "DeletionBlocked");
        ready.is_some_and(|it| texts.iter().all(|text| it.message.contains(text)))
    };
    scene.until(namespace, "the deletion is blocked", is_blocked).await;
}

#[tokio::test]
async fn r17_4_ports_of_another_owner_on_our_network_block_the_deletion_until_they_are_gone() {
    let scene = Scene::start().await;
    scene.create("blocked", &spec()).await;
    let cluster = scene.until("blocked", "the cluster is provisioned", is_provisioned).await;
    let network = cluster.status.unwrap().network.unwrap().id;
    let ports = [port(&scene, &network, Vec::new()).await, port(&scene, &network, Vec::new()).await];
    let texts =
        ["2 ports (", " of no owner", "capstan.dev/forget-blocked", ports[0].as_str(), ports[1].as_str()];
    blocked(&scene, "blocked", &texts.map(str::to_owned)).await;
    for port in &ports {
        scene.cloud.delete_port(port).await.unwrap();
    }
    scene.gone("blocked").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

/// The message named ports only if Capstan had created the network.
#[tokio::test]
async fn r17_4_on_an_existing_network_the_port_with_our_security_group_is_named() {
    let scene = Scene::start().await;
    let query = NetworkQuery { name: Some("private".to_owned()), ..NetworkQuery::default() };
    let network = scene.cloud.networks(&query).await.unwrap().remove(0).id;
    let spec = json!({"managedSubnets": null, "network": {"id": network}, "managedSecurityGroups": {}});
    scene.create("group", &with(&spec)).await;
    let cluster = scene.until("group", "the cluster is provisioned", is_provisioned).await;
    let group = cluster.status.unwrap().worker_security_group.unwrap().id;
    let port = port(&scene, &network, vec![group]).await;
    let title = format!("port {port} of no owner");
    blocked(&scene, "group", &["These use security-group".to_owned(), title]).await;
    let forget = json!({"metadata": {"annotations": {"capstan.dev/forget-blocked": "true"}}});
    scene.patch("group", forget).await;
    scene.gone("group").await;
    scene.cloud.delete_port(&port).await.unwrap();
}
