//! Suite cases about floating IPs.

use super::{World, ids, refused};
use crate::{ErrorClass, FloatingIpQuery, NewFloatingIp, TaggedKind};

pub(super) async fn floating_ips(world: World) {
    let cloud = &world.cloud;
    let site = world.site("floating", 6).await;
    let router = world.router("floating").await;
    cloud.add_router_interface(&router.id, &site.subnet.id).await.unwrap();
    let port = world.port(&site, "floating", 60).await;
    let new = NewFloatingIp {
        network_id: router.external_network_id.clone().unwrap(),
        description: world.name("floating"),
        ..NewFloatingIp::default()
    };
    let floating = cloud.create_floating_ip(&new).await.unwrap();
    assert_eq!((&floating.port_id, &floating.description), (&None, &new.description));
    cloud.set_tags(TaggedKind::FloatingIp, &floating.id, &["red".into()]).await.unwrap();
    cloud.associate_floating_ip(&floating.id, Some(&port.id)).await.unwrap();

    let described =
        FloatingIpQuery { description: Some(new.description.clone()), ..FloatingIpQuery::default() };
    let found = [
        FloatingIpQuery { address: Some(floating.address.clone()), ..FloatingIpQuery::default() },
        FloatingIpQuery { port_id: Some(port.id.clone()), ..FloatingIpQuery::default() },
        FloatingIpQuery { tags: vec!["red".into()], ..described.clone() },
        described.clone(),
    ];
    for query in found {
        let seen = cloud.floating_ips(&query).await.unwrap();
        assert_eq!(ids!(seen), [floating.id.as_str()], "{query:?}");
        assert_eq!(seen[0].port_id.as_deref(), Some(port.id.as_str()));
    }
    let blue = FloatingIpQuery { tags: vec!["blue".into()], ..described.clone() };
    assert_eq!(cloud.floating_ips(&blue).await.unwrap(), []);

    cloud.associate_floating_ip(&floating.id, None).await.unwrap();
    assert_eq!(cloud.floating_ips(&described).await.unwrap()[0].port_id, None);
    cloud.delete_floating_ip(&floating.id).await.unwrap();
    refused(cloud.delete_floating_ip(&floating.id).await, ErrorClass::NotFound);

    cloud.delete_port(&port.id).await.unwrap();
    cloud.remove_router_interface(&router.id, &site.subnet.id).await.unwrap();
    cloud.delete_router(&router.id).await.unwrap();
    world.clear(site).await;
}

pub(super) async fn stale(world: World) {
    let cloud = &world.cloud;
    let site = world.site("stale", 8).await;
    let router = world.router("stale").await;
    cloud.add_router_interface(&router.id, &site.subnet.id).await.unwrap();
    let ports = [world.port(&site, "stale-1", 81).await, world.port(&site, "stale-2", 82).await];
    let new = NewFloatingIp {
        network_id: router.external_network_id.clone().unwrap(),
        description: world.name("stale"),
        ..NewFloatingIp::default()
    };
    let read = cloud.create_floating_ip(&new).await.unwrap();
    assert!(read.revision.is_some(), "the cloud counts changes");
    let address = ports[0].fixed_ips[0].ip_address.clone();
    cloud.take_floating_ip(&read, &ports[0].id, address.as_deref()).await.unwrap();
    let error = refused(cloud.take_floating_ip(&read, &ports[1].id, None).await, ErrorClass::Conflict);
    assert_eq!(error.status, Some(412));
    cloud.delete_floating_ip(&read.id).await.unwrap();
    for port in ports {
        cloud.delete_port(&port.id).await.unwrap();
    }
    cloud.remove_router_interface(&router.id, &site.subnet.id).await.unwrap();
    cloud.delete_router(&router.id).await.unwrap();
    world.clear(site).await;
}
