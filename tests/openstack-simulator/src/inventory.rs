//! Inventory of a project: the resources that exist, for checks of leaks.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::neutron::ResourceKind;
use crate::object::text;
use crate::state::CloudState;

/// One resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct InventoryItem {
    /// Id of the resource.
    pub id: String,
    /// Name of the resource; empty if its kind has no names.
    pub name: String,
}

/// All resources that a project has created and not deleted, by kind. Resources that existed at the start,
/// the default security group and all rules are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Inventory {
    /// Servers, with those in deletion.
    pub servers: Vec<InventoryItem>,
    /// Server groups.
    pub server_groups: Vec<InventoryItem>,
    /// Volumes, with those in deletion.
    pub volumes: Vec<InventoryItem>,
    /// Snapshots of volumes.
    pub snapshots: Vec<InventoryItem>,
    /// Shares.
    pub shares: Vec<InventoryItem>,
    /// Images.
    pub images: Vec<InventoryItem>,
    /// Key pairs of the project's user.
    pub key_pairs: Vec<InventoryItem>,
    /// Networks.
    pub networks: Vec<InventoryItem>,
    /// Subnets.
    pub subnets: Vec<InventoryItem>,
    /// Ports, with those of servers and routers.
    pub ports: Vec<InventoryItem>,
    /// Routers.
    pub routers: Vec<InventoryItem>,
    /// Security groups.
    pub security_groups: Vec<InventoryItem>,
    /// Floating IPs, by address.
    pub floating_ips: Vec<InventoryItem>,
    /// Trunks.
    pub trunks: Vec<InventoryItem>,
    /// Load balancers, with those in deletion.
    pub load_balancers: Vec<InventoryItem>,
    /// User data of each server in the original form, by server id. Users cannot read it from Nova.
    pub user_data: BTreeMap<String, String>,
    /// Availability zone of each server and volume, by its id.
    pub zones: BTreeMap<String, String>,
    /// Name of each server's flavor, by the id of the server.
    pub flavors: BTreeMap<String, String>,
}

impl Inventory {
    /// Returns true if no resources are left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the inventory of the project called `project`; empty if there is none.
    pub(crate) fn of(state: &CloudState, project: &str) -> Self {
        let Some(project) = state.project(project) else { return Self::default() };
        let id = project.id.as_str();
        let item = |id: &str, name: &str| InventoryItem { id: id.to_owned(), name: name.to_owned() };
        let objects = |kind: ResourceKind, name: &str| -> Vec<InventoryItem> {
            let own = state.table(kind).filter(|object| text(object, "project_id") == id);
            own.filter(|object| !state.seeds.contains(text(object, "id")))
                .map(|object| item(text(object, "id"), text(object, name)))
                .collect()
        };
        let servers = || state.servers.values().filter(|server| server.exists() && server.project_id == id);
        let groups = state.server_groups.iter().filter(|group| group.project_id == id);
        let volumes = state.volumes.values().filter(|volume| volume.project_id == id);
        let snapshots = state.snapshots.values().filter(|snapshot| snapshot.project_id == id);
        let shares = state.shares.values().filter(|share| share.project_id == id);
        let images = state.images.iter().filter(|image| text(image, "owner") == id);
        let images = images.filter(|image| !state.seeds.contains(text(image, "id")));
        let user = state.users.iter().find(|user| user.project_id == id).map(|user| user.id.as_str());
        let pairs = state.key_pairs.iter().filter(|pair| Some(pair.user_id.as_str()) == user);
        let zones = servers().map(|it| (it.id.clone(), it.zone.clone()));
        let zones = zones.chain(volumes.clone().map(|it| (it.id.clone(), it.zone.clone()))).collect();
        Self {
            zones,
            flavors: servers().map(|it| (it.id.clone(), it.flavor.name.clone())).collect(),
            servers: servers().map(|server| item(&server.id, &server.name)).collect(),
            server_groups: groups.map(|group| item(&group.id, &group.name)).collect(),
            volumes: volumes
                .map(|volume| item(&volume.id, volume.name.as_deref().unwrap_or_default()))
                .collect(),
            snapshots: snapshots
                .map(|snapshot| item(&snapshot.id, snapshot.name.as_deref().unwrap_or_default()))
                .collect(),
            shares: shares.map(|share| item(&share.id, &share.name)).collect(),
            images: images.map(|image| item(text(image, "id"), text(image, "name"))).collect(),
            key_pairs: pairs
                .filter(|pair| pair.name != "default")
                .map(|pair| item(&pair.id.to_string(), &pair.name))
                .collect(),
            networks: objects(ResourceKind::Network, "name"),
            subnets: objects(ResourceKind::Subnet, "name"),
            ports: objects(ResourceKind::Port, "name"),
            routers: objects(ResourceKind::Router, "name"),
            security_groups: objects(ResourceKind::SecurityGroup, "name"),
            floating_ips: objects(ResourceKind::FloatingIp, "floating_ip_address"),
            trunks: objects(ResourceKind::Trunk, "name"),
            load_balancers: crate::octavia::of_project(state, id).map(|(id, name)| item(id, name)).collect(),
            user_data: servers()
                .filter_map(|server| Some((server.id.clone(), server.user_data.clone()?)))
                .collect(),
        }
    }
}
