//! Suite cases about load balancers. A cloud without Octavia has none, and passes.

use super::{World, eventually, ids, refused};
use crate::{
    Cloud, ErrorClass, LoadBalancer, LoadBalancerPart, LoadBalancerQuery, MonitorTimes, NewHealthMonitor,
    NewListener, NewLoadBalancer, NewMember, NewPool, Pool, TaggedKind,
};

/// Returns true if the cloud has a load-balancer service.
async fn offered(cloud: &dyn Cloud) -> bool {
    match cloud.load_balancer_providers().await {
        Ok(providers) => !providers.is_empty(),
        Err(error) => {
            assert!(error.message.contains("no \"load-balancer\" service"), "{error}");
            false
        }
    }
}

fn by_id(id: &str) -> LoadBalancerQuery {
    LoadBalancerQuery { id: Some(id.to_owned()), ..LoadBalancerQuery::default() }
}

/// Waits until no change of the load balancer is in progress.
async fn settled(cloud: &dyn Cloud, id: &str) -> LoadBalancer {
    let look = || async move {
        let found = cloud.load_balancers(&by_id(id)).await.unwrap().pop().unwrap();
        assert_ne!(found.provisioning_status, "ERROR", "{found:?}");
        (found.provisioning_status == "ACTIVE").then_some(found)
    };
    eventually("the load balancer is ACTIVE", look).await
}

/// Deletes the load balancer and waits until it is absent.
pub(super) async fn remove(cloud: &dyn Cloud, id: &str) {
    let look = || async move {
        let found = cloud.load_balancers(&by_id(id)).await.unwrap().pop();
        let pending = found.as_ref().is_some_and(|it| it.provisioning_status.starts_with("PENDING"));
        (!pending).then_some(found)
    };
    if eventually("no change of the load balancer is in progress", look).await.is_some() {
        cloud.delete_load_balancer(id).await.unwrap();
    }
    let look = || async move { cloud.load_balancers(&by_id(id)).await.unwrap().is_empty().then_some(()) };
    eventually("the load balancer is gone", look).await;
}

pub(super) async fn load_balancers(world: World) {
    let cloud = world.cloud.as_ref();
    if !offered(cloud).await {
        return;
    }
    let site = world.site("balancer", 8).await;
    let port = world.port(&site, "balancer", 40).await;
    let new = NewLoadBalancer {
        name: world.name("balancer"),
        description: "of the suite".into(),
        tags: vec!["red".into()],
        vip_port_id: Some(port.id.clone()),
        ..NewLoadBalancer::default()
    };
    let created = cloud.create_load_balancer(&new).await.unwrap();
    assert_eq!((&created.vip_port_id, &created.tags), (&port.id, &new.tags));
    let error = refused(cloud.delete_load_balancer(&created.id).await, ErrorClass::Conflict);
    assert!(error.message.contains("PENDING_CREATE"), "{error}");
    let active = settled(cloud, &created.id).await;
    assert_eq!(Some(&active.vip_address), port.fixed_ips[0].ip_address.as_ref());
    let found = [
        LoadBalancerQuery { name: Some(new.name.clone()), ..LoadBalancerQuery::default() },
        LoadBalancerQuery { vip_port_id: Some(port.id.clone()), ..LoadBalancerQuery::default() },
        by_id(&created.id),
    ];
    for query in found {
        let seen = cloud.load_balancers(&query).await.unwrap();
        assert_eq!(ids!(seen), [created.id.as_str()], "{query:?}");
    }
    parts(&world, &active, site.subnet.id.as_str()).await;
    remove(cloud, &created.id).await;
    refused(cloud.delete_load_balancer(&created.id).await, ErrorClass::NotFound);
    // A port that was named belongs to its owner.
    cloud.delete_port(&port.id).await.unwrap();
    world.clear(site).await;
}

/// Creates a pool while its listener is being created.
async fn early(cloud: &dyn Cloud, balancer: &str, pool: &NewPool) -> Pool {
    match cloud.create_pool(pool).await {
        // A real Octavia may have finished the listener before this call arrives.
        Ok(made) => made,
        early => {
            let early = refused(early, ErrorClass::Conflict);
            assert!(early.message.contains("is immutable and cannot be updated"), "{early}");
            settled(cloud, balancer).await;
            cloud.create_pool(pool).await.unwrap()
        }
    }
}

/// Adds, changes and removes the parts of a load balancer.
async fn parts(world: &World, balancer: &LoadBalancer, subnet: &str) {
    let (cloud, id) = (world.cloud.as_ref(), balancer.id.as_str());
    let listener = NewListener {
        load_balancer_id: id.to_owned(),
        name: world.name("listener"),
        tags: vec!["red".into()],
        protocol_port: 6443,
        ..NewListener::default()
    };
    let listener = cloud.create_listener(&listener).await.unwrap();
    let pool = NewPool {
        listener_id: listener.id.clone(),
        name: world.name("pool"),
        algorithm: "ROUND_ROBIN".into(),
        ..NewPool::default()
    };
    let pool = early(cloud, id, &pool).await;
    settled(cloud, id).await;
    monitor(world, id, &pool.id).await;
    members(world, balancer, subnet, (&listener.id, &pool.id)).await;
    let cidrs = ["192.0.2.0/24".to_owned()];
    cloud.set_allowed_cidrs(&listener.id, &cidrs).await.unwrap();
    settled(cloud, id).await;
    let seen = cloud.listeners(id).await.unwrap();
    assert_eq!((seen[0].allowed_cidrs.as_slice(), seen[0].protocol_port), (cidrs.as_slice(), 6443));
    assert_eq!(seen[0].default_pool_id.as_deref(), Some(pool.id.as_str()));
    cloud.set_idle_timeout(&listener.id, 600_000).await.unwrap();
    settled(cloud, id).await;
    let seen = cloud.listeners(id).await.unwrap();
    assert_eq!((seen[0].idle_timeout, seen[0].member_timeout), (Some(600_000), Some(600_000)));
    cloud.set_tags(TaggedKind::LoadBalancer, id, &["blue".into()]).await.unwrap();
    assert_eq!(settled(cloud, id).await.tags, ["blue"]);
    cloud.set_pool_algorithm(&pool.id, "LEAST_CONNECTIONS").await.unwrap();
    settled(cloud, id).await;
    assert_eq!(cloud.pools(id).await.unwrap()[0].algorithm, "LEAST_CONNECTIONS");
    cloud.delete_listener(&listener.id).await.unwrap();
    settled(cloud, id).await;
    cloud.delete_pool(&pool.id).await.unwrap();
    settled(cloud, id).await;
    assert_eq!(cloud.pools(id).await.unwrap(), []);
}

