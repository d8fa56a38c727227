//! Tests of what the workload cluster left on a network that other clusters use, too.

use apiserver_types::OpenStackMachine;
use controllers_infrastructure::{FixedIp, Subnet};

use super::*;

const NAMESPACE: &str = "existing";

/// Creates a network with a subnet, as another owner.
async fn network(scene: &Scene) -> Subnet {
    let new = NewNetwork { name: "shared".to_owned(), ..NewNetwork::default() };
    let network = scene.cloud.create_network(&new).await.unwrap();
    let new = NewSubnet {
        name: "shared".to_owned(),
        network_id: network.id,
        cidr: "10.9.0.0/24".to_owned(),
        ..NewSubnet::default()
    };
    scene.cloud.create_subnet(&new).await.unwrap()
}

/// Creates a port of a machine. Returns its id and address.
async fn port(scene: &Scene, subnet: &Subnet) -> (String, String) {
    let new = NewPort {
        name: "machine".to_owned(),
        network_id: subnet.network_id.clone(),
        fixed_ips: vec![FixedIp { subnet_id: Some(subnet.id.clone()), ip_address: None }],
        ..NewPort::default()
    };
    let port = scene.cloud.create_port(&new).await.unwrap();
    (port.id, port.fixed_ips[0].ip_address.clone().unwrap())
}

/// Creates the load balancer of a Service, with a member at this address.
async fn service(scene: &Scene, subnet: &Subnet, name: &str, address: Option<&str>) -> String {
    let new = NewLoadBalancer {
        name: format!("kube_service_kubernetes_default_{name}"),
        description: format!("Kubernetes external service default/{name} from cluster kubernetes"),
        vip_subnet_id: Some(subnet.id.clone()),
        ..NewLoadBalancer::default()
    };
    let balancer = scene.cloud.create_load_balancer(&new).await.unwrap();
    settled(scene).await;
    let Some(address) = address else { return balancer.id };
    let listener = NewListener {
        load_balancer_id: balancer.id.clone(),
        name: name.to_owned(),
        protocol_port: 80,
        ..NewListener::default()
    };
    let listener = scene.cloud.create_listener(&listener).await.unwrap();
    settled(scene).await;
    let pool = NewPool {
        listener_id: listener.id,
        name: name.to_owned(),
        algorithm: "ROUND_ROBIN".to_owned(),
        ..NewPool::default()
    };
    let pool = scene.cloud.create_pool(&pool).await.unwrap();
    settled(scene).await;
    let member = NewMember {
        name: name.to_owned(),
        address: address.to_owned(),
        protocol_port: 80,
        ..NewMember::default()
    };
    scene.cloud.create_member(&pool.id, &member).await.unwrap();
    settled(scene).await;
    balancer.id
}

