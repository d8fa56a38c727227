//! Resources of other owners that prevent the deletion of a resource of the cluster.

use std::collections::BTreeMap;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{
    CloudResult, ErrorClass, FloatingIp, FloatingIpQuery, LoadBalancerQuery, Port, PortQuery, Subnet,
    SubnetQuery, TrunkQuery,
};
use controllers_runtime::{Entry, ReconcileError};
use kube::ResourceExt;

use super::observe::Observer;
use crate::duplicates::Candidate;
use crate::names;

/// Reason of a deletion that resources of another owner prevent.
pub(super) const BLOCKED: &str = "DeletionBlocked";

/// Annotation by which the user leaves resources in the cloud whose deletion is blocked.
const FORGET: &str = "capstan.dev/forget-blocked";

/// Beginnings of the owners of ports that are interfaces of routers.
const INTERFACES: [&str; 2] = ["network:router_interface", "network:ha_router_replicated_interface"];

/// Number of resources that a message lists.
const LISTED: usize = 5;

/// Returns true for the error of a resource in use, if the user leaves such resources in the cloud. Pure.
pub(super) fn is_forgotten(object: &OpenStackCluster, error: &ReconcileError) -> bool {
    let is_blocked = match error {
        ReconcileError::Waiting { reason, .. } => *reason == BLOCKED,
        ReconcileError::Cloud(error) => error.class == ErrorClass::Conflict,
        ReconcileError::Api(_) => false,
    };
    is_blocked && object.annotations().get(FORGET).map(String::as_str) == Some("true")
}

/// Returns the error of a resource in use, with what uses it. Ports of Neutron itself go with their network.
pub(super) async fn blocked(observer: &Observer<'_>, entry: &Entry, error: ReconcileError) -> ReconcileError {
    let is_conflict = matches!(&error, ReconcileError::Cloud(error) if error.class == ErrorClass::Conflict);
    if !is_conflict {
        return error;
    }
    // The answer of the cloud counts, even if a list of what uses the resource cannot be had.
    let users = users(observer, entry).await.unwrap_or_default();
    if users.is_empty() {
        return error;
    }
    let more = users.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    let listed = users.into_iter().take(LISTED).collect::<Vec<_>>().join(", ");
    let (kind, name) = (&entry.kind, &entry.name);
    let message = format!(
        "{error}. These use {kind} {name} and are not of this cluster: {listed}{rest}. Delete them, or set the annotation \
         {FORGET} of the OpenStackCluster to \"true\" to leave {kind} {name} in the cloud"
    );
    ReconcileError::waiting(BLOCKED, message)
}

/// Returns the titles of what uses a resource.
async fn users(observer: &Observer<'_>, entry: &Entry) -> Result<Vec<String>, ReconcileError> {
    let Some(id) = id(observer, entry).await? else { return Ok(Vec::new()) };
    let id = id.as_str();
    let users = match entry.kind.as_str() {
        names::NETWORK => ports(observer, on_network(id), |_| true).await?,
        names::SUBNET => users_of_subnet(observer, entry, id).await?,
        // Its interfaces are the cluster's and go with it.
        names::ROUTER => floating_ips(observer, id, |_| true).await?,
        names::ROUTER_INTERFACE => users_of_interface(observer, id).await?,
        names::SECURITY_GROUP => {
            let has_group = |port: &Port| port.security_groups.iter().any(|it| it == id);
            ports(observer, PortQuery::default(), has_group).await?
        }
        names::VIP_PORT => {
            let query = TrunkQuery { port_id: Some(id.to_owned()), ..TrunkQuery::default() };
            let trunks = observer.cloud.trunks(&query).await?.into_iter();
            trunks.map(|trunk| format!("trunk {} ({})", trunk.name, trunk.id)).collect()
        }
        _ => Vec::new(),
    };
    Ok(users)
}

