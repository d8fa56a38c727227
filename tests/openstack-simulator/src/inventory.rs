//! What a project has, seen from outside: the question that leak checks ask.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::neutron::Kind;
use crate::object::text;
use crate::state::State;

/// One thing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// Its name; empty for what has none.
    pub name: String,
}

/// Everything that a project has made and not deleted, by kind. What was there at the start, the
/// default security group and all rules are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// Servers, those being deleted included.
    pub servers: Vec<Item>,
    /// Server groups.
    pub server_groups: Vec<Item>,
    /// Volumes, those being deleted included.
    pub volumes: Vec<Item>,
    /// Key pairs of the project's user.
    pub key_pairs: Vec<Item>,
    /// Networks.
    pub networks: Vec<Item>,
    /// Subnets.
    pub subnets: Vec<Item>,
    /// Ports, those of servers and routers included.
    pub ports: Vec<Item>,
    /// Routers.
    pub routers: Vec<Item>,
    /// Security groups.
    pub security_groups: Vec<Item>,
    /// Floating IPs, by address.
    pub floating_ips: Vec<Item>,
    /// The user data of each server as it was given, by server id. Users cannot read it back.
    pub user_data: BTreeMap<String, String>,
}

impl Inventory {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The inventory of the project called `project`; empty if there is none.
    pub(crate) fn of(state: &State, project: &str) -> Self {
        let Some(project) = state.project(project) else { return Self::default() };
        let id = project.id.as_str();
        let item = |id: &str, name: &str| Item { id: id.to_owned(), name: name.to_owned() };
        let objects = |kind: Kind, name: &str| -> Vec<Item> {
            let own = state.table(kind).filter(|object| text(object, "project_id") == id);
            own.filter(|object| !state.seeds.contains(text(object, "id")))
                .map(|object| item(text(object, "id"), text(object, name)))
                .collect()
        };
        let servers = || state.servers.values().filter(|server| server.exists() && server.project_id == id);
        let groups = state.server_groups.iter().filter(|group| group.project_id == id);
        let volumes = state.volumes.values().filter(|volume| volume.project_id == id);
        let user = state.users.iter().find(|user| user.project_id == id).map(|user| user.id.as_str());
        let pairs = state.key_pairs.iter().filter(|pair| Some(pair.user_id.as_str()) == user);
        Self {
            servers: servers().map(|server| item(&server.id, &server.name)).collect(),
            server_groups: groups.map(|group| item(&group.id, &group.name)).collect(),
            volumes: volumes
                .map(|volume| item(&volume.id, volume.name.as_deref().unwrap_or_default()))
                .collect(),
            key_pairs: pairs
                .filter(|pair| pair.name != "default")
                .map(|pair| item(&pair.id.to_string(), &pair.name))
                .collect(),
            networks: objects(Kind::Network, "name"),
            subnets: objects(Kind::Subnet, "name"),
            ports: objects(Kind::Port, "name"),
            routers: objects(Kind::Router, "name"),
            security_groups: objects(Kind::SecurityGroup, "name"),
            floating_ips: objects(Kind::FloatingIp, "floating_ip_address"),
            user_data: servers()
                .filter_map(|server| Some((server.id.clone(), server.user_data.clone()?)))
                .collect(),
        }
    }
}