/// Creates the object of a machine that has this port.
async fn machine(scene: &Scene, port: &str) {
    let journal = json!([{"kind": "port", "name": "m-0", "id": port}]).to_string();
    let object = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachine",
        "metadata": {"name": "m", "namespace": NAMESPACE, "labels": {"cluster.x-k8s.io/cluster-name": "c"},
            "annotations": {"capstan.dev/journal": journal}},
        "spec": {"flavor": {"filter": {"name": "m1.small"}},
            "image": {"filter": {"name": "ubuntu-2204-kube-v1.30.0"}}},
    });
    scene.world.create(&object.to_string()).await.unwrap();
    let api: Api<OpenStackMachine> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let status = json!({"status": {"instanceID": "server"}});
    api.patch_status("m", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

/// Load balancers of Services on the network of another owner were neither noted, nor deleted, nor named.
#[tokio::test]
async fn r17_3_on_an_existing_network_a_service_goes_if_its_members_were_the_clusters_machines() {
    let scene = Scene::start().await;
    let subnet = network(&scene).await;
    let (own_port, own) = port(&scene, &subnet).await;
    let (_, foreign) = port(&scene, &subnet).await;
    let ours = service(&scene, &subnet, "ours", Some(&own)).await;
    let theirs = service(&scene, &subnet, "theirs", Some(&foreign)).await;
    let unclear = service(&scene, &subnet, "unclear", None).await;
    let spec = json!({"managedSubnets": null, "network": {"id": subnet.network_id}});
    scene.create(NAMESPACE, &with(&spec)).await;
    scene.until(NAMESPACE, "the cluster is provisioned", is_provisioned).await;
    machine(&scene, &own_port).await;
    // A change makes the pass of a settled cluster due.
    scene.patch(NAMESPACE, json!({"metadata": {"annotations": {"looked": "at"}}})).await;
    let notes = |cluster: &OpenStackCluster| cluster.annotations().get("capstan.dev/workload").cloned();
    let is_noted = |cluster: &OpenStackCluster| notes(cluster).is_some_and(|it| it.contains(&ours));
    let cluster = scene.until(NAMESPACE, "the load balancer is noted", is_noted).await;
    let mut noted: Value = serde_json::from_str(&notes(&cluster).unwrap()).unwrap();
    assert_eq!(noted["loadBalancers"], json!([ours]));
    assert_eq!(noted["addresses"], json!([own]));
    // There is no workload API here, which has the name.
    noted["ccm"] = json!("kubernetes");
    let annotations = json!({"capstan.dev/workload": noted.to_string()});
    scene.patch(NAMESPACE, json!({"metadata": {"annotations": annotations}})).await;

    let machines: Api<OpenStackMachine> = Api::namespaced(scene.world.admin(), NAMESPACE);
    machines.delete("m", &DeleteParams::default()).await.unwrap();
    scene.cloud.delete_port(&own_port).await.unwrap();
    scene.delete(NAMESPACE).await;
    let left = scene.world.cloud.inventory("demo").load_balancers;
    let mut left: Vec<String> = left.into_iter().map(|it| it.id).collect();
    left.sort();
    let mut expected = vec![theirs.clone(), unclear.clone()];
    expected.sort();
    assert_eq!(left, expected, "only that of the cluster is gone");
    // The annotation is a remedy as long as the object is there; the second Event outlives it.
    for (reason, remedy) in
        [("DeletionPlanned", "capstan.dev/delete-leftovers"), ("LeftoversFound", "Delete them in the cloud")]
    {
        let text = scene.messages(NAMESPACE, reason).await;
        assert!(text.contains(&unclear) && text.contains(remedy), "{reason}: {text}");
        assert!(!text.contains(&theirs), "{reason}: {text}");
    }
    assert!(scene.messages(NAMESPACE, "DeletionPlanned").await.contains(&ours));
}

/// Routes that the cloud provider had added kept the interfaces of the router, so that the deletion never ended.
#[tokio::test]
async fn r17_3_routes_of_our_router_are_removed_and_a_group_on_a_port_of_another_owner_stays() {
    let scene = Scene::start().await;
    scene.create("routes", &spec()).await;
    let cluster = scene.until("routes", "the cluster is provisioned", is_provisioned).await;
    let status = cluster.status.unwrap();
    let (router, subnet) = (status.router.unwrap().id, status.network.unwrap().subnets.unwrap().remove(0).id);
    let route = ("10.244.1.0/24".to_owned(), "10.8.0.99".to_owned());
    scene.cloud.set_routes(&router, &[route]).await.unwrap();

    let new = NewLoadBalancer {
        name: "kube_service_kubernetes_default_web".to_owned(),
        description: "Kubernetes external service default/web from cluster kubernetes".to_owned(),
        vip_subnet_id: Some(subnet),
        ..NewLoadBalancer::default()
    };
    scene.cloud.create_load_balancer(&new).await.unwrap();
    settled(&scene).await;
    let group = "Security Group for default/web Service LoadBalancer in cluster kubernetes";
    let group = scene.cloud.create_security_group("lb-sg-0-default-web", group).await.unwrap();
    let query = NetworkQuery { name: Some("private".to_owned()), ..NetworkQuery::default() };
    let other = NewPort {
        name: "other".to_owned(),
        network_id: scene.cloud.networks(&query).await.unwrap().remove(0).id,
        security_groups: Some(vec![group.id.clone()]),
        ..NewPort::default()
    };
    let other = scene.cloud.create_port(&other).await.unwrap();
    scene.delete("routes").await;
    let left = scene.world.cloud.inventory("demo");
    assert!(left.routers.is_empty() && left.load_balancers.is_empty(), "{left:#?}");
    let query = SecurityGroupQuery { id: Some(group.id), ..SecurityGroupQuery::default() };
    assert_eq!(scene.cloud.security_groups(&query).await.unwrap().len(), 1, "another owner's port has it");
    scene.cloud.delete_port(&other.id).await.unwrap();
}
