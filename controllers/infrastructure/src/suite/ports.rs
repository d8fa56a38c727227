//! Suite cases about ports.

use super::{UNKNOWN_ID, World, ids, refused};
use crate::{
    AddressPair, ErrorClass, FixedIp, NewPort, NewTrunk, PortQuery, PortUpdate, TaggedKind, TrunkQuery,
};

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

pub(super) async fn trunks(world: World) {
    let cloud = &world.cloud;
    let extensions = cloud.network_extensions().await.unwrap();
    assert!(extensions.iter().any(|alias| alias == "router"), "{extensions:?}");
    if !extensions.iter().any(|alias| alias == "trunk") {
        return;
    }
    let site = world.site("trunk", 9).await;
    let port = world.port(&site, "trunk", 90).await;
    let new = NewTrunk {
        name: world.name("trunk"),
        description: "made by the suite".into(),
        port_id: port.id.clone(),
    };
    let trunk = cloud.create_trunk(&new).await.unwrap();
    assert_eq!((&trunk.name, &trunk.description, &trunk.port_id), (&new.name, &new.description, &port.id));
    refused(cloud.create_trunk(&new).await, ErrorClass::Conflict);
    cloud.set_tags(TaggedKind::Trunk, &trunk.id, &["red".into()]).await.unwrap();
    let found = [
        TrunkQuery { name: Some(new.name.clone()), ..TrunkQuery::default() },
        TrunkQuery { port_id: Some(port.id.clone()), ..TrunkQuery::default() },
    ];
    for query in found {
        let seen = cloud.trunks(&query).await.unwrap();
        assert_eq!(ids!(seen), [trunk.id.as_str()], "{query:?}");
        assert_eq!((&seen[0].tags, &seen[0].subports), (&vec!["red".to_owned()], &Vec::new()));
    }
    refused(cloud.delete_port(&port.id).await, ErrorClass::Conflict);
    cloud.delete_trunk(&trunk.id).await.unwrap();
    refused(cloud.delete_trunk(&trunk.id).await, ErrorClass::NotFound);
    cloud.delete_port(&port.id).await.unwrap();
    world.clear(site).await;
}
