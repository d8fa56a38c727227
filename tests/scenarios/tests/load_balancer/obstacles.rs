//! Tests of load balancers in clouds that hinder them: quotas, permissions, providers, and changes that never end.

use super::*;

/// Starts deleting the cluster.
async fn delete(scene: &Scene) {
    let clusters: Api<Cluster> = Api::namespaced(scene.world.admin(), NAMESPACE);
    clusters.delete("c", &DeleteParams::background()).await.unwrap();
}

/// Deletes the cluster, and checks that nothing is left.
pub(super) async fn leaves_nothing(scene: &Scene) {
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

/// Octavia refused the tags of the load balancer, so that a cluster never had an endpoint.
#[tokio::test]
async fn r8_16_an_old_octavia_gets_only_attributes_that_it_has_and_the_others_are_reported() {
    for (minor, expected) in [
        (0, ["TagNotApplied", "IdleTimeoutUnsupported", "AllowedCIDRsUnsupported"].as_slice()),
        (11, ["AllowedCIDRsUnsupported"].as_slice()),
    ] {
        let scene = Scene::start_in(World::start_with_octavia(minor).await.unwrap()).await;
        scene.provisioned().await;
        assert_eq!(scene.members().await.len(), 2, "2.{minor}");
        let log = scene.world.cloud.log();
        let refused = log.iter().find(|call| call.path.contains("/lbaas/") && call.status == 400);
        assert!(refused.is_none(), "2.{minor}: {refused:?}");
        let events: Api<Event> = Api::namespaced(scene.world.admin(), NAMESPACE);
        let events = events.list(&ListParams::default()).await.unwrap();
        for reason in ["TagNotApplied", "IdleTimeoutUnsupported", "AllowedCIDRsUnsupported"] {
            let is_reported = events.iter().any(|event| event.reason.as_deref() == Some(reason));
            assert_eq!(is_reported, expected.contains(&reason), "2.{minor}: {reason}");
        }
        let cluster = scene.cluster().await.status.unwrap();
        assert_eq!(cluster.api_server_managed_load_balancer.unwrap().allowed_cidrs, None);
        leaves_nothing(&scene).await;
    }
}

/// Returns a listener of another owner on the load balancer of the cluster.
async fn foreign_listener(scene: &Scene) -> String {
    let balancer = scene.balancers().await.pop().unwrap();
    let new = controllers_infrastructure::NewListener {
        load_balancer_id: balancer.id.clone(),
        name: "web".to_owned(),
        protocol_port: 80,
        ..controllers_infrastructure::NewListener::default()
    };
    let listener = scene.cloud.create_listener(&new).await.unwrap();
    let cloud = &scene.cloud;
    let settled = |_| async move {
        let found = cloud.load_balancers(&LoadBalancerQuery::default()).await?;
        Ok(found.iter().all(|it| it.provisioning_status == "ACTIVE"))
    };
    scene.controllers.until("the listener is there", settled).await.unwrap();
    listener.id
}

#[tokio::test]
async fn r8_5_listeners_of_other_owners_are_named_before_they_go_with_the_load_balancer() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let listener = foreign_listener(&scene).await;
    leaves_nothing(&scene).await;
    let events: Api<Event> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap();
    let named = format!("listener web ({listener}, port 80) of another owner");
    let is_named = events.iter().any(|event| {
        event.reason.as_deref() == Some("DeletionPlanned")
            && event.message.as_deref().is_some_and(|it| it.contains(&named))
    });
    assert!(is_named, "{events:#?}");
}

#[tokio::test]
async fn r8_9_a_load_balancer_with_the_tag_of_a_service_keeps_the_listeners_of_that_service() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let listener = foreign_listener(&scene).await;
    let balancer = scene.balancers().await.pop().unwrap();
    let mut tags = balancer.tags.clone();
    tags.push("kube_service_kubernetes_default_web".to_owned());
    let kind = controllers_infrastructure::TaggedKind::LoadBalancer;
    scene.cloud.set_tags(kind, &balancer.id, &tags).await.unwrap();
    delete(&scene).await;
    let is_blocked = |client: Client| async move {
        let cluster = Api::<OpenStackCluster>::namespaced(client, NAMESPACE).get("c").await?;
        Ok(cluster.condition("Ready").is_some_and(|it| {
            it.reason == "DeletionBlocked" && it.message.contains("kube_service_kubernetes_default_web")
        }))
    };
    scene.controllers.until("the deletion is blocked", is_blocked).await.unwrap();
    let left: Vec<String> =
        scene.cloud.listeners(&balancer.id).await.unwrap().into_iter().map(|it| it.id).collect();
    assert_eq!(left, [listener], "only our own listeners are gone");

    let forget = json!({"metadata": {"annotations": {"capstan.dev/forget-blocked": "true"}}});
    scene.clusters().patch("c", &PatchParams::default(), &Patch::Merge(&forget)).await.unwrap();
    let gone = |client: Client| async move {
        Ok(Api::<Cluster>::namespaced(client, NAMESPACE).get_opt("c").await?.is_none())
    };
    scene.controllers.until("the cluster is gone", gone).await.unwrap();
    assert_eq!(scene.balancers().await.len(), 1, "it serves the Service");
    let left = scene.world.cloud.inventory("demo");
    assert!(left.ports.iter().any(|port| port.id == balancer.vip_port_id), "its address stays: {left:#?}");
    let events: Api<Event> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap();
    let forgotten = events.iter().filter(|event| event.reason.as_deref() == Some("DeletionForgotten"));
    assert!(forgotten.count() >= 2, "{events:#?}");
}

/// The plan of a deletion was shown when all Machines were gone, and with them the volumes that it was about to keep.
#[tokio::test]
async fn r17_5_the_plan_of_a_deletion_is_shown_before_the_machines_are_gone() {
    let scene = Scene::start().await;
    scene.provisioned().await;
    let machines: Api<Machine> = Api::namespaced(scene.world.admin(), NAMESPACE);
    let hook = |value: serde_json::Value| {
        json!({"metadata": {"annotations": {
        "pre-terminate.delete.hook.machine.cluster.x-k8s.io/test": value}}})
    };
    let held = Patch::Merge(hook(json!("")));
    machines.patch("m", &PatchParams::default(), &held).await.unwrap();
    delete(&scene).await;
    let is_shown = |client: Client| async move {
        let events = Api::<Event>::namespaced(client, NAMESPACE).list(&ListParams::default()).await?;
        let plans = events.iter().filter(|event| event.reason.as_deref() == Some("DeletionPlanned"));
        let mut texts = plans.filter_map(|event| event.message.as_deref());
        Ok(texts.any(|text| {
            text.contains("machine m with its server, ports and volumes")
                && text.contains("load-balancer k8s-")
        }))
    };
    scene.controllers.until("the plan is shown", is_shown).await.unwrap();
    assert_eq!(scene.cluster().await.metadata.deletion_timestamp, None);
    assert_eq!(scene.world.cloud.inventory("demo").servers.len(), 1, "nothing is deleted yet");
    let free = Patch::Merge(hook(serde_json::Value::Null));
    machines.patch("m", &PatchParams::default(), &free).await.unwrap();
    let gone = |client: Client| async move {
        Ok(Api::<Cluster>::namespaced(client, NAMESPACE).get_opt("c").await?.is_none())
    };
    scene.controllers.until("the cluster is gone", gone).await.unwrap();
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}
