//! Suite cases about routers.

use super::{UNKNOWN_ID, World, ids, networks::tag_queries, refused};
use crate::{ErrorClass, NetworkQuery, NewRouter, PortQuery, TaggedKind};

impl World {
    /// Creates a router to the external network.
    pub(super) async fn router(&self, what: &str) -> crate::Router {
        let query =
            NetworkQuery { name: Some(self.expected.external_network.clone()), ..NetworkQuery::default() };
        let outside = self.cloud.networks(&query).await.unwrap().remove(0);
        let new = NewRouter {
            name: self.name(what),
            description: "made by the suite".into(),
            external_network_id: Some(outside.id),
            ..NewRouter::default()
        };
        self.cloud.create_router(&new).await.unwrap()
    }
}

pub(super) async fn routers(world: World) {
    let cloud = &world.cloud;
    let site = world.site("router", 3).await;
    let router = world.router("router").await;
    assert!(router.external_network_id.is_some() && router.external_ips.len() == 1, "{router:?}");
    let tags = ["red".to_owned(), "round".to_owned()];
    cloud.set_tags(TaggedKind::Router, &router.id, &tags).await.unwrap();
    let named = NetworkQuery { name: Some(router.name.clone()), ..NetworkQuery::default() };
    for tagged in tag_queries(true) {
        let query = NetworkQuery { description: Some("made by the suite".into()), tagged, ..named.clone() };
        assert_eq!(ids!(cloud.routers(&query).await.unwrap()), [router.id.as_str()], "{query:?}");
    }
    for tagged in tag_queries(false) {
        let query = NetworkQuery { tagged, ..named.clone() };
        assert_eq!(cloud.routers(&query).await.unwrap(), [], "{query:?}");
    }

    let outside = router.external_network_id.clone().unwrap();
    let same = cloud.set_router_gateway(&router.id, &outside, &[]).await.unwrap();
    assert_eq!((&same.id, &same.external_ips), (&router.id, &router.external_ips), "the address changed");
    refused(cloud.set_router_gateway(UNKNOWN_ID, &outside, &[]).await, ErrorClass::NotFound);

    cloud.add_router_interface(&router.id, &site.subnet.id).await.unwrap();
    let attached = PortQuery { device_id: Some(router.id.clone()), ..PortQuery::default() };
    let ports = cloud.ports(&attached).await.unwrap();
    assert_eq!(ports[0].network_id, site.network.id);
    refused(cloud.add_router_interface(&router.id, &site.subnet.id).await, ErrorClass::Conflict);
    refused(cloud.delete_router(&router.id).await, ErrorClass::Conflict);
    refused(cloud.delete_subnet(&site.subnet.id).await, ErrorClass::Conflict);

    let gateway = ports[0].fixed_ips[0].ip_address.clone().unwrap();
    let (prefix, _) = gateway.rsplit_once('.').unwrap();
    let next = [("192.0.2.0/24".to_owned(), format!("{prefix}.9"))];
    cloud.set_routes(&router.id, &next).await.unwrap();
    assert_eq!(cloud.routers(&named).await.unwrap()[0].routes, next);
    let error =
        refused(cloud.remove_router_interface(&router.id, &site.subnet.id).await, ErrorClass::Conflict);
    assert!(error.message.contains("required by one or more routes"), "{error}");
    let other = ("198.51.100.0/24".to_owned(), format!("{prefix}.9"));
    cloud.set_routes(&router.id, &[next[0].clone(), other.clone()]).await.unwrap();
    let absent = ("203.0.113.0/24".to_owned(), format!("{prefix}.9"));
    cloud.remove_routes(&router.id, &[next[0].clone(), absent]).await.unwrap();
    assert_eq!(cloud.routers(&named).await.unwrap()[0].routes, [other]);
    cloud.set_routes(&router.id, &[]).await.unwrap();
    assert!(cloud.routers(&named).await.unwrap()[0].routes.is_empty());

    cloud.remove_router_interface(&router.id, &site.subnet.id).await.unwrap();
    refused(cloud.remove_router_interface(&router.id, &site.subnet.id).await, ErrorClass::NotFound);
    cloud.delete_router(&router.id).await.unwrap();
    assert_eq!(cloud.routers(&named).await.unwrap(), []);
    world.clear(site).await;
}
