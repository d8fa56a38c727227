//! Suite cases about networks and subnets.

use super::{UNKNOWN_ID, World, ids};
use crate::{NetworkQuery, NewNetwork, NewSubnet, SubnetQuery, TagQuery, TaggedKind};

pub(super) async fn networks(world: World) {
    let cloud = &world.cloud;
    let new = NewNetwork {
        name: world.name("network"),
        description: "made by the suite".into(),
        ..NewNetwork::default()
    };
    let network = cloud.create_network(&new).await.unwrap();
    assert_eq!((&network.name, &network.description), (&new.name, &new.description));
    assert!(!network.external && network.subnets.is_empty() && network.tags.is_empty());
    let tags = vec!["red".to_owned(), "round".to_owned()];
    cloud.set_tags(TaggedKind::Network, &network.id, &tags).await.unwrap();

    let named = NetworkQuery { name: Some(new.name.clone()), ..NetworkQuery::default() };
    let found = [
        NetworkQuery { id: Some(network.id.clone()), ..NetworkQuery::default() },
        NetworkQuery { description: Some(new.description.clone()), ..named.clone() },
        NetworkQuery { external: Some(false), ..named.clone() },
    ];
    for query in
        found.into_iter().chain(tag_queries(true).map(|tagged| NetworkQuery { tagged, ..named.clone() }))
    {
        assert_eq!(ids!(cloud.networks(&query).await.unwrap()), [network.id.as_str()], "{query:?}");
    }
    let none = [
        NetworkQuery { id: Some(UNKNOWN_ID.into()), ..NetworkQuery::default() },
        NetworkQuery { name: Some(format!("{}x", new.name)), ..NetworkQuery::default() },
        NetworkQuery { description: Some("another".into()), ..named.clone() },
        NetworkQuery { external: Some(true), ..named.clone() },
        NetworkQuery { project_id: Some(UNKNOWN_ID.into()), ..named.clone() },
    ];
    for query in
        none.into_iter().chain(tag_queries(false).map(|tagged| NetworkQuery { tagged, ..named.clone() }))
    {
        assert_eq!(cloud.networks(&query).await.unwrap(), [], "{query:?}");
    }
    let mut seen = cloud.networks(&named).await.unwrap().remove(0).tags;
    seen.sort();
    assert_eq!(seen, tags);
    cloud.set_tags(TaggedKind::Network, &network.id, &[]).await.unwrap();
    assert!(cloud.networks(&named).await.unwrap().remove(0).tags.is_empty(), "the tags were not replaced");
    cloud.delete_network(&network.id).await.unwrap();
    assert_eq!(cloud.networks(&named).await.unwrap(), []);
}

/// Tag filters that match (or not) a resource with the tags `red` and `round`.
pub(super) fn tag_queries(matching: bool) -> impl Iterator<Item = TagQuery> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let matches = [
        TagQuery { tags: words(&["red"]), ..TagQuery::default() },
        TagQuery { tags: words(&["red", "round"]), ..TagQuery::default() },
        TagQuery { tags_any: words(&["red", "blue"]), ..TagQuery::default() },
        TagQuery { not_tags: words(&["red", "blue"]), ..TagQuery::default() },
        TagQuery { not_tags_any: words(&["blue", "square"]), ..TagQuery::default() },
    ];
    let differs = [
        TagQuery { tags: words(&["red", "blue"]), ..TagQuery::default() },
        TagQuery { tags_any: words(&["blue", "square"]), ..TagQuery::default() },
        TagQuery { not_tags: words(&["red", "round"]), ..TagQuery::default() },
        TagQuery { not_tags_any: words(&["red", "blue"]), ..TagQuery::default() },
    ];
    let wanted = if matching { matches.to_vec() } else { differs.to_vec() };
    wanted.into_iter()
}