/// Adds, drains and removes the members of a pool.
async fn members(world: &World, balancer: &LoadBalancer, subnet: &str, (listener, pool): (&str, &str)) {
    let (cloud, id) = (world.cloud.as_ref(), balancer.id.as_str());
    let member = NewMember {
        name: world.name("member"),
        address: balancer.vip_address.replace(".40", ".41"),
        protocol_port: 6443,
        subnet_id: Some(subnet.to_owned()),
        ..NewMember::default()
    };
    let made = cloud.create_member(pool, &member).await.unwrap();
    settled(cloud, id).await;
    refused(cloud.create_member(pool, &member).await, ErrorClass::Conflict);
    let seen = cloud.members(pool).await.unwrap();
    assert_eq!((ids!(seen), &seen[0].address), (vec![made.id.as_str()], &member.address));
    assert_eq!(seen[0].weight, 1);
    set_again(world, id, (listener, pool, &made.id)).await;
    assert_eq!(cloud.members(pool).await.unwrap()[0].weight, 1);
    cloud.drain_member(pool, &made.id).await.unwrap();
    settled(cloud, id).await;
    let drained = cloud.members(pool).await.unwrap();
    assert_eq!(drained[0].weight, 0);
    assert!(drained[0].changed_at.ends_with('Z'), "{:?}", drained[0]);
    let further = |end: &str| NewMember {
        name: world.name(end),
        address: balancer.vip_address.replace(".40", end),
        ..member.clone()
    };
    let added = cloud.create_members(pool, &[further(".42"), further(".43")]).await.unwrap();
    settled(cloud, id).await;
    assert_eq!(cloud.members(pool).await.unwrap().len(), 1 + added, "the others stay");
    for more in cloud.members(pool).await.unwrap().iter().filter(|it| it.id != made.id) {
        cloud.delete_member(pool, &more.id).await.unwrap();
        settled(cloud, id).await;
    }
    cloud.delete_member(pool, &made.id).await.unwrap();
    settled(cloud, id).await;
    assert_eq!(cloud.members(pool).await.unwrap(), []);
}

/// Sets the values of a listener, a pool and a member again, which changes nothing.
async fn set_again(world: &World, balancer: &str, (listener, pool, member): (&str, &str, &str)) {
    for part in [
        LoadBalancerPart::Listener(listener.to_owned()),
        LoadBalancerPart::Pool(pool.to_owned()),
        LoadBalancerPart::Member { pool: pool.to_owned(), id: member.to_owned() },
    ] {
        world.cloud.set_load_balancer_part_again(&part).await.unwrap();
        settled(world.cloud.as_ref(), balancer).await;
    }
}

async fn monitor(world: &World, balancer: &str, pool: &str) {
    let cloud = world.cloud.as_ref();
    let times = MonitorTimes { delay: 10, timeout: 5, max_retries: 5, max_retries_down: 3 };
    let new = NewHealthMonitor {
        pool_id: pool.to_owned(),
        name: world.name("monitor"),
        times,
        ..NewHealthMonitor::default()
    };
    let monitor = cloud.create_health_monitor(&new).await.unwrap();
    settled(cloud, balancer).await;
    let times = MonitorTimes { delay: 20, ..new.times };
    cloud.update_health_monitor(&monitor.id, &times).await.unwrap();
    settled(cloud, balancer).await;
    let part = LoadBalancerPart::HealthMonitor(monitor.id.clone());
    cloud.set_load_balancer_part_again(&part).await.unwrap();
    settled(cloud, balancer).await;
    let pools = cloud.pools(balancer).await.unwrap();
    assert_eq!(pools[0].health_monitor_id.as_deref(), Some(monitor.id.as_str()));
    assert_eq!(cloud.health_monitor(&monitor.id).await.unwrap().times, times);
    cloud.delete_health_monitor(&monitor.id).await.unwrap();
    settled(cloud, balancer).await;
}

pub(super) async fn refusals(world: World) {
    let cloud = world.cloud.as_ref();
    if !offered(cloud).await {
        return;
    }
    refused(cloud.delete_load_balancer(super::UNKNOWN_ID).await, ErrorClass::NotFound);
    refused(cloud.delete_listener(super::UNKNOWN_ID).await, ErrorClass::NotFound);
    refused(cloud.members(super::UNKNOWN_ID).await, ErrorClass::NotFound);
    refused(cloud.health_monitor(super::UNKNOWN_ID).await, ErrorClass::NotFound);
    let new = NewLoadBalancer { name: world.name("nowhere"), ..NewLoadBalancer::default() };
    refused(cloud.create_load_balancer(&new).await, ErrorClass::Invalid);
}
