//! Test fixture of a suite case: a network, a subnet and a port, and a server on them.

use super::{World, eventually};
use crate::{
    FixedIp, Image, ImageQuery, Network, NewNetwork, NewPort, NewServer, NewSubnet, Port, Server, Subnet,
};

/// Network with a subnet.
pub(super) struct Site {
    pub(super) network: Network,
    pub(super) subnet: Subnet,
}

impl World {
    /// Creates a network and a subnet. `octet` keeps addresses of different cases apart.
    pub(super) async fn site(&self, what: &str, octet: u8) -> Site {
        let new = NewNetwork { name: self.name(what), ..NewNetwork::default() };
        let network = self.cloud.create_network(&new).await.unwrap();
        let new = NewSubnet {
            name: self.name(what),
            network_id: network.id.clone(),
            cidr: format!("10.77.{octet}.0/24"),
            ..NewSubnet::default()
        };
        let subnet = self.cloud.create_subnet(&new).await.unwrap();
        Site { network, subnet }
    }

    /// Deletes a site. The subnet would be deleted with its network, too.
    pub(super) async fn clear(&self, site: Site) {
        self.cloud.delete_subnet(&site.subnet.id).await.unwrap();
        self.cloud.delete_network(&site.network.id).await.unwrap();
    }

    /// Creates a port with a given last octet.
    pub(super) async fn port(&self, site: &Site, what: &str, octet: u8) -> Port {
        let network = site.subnet.cidr.trim_end_matches("0/24");
        let address = FixedIp {
            subnet_id: Some(site.subnet.id.clone()),
            ip_address: Some(format!("{network}{octet}")),
        };
        let new = NewPort {
            name: self.name(what),
            network_id: site.network.id.clone(),
            fixed_ips: vec![address],
            ..NewPort::default()
        };
        self.cloud.create_port(&new).await.unwrap()
    }

    /// Finds the one image of a name.
    pub(super) async fn image(&self, name: &str) -> Image {
        let query = ImageQuery { name: Some(name.to_owned()), ..ImageQuery::default() };
        let mut found = self.cloud.images(&query).await.unwrap();
        assert_eq!(found.len(), 1, "images named {name}");
        found.remove(0)
    }

    /// Finds the id of a flavor.
    pub(super) async fn flavor(&self, name: &str) -> String {
        let flavors = self.cloud.flavors().await.unwrap();
        flavors.into_iter().find(|flavor| flavor.name == name).unwrap().id
    }

    /// Returns the least that a server needs.
    pub(super) async fn server(&self, what: &str, ports: Vec<String>) -> NewServer {
        NewServer {
            name: self.name(what),
            image_id: Some(self.image(&self.expected.image).await.id),
            flavor_id: self.flavor(&self.expected.flavor).await,
            ports,
            ..NewServer::default()
        }
    }

    /// Waits until a server is up.
    pub(super) async fn active(&self, id: &str) -> Server {
        let look = || async move {
            let server = self.cloud.server(id).await.unwrap();
            assert_ne!(server.status, "ERROR", "{:?}", server.fault);
            (server.status == "ACTIVE" && server.task_state.is_none()).then_some(server)
        };
        eventually("the server is ACTIVE", look).await
    }

    /// Deletes a server and waits until it is absent.
    pub(super) async fn remove_server(&self, id: &str) {
        self.cloud.delete_server(id).await.unwrap();
        let look = || async move { self.cloud.server(id).await.err() };
        let error = eventually("the server is gone", look).await;
        assert!(error.is_not_found(), "{error}");
    }
}