pub(super) async fn subnets(world: World) {
    let cloud = &world.cloud;
    let site = world.site("subnet", 1).await;
    let (id, named) =
        (&site.subnet.id, SubnetQuery { name: Some(site.subnet.name.clone()), ..SubnetQuery::default() });
    assert_eq!(site.subnet.gateway_ip.as_deref(), Some("10.77.1.1"));
    let tags = ["red".to_owned(), "round".to_owned()];
    cloud.set_tags(TaggedKind::Subnet, id, &tags).await.unwrap();
    let found = [
        SubnetQuery { id: Some(id.clone()), ..SubnetQuery::default() },
        SubnetQuery { network_id: Some(site.network.id.clone()), ..SubnetQuery::default() },
        SubnetQuery { cidr: Some("10.77.1.0/24".into()), ..named.clone() },
        SubnetQuery { gateway_ip: Some("10.77.1.1".into()), ..named.clone() },
        SubnetQuery { ip_version: Some(4), ..named.clone() },
        SubnetQuery { description: Some(String::new()), ..named.clone() },
    ];
    for query in
        found.into_iter().chain(tag_queries(true).map(|tagged| SubnetQuery { tagged, ..named.clone() }))
    {
        assert_eq!(ids!(cloud.subnets(&query).await.unwrap()), [id.as_str()], "{query:?}");
    }
    let none = [
        SubnetQuery { network_id: Some(UNKNOWN_ID.into()), ..SubnetQuery::default() },
        SubnetQuery { cidr: Some("10.77.0.0/16".into()), ..named.clone() },
        SubnetQuery { gateway_ip: Some("10.77.1.2".into()), ..named.clone() },
        SubnetQuery { ip_version: Some(6), ..named.clone() },
        SubnetQuery { ipv6_ra_mode: Some("slaac".into()), ..named.clone() },
        SubnetQuery { project_id: Some(UNKNOWN_ID.into()), ..named.clone() },
    ];
    for query in
        none.into_iter().chain(tag_queries(false).map(|tagged| SubnetQuery { tagged, ..named.clone() }))
    {
        assert_eq!(cloud.subnets(&query).await.unwrap(), [], "{query:?}");
    }
    cloud.set_dns_nameservers(id, &["9.9.9.9".into(), "1.1.1.1".into()]).await.unwrap();
    let seen = cloud.subnets(&named).await.unwrap().remove(0).dns_nameservers;
    assert!(seen.len() == 2 && seen.contains(&"9.9.9.9".to_owned()), "{seen:?}");
    let network = NetworkQuery { id: Some(site.network.id.clone()), ..NetworkQuery::default() };
    assert_eq!(cloud.networks(&network).await.unwrap().remove(0).subnets, [id.as_str()]);
    world.clear(site).await;
}

pub(super) async fn pools(world: World) {
    let cloud = &world.cloud;
    let new = NewNetwork { name: world.name("pools"), ..NewNetwork::default() };
    let network = cloud.create_network(&new).await.unwrap();
    let new = NewSubnet {
        slaac: false,
        name: world.name("pools"),
        description: "two addresses".into(),
        network_id: network.id.clone(),
        cidr: "10.77.2.0/24".into(),
        dns_nameservers: vec!["9.9.9.9".into()],
        allocation_pools: vec![("10.77.2.40".into(), "10.77.2.41".into())],
    };
    let subnet = cloud.create_subnet(&new).await.unwrap();
    assert_eq!((&subnet.description, &subnet.dns_nameservers), (&new.description, &new.dns_nameservers));
    let site = super::site::Site { network, subnet };
    let port = crate::NewPort {
        name: world.name("pools"),
        network_id: site.network.id.clone(),
        ..crate::NewPort::default()
    };
    let port = cloud.create_port(&port).await.unwrap();
    let address = port.fixed_ips[0].ip_address.clone().unwrap();
    assert!(["10.77.2.40", "10.77.2.41"].contains(&address.as_str()), "{address}");
    let wider = [("10.77.2.40".to_owned(), "10.77.2.60".to_owned())];
    cloud.set_allocation_pools(&site.subnet.id, &wider).await.unwrap();
    let query = SubnetQuery { id: Some(site.subnet.id.clone()), ..SubnetQuery::default() };
    assert_eq!(cloud.subnets(&query).await.unwrap()[0].allocation_pools, wider);
    cloud.delete_port(&port.id).await.unwrap();
    world.clear(site).await;
}
