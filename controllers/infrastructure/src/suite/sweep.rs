//! Cleanup of the suite: deletes the resources that a run has not deleted.

use super::{World, eventually};
use crate::{
    Cloud, CloudResult, FloatingIpQuery, LoadBalancerQuery, NetworkQuery, PortQuery, SecurityGroupQuery,
    SubnetQuery,
};

/// Deletes every resource of this run, and returns their names.
pub(super) async fn sweep(world: &World) -> Vec<String> {
    let cloud = world.cloud.as_ref();
    let mut left = servers(cloud, &world.prefix).await;
    left.extend(load_balancers(cloud, &world.prefix).await);
    left.extend(networking(cloud, &world.prefix).await);
    let names = world.names.lock().unwrap().clone();
    for name in names {
        for volume in cloud.volumes_named(&name).await.unwrap() {
            if volume.status != "deleting" {
                left.push(format!("volume {name}"));
                gone(cloud.delete_volume(&volume.id).await);
            }
            let id = volume.id.as_str();
            eventually("the volume is gone", || async move { cloud.volume(id).await.err() }).await;
        }
    }
    world.names.lock().unwrap().clear();
    left
}

async fn servers(cloud: &dyn Cloud, prefix: &str) -> Vec<String> {
    let mut left = Vec::new();
    for server in cloud.servers().await.unwrap().iter().filter(|server| server.name.starts_with(prefix)) {
        left.push(format!("server {}", server.name));
        gone(cloud.delete_server(&server.id).await);
        let id = server.id.as_str();
        eventually("the server is gone", || async move { cloud.server(id).await.err() }).await;
    }
    left
}

async fn load_balancers(cloud: &dyn Cloud, prefix: &str) -> Vec<String> {
    let mut left = Vec::new();
    // A cloud without Octavia has none.
    let found = cloud.load_balancers(&LoadBalancerQuery::default()).await.unwrap_or_default();
    for one in found.iter().filter(|one| one.name.starts_with(prefix)) {
        left.push(format!("load balancer {}", one.name));
        super::load_balancers::remove(cloud, &one.id).await;
    }
    left
}

async fn networking(cloud: &dyn Cloud, prefix: &str) -> Vec<String> {
    let mut left = Vec::new();
    for one in cloud.floating_ips(&FloatingIpQuery::default()).await.unwrap() {
        if one.description.starts_with(prefix) {
            left.push(format!("floating IP {}", one.description));
            gone(cloud.delete_floating_ip(&one.id).await);
        }
    }
    left.extend(routers(cloud, prefix).await);
    for one in cloud.ports(&PortQuery::default()).await.unwrap() {
        if one.name.starts_with(prefix) {
            left.push(format!("port {}", one.name));
            gone(cloud.delete_port(&one.id).await);
        }
    }
    for one in cloud.networks(&NetworkQuery::default()).await.unwrap() {
        if one.name.starts_with(prefix) {
            left.push(format!("network {}", one.name));
            gone(cloud.delete_network(&one.id).await);
        }
    }
    for one in cloud.security_groups(&SecurityGroupQuery::default()).await.unwrap() {
        if one.name.starts_with(prefix) {
            left.push(format!("security group {}", one.name));
            gone(cloud.delete_security_group(&one.id).await);
        }
    }
    left
}

async fn routers(cloud: &dyn Cloud, prefix: &str) -> Vec<String> {
    let mut left = Vec::new();
    for router in cloud.routers(&NetworkQuery::default()).await.unwrap() {
        if !router.name.starts_with(prefix) {
            continue;
        }
        left.push(format!("router {}", router.name));
        for subnet in cloud.subnets(&SubnetQuery::default()).await.unwrap() {
            if subnet.name.starts_with(prefix) {
                // Most of them are not connected to this router.
                drop(cloud.remove_router_interface(&router.id, &subnet.id).await);
            }
        }
        gone(cloud.delete_router(&router.id).await);
    }
    left
}

fn gone(result: CloudResult<()>) {
    match result {
        Ok(()) => {}
        Err(error) if error.is_not_found() => {}
        Err(error) => panic!("{error}"),
    }
}
