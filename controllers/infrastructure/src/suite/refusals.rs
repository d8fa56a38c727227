//! Suite cases about the errors of clouds, and their classes.

use super::{UNKNOWN_ID, World, refused};
use crate::{
    CloudResult, ErrorClass, NewFloatingIp, NewPort, NewServer, NewSubnet, PortUpdate, PowerState,
    RebootKind, Rebuild, TaggedKind,
};

pub(super) async fn not_found(world: World) {
    let cloud = &world.cloud;
    let rebuild = Rebuild { image_id: world.image(&world.expected.image).await.id, ..Rebuild::default() };
    let answers: Vec<CloudResult<()>> = vec![
        cloud.server(UNKNOWN_ID).await.map(drop),
        cloud.delete_server(UNKNOWN_ID).await,
        cloud.reboot_server(UNKNOWN_ID, RebootKind::Soft).await.map(drop),
        cloud.set_power_state(UNKNOWN_ID, PowerState::Off).await.map(drop),
        cloud.set_power_state(UNKNOWN_ID, PowerState::On).await.map(drop),
        cloud.rebuild_server(UNKNOWN_ID, &rebuild).await.map(drop),
        cloud.actions(UNKNOWN_ID).await.map(drop),
        cloud.action(UNKNOWN_ID, "req-1").await.map(drop),
        cloud.detach_volume(UNKNOWN_ID, UNKNOWN_ID).await,
        cloud.volume(UNKNOWN_ID).await.map(drop),
        cloud.delete_volume(UNKNOWN_ID).await,
        cloud.delete_network(UNKNOWN_ID).await,
        cloud.delete_subnet(UNKNOWN_ID).await,
        cloud.set_dns_nameservers(UNKNOWN_ID, &[]).await,
        cloud.delete_router(UNKNOWN_ID).await,
        cloud.add_router_interface(UNKNOWN_ID, UNKNOWN_ID).await,
        cloud.delete_security_group(UNKNOWN_ID).await,
        cloud.delete_security_group_rule(UNKNOWN_ID).await,
        cloud.delete_port(UNKNOWN_ID).await,
        cloud
            .update_port(UNKNOWN_ID, &PortUpdate { security_groups: Some(vec![]), ..PortUpdate::default() })
            .await
            .map(drop),
        cloud.delete_floating_ip(UNKNOWN_ID).await,
        cloud.associate_floating_ip(UNKNOWN_ID, None).await,
        cloud.set_tags(TaggedKind::Port, UNKNOWN_ID, &[]).await,
    ];
    for answer in answers {
        let error = refused(answer, ErrorClass::NotFound);
        assert_eq!(error.status, Some(404), "{error:?}");
        assert!(error.request_id.is_some(), "{error:?}");
    }
    let on_nothing = NewPort { name: world.name("x"), network_id: UNKNOWN_ID.into(), ..NewPort::default() };
    refused(cloud.create_port(&on_nothing).await, ErrorClass::NotFound);
    let on_nothing = NewSubnet {
        name: world.name("x"),
        network_id: UNKNOWN_ID.into(),
        cidr: "10.77.0.0/24".into(),
        ..NewSubnet::default()
    };
    refused(cloud.create_subnet(&on_nothing).await, ErrorClass::NotFound);
}

/// An empty id in a path names the collection: `DELETE /servers/`.
pub(super) async fn empty_ids(world: World) {
    let cloud = &world.cloud;
    for id in ["", "..", "../servers"] {
        refused(cloud.server(id).await, ErrorClass::NotFound);
        refused(cloud.delete_server(id).await, ErrorClass::NotFound);
        refused(cloud.delete_network(id).await, ErrorClass::NotFound);
        refused(cloud.delete_volume(id).await, ErrorClass::NotFound);
    }
}

pub(super) async fn invalid(world: World) {
    let cloud = &world.cloud;
    let good = world.server("invalid", Vec::new()).await;
    let bad = [
        NewServer { availability_zone: Some("atlantis".into()), ..good.clone() },
        NewServer { flavor_id: "nobody".into(), ..good.clone() },
        NewServer { image_id: Some(UNKNOWN_ID.into()), ..good.clone() },
        NewServer { ports: vec![UNKNOWN_ID.into()], ..good.clone() },
        NewServer { key_name: Some("nobody".into()), ..good.clone() },
        NewServer { image_id: None, ..good.clone() },
        NewServer { name: String::new(), ..good },
    ];
    for new in bad {
        let error = refused(cloud.create_server(&new).await, ErrorClass::Invalid);
        assert_eq!(error.operation, "POST /servers");
    }
    let inside = world.site("invalid", 9).await;
    let new = NewFloatingIp {
        network_id: inside.network.id.clone(),
        description: world.name("invalid"),
        ..NewFloatingIp::default()
    };
    refused(cloud.create_floating_ip(&new).await, ErrorClass::Invalid);
    let overlapping = NewSubnet {
        name: world.name("overlapping"),
        network_id: inside.network.id.clone(),
        cidr: "10.77.9.0/25".into(),
        ..NewSubnet::default()
    };
    refused(cloud.create_subnet(&overlapping).await, ErrorClass::Invalid);
    world.clear(inside).await;
}

pub(super) async fn in_use(world: World) {
    let cloud = &world.cloud;
    let site = world.site("in-use", 10).await;
    let group = cloud.create_security_group(&world.name("in-use"), "").await.unwrap();
    let new = NewPort {
        name: world.name("in-use"),
        network_id: site.network.id.clone(),
        security_groups: Some(vec![group.id.clone()]),
        ..NewPort::default()
    };
    let port = cloud.create_port(&new).await.unwrap();
    refused(cloud.delete_security_group(&group.id).await, ErrorClass::Conflict);
    refused(cloud.delete_subnet(&site.subnet.id).await, ErrorClass::Conflict);
    refused(cloud.delete_network(&site.network.id).await, ErrorClass::Conflict);
    cloud.delete_port(&port.id).await.unwrap();
    cloud.delete_security_group(&group.id).await.unwrap();
    world.clear(site).await;
}
