//! Tests of load balancers in clouds that hinder them: quotas, permissions, providers, and changes that never end.

use super::*;

/// Starts deleting the cluster.
async fn delete(scene: &Scene) {
    let clusters: Api<Cluster> = Api::namespaced(scene.world.admin(), NAMESPACE);
    clusters.delete("c", &DeleteParams::background()).await.unwrap();
}

/// Deletes the cluster, and checks that nothing is left.
async fn leaves_nothing(scene: &Scene) {
    delete(scene).await;
    let gone = |client: Client| async move {
        Ok(Api::<Cluster>::namespaced(client, NAMESPACE).get_opt("c").await?.is_none())
    };
    scene.controllers.until("the cluster is gone", gone).await.unwrap();
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r8_10_a_change_that_never_ends_blocks_the_deletion_which_says_so() {
    let scene = Scene::start_with(World::start().await.unwrap(), "provider: frozen").await;
    refused(&scene, "LoadBalancerPending").await;
    delete(&scene).await;
    let is_blocked = |client: Client| async move {
        let cluster = Api::<OpenStackCluster>::namespaced(client, NAMESPACE).get("c").await?;
        let ready = cluster.condition("Ready").filter(|_| cluster.metadata.deletion_timestamp.is_some());
        Ok(ready
            .is_some_and(|it| it.reason == "LoadBalancerPending" && it.message.contains("PENDING_CREATE")))
    };
    scene.controllers.until("the deletion is blocked", is_blocked).await.unwrap();
    assert_eq!(scene.balancers().await.len(), 1);
    let log = scene.world.cloud.log();
    let deleted = log.iter().filter(|call| call.method == "DELETE" && call.path.contains("/loadbalancers/"));
    assert_eq!(deleted.count(), 0, "Octavia refuses it");
}

#[tokio::test]
async fn r8_10_a_quota_of_listeners_is_reported_and_its_end_is_noticed() {
    let world = World::start().await.unwrap();
    world.cloud.set_quota("demo", "listener", 1);
    let scene = Scene::start_with(world, "").await;
    let is_short = |client: Client| async move {
        let cluster = Api::<OpenStackCluster>::namespaced(client, NAMESPACE).get("c").await?;
        Ok(cluster.condition("Ready").is_some_and(|it| {
            it.reason == "QuotaExceeded" && it.message.contains("needs 2 listener, 1 left of 1")
        }))
    };
    scene.controllers.until("the quota is short", is_short).await.unwrap();
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
    scene.world.cloud.set_quota("demo", "listener", -1);
    scene.provisioned().await;
}

#[tokio::test]
async fn r8_10_a_user_without_octavias_role_gets_the_cause_and_the_rest_of_the_cluster() {
    let world = World::start().await.unwrap();
    let words = "Policy does not allow this request to be performed.";
    world.cloud.inject(InjectedFault {
        service: Some(CloudService::LoadBalancer),
        method: Some("POST".to_owned()),
        ..InjectedFault::new(FaultEffect::Status {
            code: 403,
            body: json!({"faultcode": "Client", "faultstring": words, "debuginfo": null}).to_string(),
            content_type: None,
            retry_after: None,
        })
    });
    let scene = Scene::start_with(world, "").await;
    let message = refused(&scene, "LoadBalancerUnavailable").await;
    assert!(message.contains(words), "{message}");
    let cluster = scene.cluster().await;
    assert!(cluster.condition("NetworkReady").is_some_and(|it| it.holds()), "{cluster:#?}");
    scene.world.cloud.clear_faults();
    scene.provisioned().await;
}

#[tokio::test]
async fn r8_7_a_cloud_that_refuses_ports_of_users_gets_a_load_balancer_on_octavias_port() {
    let world = World::start().await.unwrap();
    world.cloud.refuse_vip_ports();
    let scene = Scene::start_with(world, "").await;
    scene.provisioned().await;
    let balancer = scene.balancers().await.pop().unwrap();
    let ports = scene.world.cloud.inventory("demo").ports;
    let vip = ports.iter().find(|port| port.id == balancer.vip_port_id).unwrap();
    assert_eq!(vip.name, format!("octavia-lb-{}", balancer.id));
    assert!(!ports.iter().any(|port| port.name.ends_with("-vip")), "{ports:?}");
    leaves_nothing(&scene).await;
}

#[tokio::test]
async fn r8_10_a_load_balancer_of_ovn_works_without_what_the_provider_lacks() {
    let scene = Scene::start_with(World::start().await.unwrap(), "provider: ovn").await;
    scene.provisioned().await;
    let balancer = scene.balancers().await.pop().unwrap();
    for listener in scene.cloud.listeners(&balancer.id).await.unwrap() {
        assert_eq!(listener.allowed_cidrs, Vec::<String>::new());
    }
    for pool in scene.cloud.pools(&balancer.id).await.unwrap() {
        assert_eq!(scene.cloud.members(&pool.id).await.unwrap().len(), 1);
    }
    let refused = |call: &tests_openstack_simulator::LoggedCall| {
        call.path.starts_with("/load-balancer") && call.status == 501
    };
    assert!(!scene.world.cloud.log().iter().any(refused), "OVN does not support a requested option");
    let events: Api<Event> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap();
    assert!(events.iter().any(|event| event.reason.as_deref() == Some("AllowedCIDRsUnsupported")));
    leaves_nothing(&scene).await;
}

#[tokio::test]
async fn a_provider_without_health_monitors_gets_all_other_parts() {
    let world = World::start().await.unwrap();
    world.cloud.inject(InjectedFault {
        service: Some(CloudService::LoadBalancer),
        method: Some("POST".to_owned()),
        path: Some("/healthmonitors".to_owned()),
        ..InjectedFault::new(FaultEffect::Status {
            code: 501,
            body: r#"{"faultcode": "Server", "faultstring": "Provider does not support monitors"}"#
                .to_owned(),
            content_type: None,
            retry_after: None,
        })
    });
    let scene = Scene::start_with(world, "").await;
    scene.provisioned().await;
    let balancer = scene.balancers().await.remove(0);
    let pools = scene.cloud.pools(&balancer.id).await.unwrap();
    assert_eq!((pools.len(), scene.members().await.len()), (2, 2), "{pools:?}");
    assert!(pools.iter().all(|pool| pool.health_monitor_id.is_none()));
    let ready = scene.cluster().await;
    assert!(ready.condition("APIEndpointReady").is_some_and(|it| it.holds()), "{:?}", ready.status);
}
