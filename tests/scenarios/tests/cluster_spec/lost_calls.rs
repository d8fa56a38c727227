//! Tests of create calls whose answers were lost: the cloud has each resource once, although its lists lag behind.

use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault};

use super::*;

const FLOATING_IPS: &str = "/v2.0/floatingips";

fn fault(method: &str, count: u64, effect: FaultEffect) -> InjectedFault {
    InjectedFault {
        service: Some(CloudService::Network),
        method: Some(method.to_owned()),
        path: Some(FLOATING_IPS.to_owned()),
        count: Some(count),
        ..InjectedFault::new(effect)
    }
}

/// Returns the number of allocations of a floating IP that the cloud got.
fn allocations(scene: &Scene) -> usize {
    let log = scene.world.cloud.log();
    log.iter().filter(|call| call.method == "POST" && call.path.ends_with(FLOATING_IPS)).count()
}

#[tokio::test]
async fn r2_6_a_call_whose_answer_was_lost_is_not_repeated_while_lists_lag_behind() {
    let scene = Scene::start().await;
    // A list before the call, and the first looks after it.
    scene.world.cloud.inject(fault("GET", 3, FaultEffect::StaleList));
    scene.world.cloud.inject(fault("POST", 1, FaultEffect::DropAfterEffect));
    scene.create("lagging", &spec()).await;
    let is_noted = |cluster: &OpenStackCluster| cluster.annotations().contains_key("capstan.dev/lost-calls");
    scene.until("lagging", "the lost call is noted", is_noted).await;
    // Another process goes on.
    let scene =
        Scene { controllers: Controllers::start(&scene.world, &Arc::new(CrashPoint::never())), ..scene };
    let cluster = scene.until("lagging", "the cluster is provisioned", is_provisioned).await;
    assert!(!is_noted(&cluster), "the call was answered by the look");
    assert_eq!(allocations(&scene), 1);
    scene.delete("lagging").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}

#[tokio::test]
async fn r2_6_a_call_that_had_no_effect_is_repeated_after_the_looks() {
    let scene = Scene::start().await;
    scene.world.cloud.inject(fault("POST", 1, FaultEffect::HtmlPage { code: 502 }));
    scene.create("repeated", &spec()).await;
    let is_held = |cluster: &OpenStackCluster| {
        let ready = cluster.condition("Ready");
        ready.is_some_and(|it| it.reason == "OutcomeUnknown" && it.message.contains("repeats the call at"))
    };
    scene.until("repeated", "the call is held back", is_held).await;
    assert_eq!(allocations(&scene), 1);
    scene.until("repeated", "the cluster is provisioned", is_provisioned).await;
    assert_eq!(allocations(&scene), 2);
    assert_eq!(scene.world.cloud.inventory("demo").floating_ips.len(), 1);
}

#[tokio::test]
async fn r2_6_a_deletion_looks_for_the_resource_of_a_lost_call_before_it_ends() {
    let scene = Scene::start().await;
    scene.world.cloud.inject(fault("GET", 3, FaultEffect::StaleList));
    scene.world.cloud.inject(fault("POST", 1, FaultEffect::DropAfterEffect));
    scene.create("brief", &spec()).await;
    let is_noted = |cluster: &OpenStackCluster| cluster.annotations().contains_key("capstan.dev/lost-calls");
    scene.until("brief", "the lost call is noted", is_noted).await;
    assert_eq!(scene.world.cloud.inventory("demo").floating_ips.len(), 1);
    scene.delete("brief").await;
    assert!(scene.world.cloud.inventory("demo").is_empty(), "{}", scene.world.counts());
}
