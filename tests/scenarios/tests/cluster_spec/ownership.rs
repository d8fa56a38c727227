//! Tests of the ownership of cloud resources: what a cluster adopts, notes and deletes.

use apiserver_types::OpenStackMachine;
use controllers_infrastructure::{NewSubnet, TaggedKind};

use super::*;

/// Forgets the ids of the journal, as a process does that crashed before it could write them.
async fn forget_ids(scene: &Scene, namespace: &str) {
    let cluster = scene.clusters(namespace).get("c").await.unwrap();
    let mut journal: Value = serde_json::from_str(&cluster.annotations()["capstan.dev/journal"]).unwrap();
    for entry in journal.as_array_mut().unwrap() {
        entry.as_object_mut().unwrap().remove("id");
    }
    let annotations = json!({"capstan.dev/journal": journal.to_string()});
    scene.patch(namespace, json!({"metadata": {"annotations": annotations}})).await;
}

#[tokio::test]
async fn r2_5_a_second_network_of_a_lost_answer_goes_unless_something_uses_it() {
    let scene = Scene::start().await;
    scene.create("twice", &spec()).await;
    let cluster = scene.until("twice", "the cluster is provisioned", is_provisioned).await;
    let whole = scene.world.counts();
    let id = cluster.status.unwrap().network.unwrap().id;
    let query = NetworkQuery { id: Some(id.clone()), ..NetworkQuery::default() };
    let first = scene.cloud.networks(&query).await.unwrap().remove(0);
    let second = || NewNetwork {
        name: first.name.clone(),
        description: first.description.clone(),
        ..NewNetwork::default()
    };
    // The oldest is adopted, and times of creation have a precision of a second.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    scene.cloud.create_network(&second()).await.unwrap();
    forget_ids(&scene, "twice").await;
    let counts = || scene.world.counts();
    let only = |cluster: &OpenStackCluster| is_provisioned(cluster) && counts() == whole;
    let cluster = scene.until("twice", "the second network is gone", only).await;
    assert_eq!(cluster.status.unwrap().network.unwrap().id, id, "the one in use is kept");

    let used = scene.cloud.create_network(&second()).await.unwrap();
    let subnet = NewSubnet {
        name: first.name.clone(),
        description: first.description.clone(),
        network_id: used.id.clone(),
        cidr: "10.9.0.0/24".to_owned(),
        ..NewSubnet::default()
    };
    scene.cloud.create_subnet(&subnet).await.unwrap();
    forget_ids(&scene, "twice").await;
    let ambiguous = |cluster: &OpenStackCluster| {
        cluster.condition("Ready").is_some_and(|it| it.reason == "Ambiguous" && it.message.contains(&used.id))
    };
    let cluster = scene.until("twice", "the second network is reported", ambiguous).await;
    assert_eq!(cluster.status.unwrap().network.unwrap().id, id);
    scene.delete("twice").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r2_2_a_resource_leaves_the_journal_after_it_was_seen_to_be_gone() {
    let scene = Scene::start().await;
    scene.create("gone", &spec()).await;
    scene.until("gone", "the cluster is provisioned", is_provisioned).await;
    scene.world.cloud.clear_log();
    scene.delete("gone").await;
    let log = scene.world.cloud.log();
    for kind in ["networks", "subnets", "routers", "security-groups", "floatingips"] {
        let of_kind = log.iter().filter(|call| call.path.contains(&format!("/v2.0/{kind}")));
        let methods: Vec<&str> = of_kind.map(|call| call.method.as_str()).collect();
        assert!(methods.contains(&"DELETE"), "{kind}: {methods:?}");
        assert_eq!(methods.last(), Some(&"GET"), "{kind}: {methods:?}");
    }
}

#[tokio::test]
async fn r5_8_tags_of_other_tools_stay_and_a_missing_one_is_added_alone() {
    let scene = Scene::start().await;
    scene.create("tags", &with(&json!({"tags": ["red", "blue"]}))).await;
    let cluster = scene.until("tags", "the cluster is provisioned", is_provisioned).await;
    let id = cluster.status.unwrap().network.unwrap().id;
    let query = NetworkQuery { id: Some(id.clone()), ..NetworkQuery::default() };
    let tags = async || scene.cloud.networks(&query).await.unwrap().remove(0).tags;
    let mut changed = tags().await;
    assert!(changed.contains(&"red".to_owned()) && changed.contains(&"blue".to_owned()));
    changed.retain(|tag| tag != "red");
    changed.push("foreign".to_owned());
    scene.cloud.set_tags(TaggedKind::Network, &id, &changed).await.unwrap();
    // An earlier spec had another tag, which the network still has.
    changed.push("former".to_owned());
    scene.cloud.set_tags(TaggedKind::Network, &id, &changed).await.unwrap();
    scene.world.cloud.clear_log();
    let applied = json!({"capstan.dev/applied-tags": r#"["red","former","blue"]"#});
    scene.patch("tags", json!({"metadata": {"annotations": applied}})).await;
    let forgotten = |cluster: &OpenStackCluster| {
        is_provisioned(cluster)
            && cluster.annotations().get("capstan.dev/applied-tags").map(String::as_str)
                == Some(r#"["blue","red"]"#)
    };
    scene.until("tags", "the tags are as in the spec", forgotten).await;
    let mut found = tags().await;
    found.retain(|tag| !tag.starts_with("capstan-"));
    found.sort();
    assert_eq!(found, ["blue", "foreign", "red"]);
    let log = scene.world.cloud.log();
    let replaced = log.iter().any(|call| call.method == "PUT" && call.path.ends_with("/tags"));
    assert!(!replaced, "tags are changed one by one");
    scene.delete("tags").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

/// A router that was deleted under machines was replaced by another one.
#[tokio::test]
async fn r16_a_lost_router_is_reported_while_there_are_machines_and_created_again_without_them() {
    let scene = Scene::start().await;
    scene.create("lost", &spec()).await;
    let cluster = scene.until("lost", "the cluster is provisioned", is_provisioned).await;
    let status = cluster.status.unwrap();
    let (router, subnet) = (status.router.unwrap().id, status.network.unwrap().subnets.unwrap().remove(0).id);
    let journal = json!([{"kind": "server", "name": "m", "id": "server"}]).to_string();
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
        "metadata": {"name": "m", "namespace": "lost", "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "finalizers": ["openstackmachine.infrastructure.cluster.x-k8s.io"],
            "annotations": {"capstan.dev/journal": journal}},
        "spec": {"flavor": {"filter": {"name": "m1.small"}},
            "image": {"filter": {"name": "ubuntu-2204-kube-v1.30.0"}}},
    });
    scene.world.create(&object.to_string()).await.unwrap();
    scene.cloud.remove_router_interface(&router, &subnet).await.unwrap();
    scene.cloud.delete_router(&router).await.unwrap();
    let look = async |at: &str| scene.patch("lost", json!({"metadata": {"annotations": {"look": at}}})).await;
    look("1").await;
    let is_lost = |cluster: &OpenStackCluster| {
        let network = cluster.condition("NetworkReady").filter(|it| it.reason == "NetworkLost");
        network.is_some_and(|it| it.message.contains(&router))
    };
    scene.until("lost", "the router is reported", is_lost).await;
    assert!(scene.world.cloud.inventory("demo").routers.is_empty(), "{}", scene.world.counts());

    let machines: Api<OpenStackMachine> = Api::namespaced(scene.world.admin(), "lost");
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    machines.patch("m", &PatchParams::default(), &free).await.unwrap();
    machines.delete("m", &DeleteParams::default()).await.unwrap();
    look("2").await;
    let cluster = scene.until("lost", "the cluster has a router again", is_provisioned).await;
    assert_ne!(cluster.status.unwrap().router.unwrap().id, router);
    scene.delete("lost").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

/// Admission lets the spec name the floating IP of the load balancer later. The deletion released it.
#[tokio::test]
async fn r7_7_a_floating_ip_that_became_given_stays_in_the_cloud() {
    let scene = Scene::start().await;
    scene.create("given", &with(&json!({"apiServer": {"managedLoadBalancer": {"enabled": true}}}))).await;
    let cluster = scene.until("given", "the cluster is provisioned", is_provisioned).await;
    let address = cluster.status.unwrap().api_server_managed_load_balancer.unwrap().ip;
    scene.patch("given", json!({"spec": {"apiServer": {"floatingIP": address}}})).await;
    scene.delete("given").await;
    let query = FloatingIpQuery { address: Some(address.clone()), ..FloatingIpQuery::default() };
    let ip = scene.cloud.floating_ips(&query).await.unwrap().remove(0);
    assert_eq!(ip.port_id, None);
    assert!(!ip.tags.iter().any(|tag| tag.starts_with("capstan-")), "{:?}", ip.tags);
    let plan = scene.messages("given", "DeletionPlanned").await;
    assert!(plan.contains(&format!("Will keep floating IP {address}")), "{plan}");
    assert!(!plan.contains("floating-ip "), "{plan}");
    let kept = scene.messages("given", "LeftoversFound").await;
    assert!(kept.contains(&format!("kept floating IP {address} ({})", ip.id)), "{kept}");
    scene.cloud.delete_floating_ip(&ip.id).await.unwrap();
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}
