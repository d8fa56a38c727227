//! Tests of load balancers that Services of several workload clusters share.

use super::*;

const OURS: &str = "kube_service_prod_default_web";
const THEIRS: &str = "kube_service_test_default_web";

/// Subnet and address of a machine behind a load balancer.
type Machine<'a> = (&'a str, &'a str);

/// Creates the load balancer that the other workload cluster made, with a listener for each of both.
async fn shared(scene: &Scene, subnet: &str, ours: Machine<'_>, theirs: Machine<'_>) -> String {
    let new = NewLoadBalancer {
        name: THEIRS.to_owned(),
        description: "Kubernetes external service default/web from cluster test".to_owned(),
        tags: vec![THEIRS.to_owned(), OURS.to_owned()],
        vip_subnet_id: Some(subnet.to_owned()),
        ..NewLoadBalancer::default()
    };
    let balancer = scene.cloud.create_load_balancer(&new).await.unwrap();
    settled(scene).await;
    for (service, port, machine) in [(THEIRS, 80, theirs), (OURS, 443, ours)] {
        listener(scene, &balancer.id, service, port, machine).await;
    }
    balancer.id
}

/// Creates a listener with a pool and a member, as the cloud provider names them.
async fn listener(scene: &Scene, balancer: &str, service: &str, port: i32, (subnet, address): Machine<'_>) {
    let new = NewListener {
        load_balancer_id: balancer.to_owned(),
        name: format!("listener_0_{service}"),
        tags: vec![service.to_owned()],
        protocol_port: port,
        ..NewListener::default()
    };
    let listener = scene.cloud.create_listener(&new).await.unwrap();
    settled(scene).await;
    let new = NewPool {
        listener_id: listener.id,
        name: format!("pool_0_{service}"),
        algorithm: "ROUND_ROBIN".to_owned(),
        ..NewPool::default()
    };
    let pool = scene.cloud.create_pool(&new).await.unwrap();
    settled(scene).await;
    let member = NewMember {
        name: "node".to_owned(),
        address: address.to_owned(),
        subnet_id: Some(subnet.to_owned()),
        protocol_port: 30080,
        ..NewMember::default()
    };
    scene.cloud.create_member(&pool.id, &member).await.unwrap();
    settled(scene).await;
}

/// Creates the network of the other cluster. Returns its subnet.
async fn other_subnet(scene: &Scene) -> String {
    let new = NewNetwork { name: "theirs".to_owned(), ..NewNetwork::default() };
    let network = scene.cloud.create_network(&new).await.unwrap();
    let new = NewSubnet {
        name: "theirs".to_owned(),
        network_id: network.id,
        cidr: "10.9.0.0/24".to_owned(),
        ..NewSubnet::default()
    };
    scene.cloud.create_subnet(&new).await.unwrap().id
}

/// Creates a cluster. Returns its subnet.
async fn own_subnet(scene: &Scene, namespace: &str) -> String {
    scene.create(namespace, &spec()).await;
    let cluster = scene.until(namespace, "the cluster is provisioned", is_provisioned).await;
    cluster.status.unwrap().network.unwrap().subnets.unwrap().remove(0).id
}

/// Checks that a load balancer has the parts of the other cluster alone.
async fn has_only_theirs(scene: &Scene, balancer: &str) {
    let listeners = scene.cloud.listeners(balancer).await.unwrap();
    assert_eq!(listeners.iter().map(|it| it.protocol_port).collect::<Vec<_>>(), [80], "{listeners:#?}");
    let pools = scene.cloud.pools(balancer).await.unwrap();
    assert_eq!(pools.iter().map(|it| it.name.clone()).collect::<Vec<_>>(), [format!("pool_0_{THEIRS}")]);
    assert_eq!(scene.cloud.members(&pools[0].id).await.unwrap().len(), 1);
    let query = LoadBalancerQuery { id: Some(balancer.to_owned()), ..LoadBalancerQuery::default() };
    let found = scene.cloud.load_balancers(&query).await.unwrap().remove(0);
    assert_eq!(found.tags, [THEIRS]);
}

/// The listener, pool and tag of a Service stayed in the load balancer of another cluster, and led to no machine.
#[tokio::test]
async fn r17_3_a_cluster_leaves_the_load_balancer_of_another_cluster() {
    let scene = Scene::start().await;
    let (ours, theirs) = (own_subnet(&scene, "leaves").await, other_subnet(&scene).await);
    let balancer = shared(&scene, &theirs, (&ours, "10.8.0.50"), (&theirs, "10.9.0.50")).await;
    scene.delete("leaves").await;
    has_only_theirs(&scene, &balancer).await;
    let plan = scene.messages("leaves", "DeletionPlanned").await;
    assert!(
        plan.contains(&format!("the parts of this cluster in load balancer {THEIRS} ({balancer})")),
        "{plan}"
    );
    let done = scene.messages("leaves", "DeletedLoadBalancerPart").await;
    for part in ["listener", "pool"] {
        assert!(done.contains(&format!("deleted {part} {part}_0_{OURS}")), "{done}");
    }
}

#[tokio::test]
async fn r17_3_a_shared_load_balancer_on_our_network_stays_until_the_other_cluster_leaves_it() {
    let scene = Scene::start().await;
    let (ours, theirs) = (own_subnet(&scene, "stays").await, other_subnet(&scene).await);
    let balancer = shared(&scene, &ours, (&ours, "10.8.0.50"), (&theirs, "10.9.0.50")).await;
    scene.begin_deletion("stays").await;
    let is_blocked = |cluster: &OpenStackCluster| {
        let ready = cluster.condition("Ready").filter(|it| it.reason == "DeletionBlocked");
        ready.is_some_and(|it| it.message.contains("its member 10.9.0.50 is not"))
    };
    scene.until("stays", "the deletion is blocked", is_blocked).await;
    has_only_theirs(&scene, &balancer).await;
    let plan = scene.messages("stays", "DeletionPlanned").await;
    assert!(plan.contains(&format!("Blocked by load balancer {THEIRS} ({balancer})")), "{plan}");
    scene.cloud.delete_load_balancer(&balancer).await.unwrap();
    scene.gone("stays").await;
}