/// Returns the id of the resource of an entry, as it is in the journal. After the loss of the journal, its name leads to it.
async fn id(observer: &Observer<'_>, entry: &Entry) -> Result<Option<String>, ReconcileError> {
    let name = &entry.name;
    Ok(match entry.kind.as_str() {
        _ if entry.id.is_some() => entry.id.clone(),
        names::NETWORK => first(&observer.owned_networks(None, name).await?),
        names::SUBNET => first(&observer.owned_subnets(None, name, "").await?),
        names::ROUTER => first(&observer.owned_routers(None, name).await?),
        names::ROUTER_INTERFACE => interface(observer, name).await?,
        names::SECURITY_GROUP => first(&observer.owned_groups(None, name).await?),
        names::VIP_PORT => first(&observer.owned_vip_ports(name).await?),
        _ => None,
    })
}

fn first<T: Candidate>(found: &[T]) -> Option<String> {
    found.first().map(|it| it.id().to_owned())
}

/// Finds the interface of a router on our subnet of this name: `<router id>/<subnet id>`.
async fn interface(observer: &Observer<'_>, name: &str) -> Result<Option<String>, ReconcileError> {
    let subnets = observer.owned_subnets(None, name, "").await?;
    let Some(subnet) = subnets.first() else { return Ok(None) };
    let ports = observer.cloud.ports(&on_network(&subnet.network_id)).await?;
    let is_interface = |port: &&Port| INTERFACES.iter().any(|owner| port.device_owner.starts_with(owner));
    let found = ports.iter().filter(is_interface).find(|port| has_address_on(port, &subnet.id));
    Ok(found.map(|port| format!("{}/{}", port.device_id, subnet.id)))
}

/// Returns the titles of floating IPs that reach a subnet through the interface of a router.
async fn users_of_interface(observer: &Observer<'_>, interface: &str) -> CloudResult<Vec<String>> {
    let Some((router, id)) = interface.split_once('/') else { return Ok(Vec::new()) };
    let Some(subnet) = subnet(observer, id).await? else { return Ok(Vec::new()) };
    let mut ports = observer.cloud.ports(&on_network(&subnet.network_id)).await?;
    ports.retain(|port| has_address_on(port, id));
    let is_on_it = |ip: &FloatingIp| ports.iter().any(|port| ip.port_id.as_ref() == Some(&port.id));
    floating_ips(observer, router, is_on_it).await
}

/// Returns the titles of what has an address on a subnet.
async fn users_of_subnet(observer: &Observer<'_>, entry: &Entry, id: &str) -> CloudResult<Vec<String>> {
    let Some(subnet) = subnet(observer, id).await? else { return Ok(Vec::new()) };
    let mut users = ports(observer, on_network(&subnet.network_id), |port| has_address_on(port, id)).await?;
    let query = LoadBalancerQuery { vip_subnet_id: Some(id.to_owned()), ..LoadBalancerQuery::default() };
    // The port of a load balancer says who has it. Its name helps to find it.
    let balancers = observer.cloud.load_balancers(&query).await.unwrap_or_default().into_iter();
    let others = balancers.filter(|it| it.name != entry.name && it.provisioning_status != "DELETED");
    users.extend(others.map(|it| format!("load balancer {} ({})", it.name, it.id)));
    Ok(users)
}

async fn subnet(observer: &Observer<'_>, id: &str) -> CloudResult<Option<Subnet>> {
    let query = SubnetQuery { id: Some(id.to_owned()), ..SubnetQuery::default() };
    Ok(observer.cloud.subnets(&query).await?.into_iter().next())
}

fn has_address_on(port: &Port, subnet: &str) -> bool {
    port.fixed_ips.iter().any(|ip| ip.subnet_id.as_deref() == Some(subnet))
}

fn on_network(id: &str) -> PortQuery {
    PortQuery { network_id: Some(id.to_owned()), ..PortQuery::default() }
}

/// Returns the titles of floating IPs of other owners through a router.
async fn floating_ips(
    observer: &Observer<'_>,
    router: &str,
    is_user: impl Fn(&FloatingIp) -> bool,
) -> CloudResult<Vec<String>> {
    let query = FloatingIpQuery { router_id: Some(router.to_owned()), ..FloatingIpQuery::default() };
    let found = observer.cloud.floating_ips(&query).await?.into_iter();
    let others = found.filter(|ip| is_user(ip) && !observer.tag.is_on(&ip.tags, &ip.description));
    Ok(others.map(|ip| format!("floating IP {} ({})", ip.address, ip.id)).collect())
}

