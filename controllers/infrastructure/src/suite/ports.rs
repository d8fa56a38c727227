//! Suite cases about ports.

use super::{UNKNOWN_ID, World, ids, refused};
use crate::{AddressPair, ErrorClass, FixedIp, NewPort, PortQuery, PortUpdate, TaggedKind};

pub(super) async fn ports(world: World) {
    let cloud = &world.cloud;
    let site = world.site("port", 4).await;
    let group = cloud.create_security_group(&world.name("port"), "").await.unwrap();
    let pair = AddressPair { ip_address: "10.77.4.200".into(), ..AddressPair::default() };
    let new = NewPort {
        name: world.name("port"),
        description: "made by the suite".into(),
        network_id: site.network.id.clone(),
        security_groups: Some(vec![group.id.clone()]),
        allowed_address_pairs: vec![pair.clone()],
        ..NewPort::default()
    };
    let port = cloud.create_port(&new).await.unwrap();
    assert_eq!(
        (&port.name, &port.description, &port.device_id),
        (&new.name, &new.description, &String::new())
    );
    assert_eq!(port.security_groups, std::slice::from_ref(&group.id));
    assert_eq!(port.fixed_ips[0].subnet_id.as_deref(), Some(site.subnet.id.as_str()));
    let addresses: Vec<_> = port.allowed_address_pairs.iter().map(|pair| &pair.ip_address).collect();
    assert_eq!(addresses, [&pair.ip_address]);

    cloud.set_tags(TaggedKind::Port, &port.id, &["red".into(), "round".into()]).await.unwrap();
    let found = [
        PortQuery { id: Some(port.id.clone()), ..PortQuery::default() },
        PortQuery { name: Some(new.name.clone()), ..PortQuery::default() },
        PortQuery {
            name: Some(new.name.clone()),
            network_id: Some(site.network.id.clone()),
            ..PortQuery::default()
        },
        PortQuery {
            name: Some(new.name.clone()),
            tags: vec!["red".into(), "round".into()],
            ..PortQuery::default()
        },
    ];
    for query in found {
        assert_eq!(ids!(cloud.ports(&query).await.unwrap()), [port.id.as_str()], "{query:?}");
    }
    let none = [
        PortQuery { id: Some(UNKNOWN_ID.into()), ..PortQuery::default() },
        PortQuery { device_id: Some(UNKNOWN_ID.into()), ..PortQuery::default() },
        PortQuery { name: Some(new.name.clone()), tags: vec!["blue".into()], ..PortQuery::default() },
    ];
    for query in none {
        assert_eq!(cloud.ports(&query).await.unwrap(), [], "{query:?}");
    }

    let change = PortUpdate { allowed_address_pairs: Some(Vec::new()), ..PortUpdate::default() };
    let changed = cloud.update_port(&port.id, &change).await.unwrap();
    assert_eq!((changed.allowed_address_pairs, changed.security_groups), (vec![], vec![group.id.clone()]));
    let change = PortUpdate { security_groups: Some(Vec::new()), ..PortUpdate::default() };
    assert_eq!(cloud.update_port(&port.id, &change).await.unwrap().security_groups, Vec::<String>::new());
    cloud.delete_port(&port.id).await.unwrap();
    cloud.delete_security_group(&group.id).await.unwrap();
    world.clear(site).await;
}

pub(super) async fn addresses(world: World) {
    let cloud = &world.cloud;
    let site = world.site("address", 5).await;
    let port = world.port(&site, "address", 50).await;
    assert_eq!(port.fixed_ips[0].ip_address.as_deref(), Some("10.77.5.50"));
    let at = |address: &str| NewPort {
        name: world.name("address"),
        network_id: site.network.id.clone(),
        fixed_ips: vec![FixedIp { ip_address: Some(address.into()), ..FixedIp::default() }],
        ..NewPort::default()
    };
    refused(cloud.create_port(&at("10.77.5.50")).await, ErrorClass::Conflict);
    refused(cloud.create_port(&at("10.99.0.1")).await, ErrorClass::Invalid);
    refused(cloud.create_port(&at("no address")).await, ErrorClass::Invalid);
    cloud.delete_port(&port.id).await.unwrap();
    world.clear(site).await;
}
