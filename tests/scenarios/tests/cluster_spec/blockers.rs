//! Tests of resources of other owners that prevent a deletion.

use controllers_infrastructure::{FloatingIp, NewRouter};

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

async fn public_network(scene: &Scene) -> String {
    let query = NetworkQuery { name: Some("public".to_owned()), ..NetworkQuery::default() };
    scene.cloud.networks(&query).await.unwrap().remove(0).id
}

/// Creates a port with a floating IP as another owner. Returns the id of the port.
async fn floating(scene: &Scene, network: &str) -> (String, FloatingIp) {
    let port = port(scene, network, Vec::new()).await;
    let new = NewFloatingIp {
        network_id: public_network(scene).await,
        port_id: Some(port.clone()),
        ..NewFloatingIp::default()
    };
    (port, scene.cloud.create_floating_ip(&new).await.unwrap())
}

fn title(ip: &FloatingIp) -> String {
    format!("floating IP {} ({})", ip.address, ip.id)
}

/// Deletes the cluster, and waits until the message about what blocks it has all of these texts. Returns the message.
async fn blocked(scene: &Scene, namespace: &str, texts: &[String]) -> String {
    scene.begin_deletion(namespace).await;
    let is_blocked = |cluster: &OpenStackCluster| {
        ["NetworkReady", "Ready"].into_iter().all(|kind| {
            let blocked = cluster.condition(kind).filter(|it| !it.holds() && it.reason == "DeletionBlocked");
            blocked.is_some_and(|it| texts.iter().all(|text| it.message.contains(text)))
        })
    };
    let cluster = scene.until(namespace, "the deletion is blocked", is_blocked).await;
    cluster.condition("Ready").unwrap().message.clone()
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

/// The message named the interface of the router, which is the cluster's.
#[tokio::test]
async fn r17_4_the_floating_ip_of_another_owner_through_our_router_is_named() {
    let scene = Scene::start().await;
    scene.create("floating", &spec()).await;
    let cluster = scene.until("floating", "the cluster is provisioned", is_provisioned).await;
    let network = cluster.status.unwrap().network.unwrap().id;
    let (port, ip) = floating(&scene, &network).await;
    let texts = ["These use router ".to_owned(), title(&ip), "capstan.dev/forget-blocked".to_owned()];
    let message = blocked(&scene, "floating", &texts).await;
    assert!(!message.contains("network:router_interface"), "{message}");
    scene.cloud.delete_floating_ip(&ip.id).await.unwrap();
    scene.cloud.delete_port(&port).await.unwrap();
    scene.gone("floating").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

/// The message named nothing, because the router has no tag of ours.
#[tokio::test]
async fn r17_4_at_an_existing_router_the_floating_ip_on_our_subnet_is_named() {
    let scene = Scene::start().await;
    let external_network_id = Some(public_network(&scene).await);
    let new = NewRouter { name: "shared".to_owned(), external_network_id, ..NewRouter::default() };
    let router = scene.cloud.create_router(&new).await.unwrap().id;
    let new = NewNetwork { name: "other".to_owned(), ..NewNetwork::default() };
    let other = scene.cloud.create_network(&new).await.unwrap().id;
    let new = NewSubnet {
        name: "other".to_owned(),
        network_id: other.clone(),
        cidr: "10.9.0.0/24".to_owned(),
        ..NewSubnet::default()
    };
    let subnet = scene.cloud.create_subnet(&new).await.unwrap();
    scene.cloud.add_router_interface(&router, &subnet.id).await.unwrap();
    scene.create("router", &with(&json!({"router": {"id": router}}))).await;
    let cluster = scene.until("router", "the cluster is provisioned", is_provisioned).await;
    let network = cluster.status.unwrap().network.unwrap().id;
    let (port, ip) = floating(&scene, &network).await;
    let (_, elsewhere) = floating(&scene, &other).await;
    let texts = ["These use router-interface ".to_owned(), title(&ip), "forget-blocked".to_owned()];
    let message = blocked(&scene, "router", &texts).await;
    assert!(!message.contains(&elsewhere.id), "{message}");
    scene.cloud.delete_floating_ip(&ip.id).await.unwrap();
    scene.cloud.delete_port(&port).await.unwrap();
    scene.gone("router").await;
}

#[tokio::test]
async fn r17_4_after_the_loss_of_the_journal_the_port_on_our_network_is_named() {
    let scene = Scene::start().await;
    scene.create("lost", &spec()).await;
    let cluster = scene.until("lost", "the cluster is provisioned", is_provisioned).await;
    let network = cluster.status.unwrap().network.unwrap().id;
    let port = port(&scene, &network, Vec::new()).await;
    // An object in deletion does not learn the ids again.
    scene.clusters("lost").delete("c", &DeleteParams::background()).await.unwrap();
    scene.patch("lost", json!({"metadata": {"annotations": {"capstan.dev/journal": null}}})).await;
    let texts = [format!("port {port} of no owner"), "capstan.dev/forget-blocked".to_owned()];
    blocked(&scene, "lost", &texts).await;
    scene.cloud.delete_port(&port).await.unwrap();
    scene.gone("lost").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}