/// Returns the titles of the ports of other owners, those of one owner together.
async fn ports(
    observer: &Observer<'_>,
    query: PortQuery,
    is_user: impl Fn(&Port) -> bool,
) -> CloudResult<Vec<String>> {
    let found = observer.cloud.ports(&query).await?;
    let is_foreign = |port: &&Port| {
        let is_of_neutron = port.device_owner.starts_with("network:")
            && !port.device_owner.starts_with("network:router_interface");
        is_user(port) && !is_of_neutron && !observer.tag.is_on(&port.tags, &port.description)
    };
    let mut titles = Vec::new();
    for (owner, ports) in by_owner(found.iter().filter(is_foreign)) {
        titles.push(title(observer, owner, &ports).await);
    }
    Ok(titles)
}

/// Owner of a port: what it is, and its id.
type Owner<'a> = (&'a str, &'a str);

/// Returns ports by their owners. Pure.
fn by_owner<'a>(ports: impl Iterator<Item = &'a Port>) -> BTreeMap<Owner<'a>, Vec<&'a Port>> {
    let mut found: BTreeMap<Owner<'a>, Vec<&'a Port>> = BTreeMap::new();
    for port in ports {
        found.entry((&port.device_owner, &port.device_id)).or_default().push(port);
    }
    found
}

/// Returns the title of the ports of one owner. That of a server has its name, which says more than an id.
async fn title(observer: &Observer<'_>, (kind, device): Owner<'_>, ports: &[&Port]) -> String {
    let ids = ports.iter().take(LISTED).map(|port| port.id.as_str()).collect::<Vec<_>>().join(", ");
    let count = match ports {
        [_] => format!("port {ids}"),
        _ => format!("{} ports ({ids})", ports.len()),
    };
    if device.is_empty() {
        return format!("{count} of no owner");
    }
    if !kind.starts_with("compute:") {
        return format!("{count} of {kind} ({device})");
    }
    let server = observer.cloud.server(device).await;
    let name = server.map_or_else(|_| device.to_owned(), |server| format!("{} ({device})", server.name));
    format!("{count} of server {name}")
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::CloudError;
    use serde_json::json;

    use super::*;

    #[test]
    fn r17_4_ports_of_one_owner_are_named_together() {
        let port = |id: &str, owner: &str, device: &str| Port {
            id: id.to_owned(),
            device_owner: owner.to_owned(),
            device_id: device.to_owned(),
            ..Port::default()
        };
        let ports =
            [port("a", "compute:nova", "s"), port("b", "Octavia", "lb-1"), port("c", "compute:nova", "s")];
        let found = by_owner(ports.iter());
        let ids: Vec<Vec<&str>> =
            found.values().map(|ports| ports.iter().map(|it| it.id.as_str()).collect()).collect();
        assert_eq!(found.keys().collect::<Vec<_>>(), [&("Octavia", "lb-1"), &("compute:nova", "s")]);
        assert_eq!(ids, [vec!["b"], vec!["a", "c"]]);
    }

    #[test]
    fn r17_4_a_blocked_resource_is_left_only_if_the_user_says_so() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        let blocked = ReconcileError::waiting(BLOCKED, "ports");
        let used = CloudError::new(ErrorClass::Conflict, "delete", "SecurityGroupInUse").into();
        let outage = CloudError::new(ErrorClass::Unreachable, "delete", "no answer").into();
        assert!(!is_forgotten(&object, &blocked));
        object.annotations_mut().insert(FORGET.to_owned(), "true".to_owned());
        assert!(is_forgotten(&object, &blocked) && is_forgotten(&object, &used));
        assert!(
            !is_forgotten(&object, &outage)
                && !is_forgotten(&object, &ReconcileError::waiting("Pending", ""))
        );
    }
}
