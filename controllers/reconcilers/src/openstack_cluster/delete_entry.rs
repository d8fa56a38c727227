//! Deletion of the resource of one entry of the journal.

use controllers_infrastructure::{FloatingIpQuery, NetworkQuery, Port, PortQuery};
use controllers_runtime::{Entry, Journal, ReconcileError};

use super::act::gone;
use super::balancer;
use super::observe::Observer;
use crate::{cidrs, names};

/// Kinds in the order of their deletion: a resource after those that use it.
const ORDER: [&str; 8] = [
    names::FLOATING_IP,
    names::LOAD_BALANCER,
    names::VIP_PORT,
    names::ROUTER_INTERFACE,
    names::ROUTER,
    names::SECURITY_GROUP,
    names::SUBNET,
    names::NETWORK,
];

/// Returns the entry whose resource is deleted next. Pure.
pub(super) fn next_entry(journal: &Journal) -> Option<Entry> {
    ORDER.iter().find_map(|kind| journal.of_kind(kind).next().cloned())
}

/// Deletes the resource of an entry, if it exists and has our tag. Describes what was done.
pub(super) async fn delete_entry(
    observer: &Observer<'_>,
    entry: &Entry,
) -> Result<Option<String>, ReconcileError> {
    let cloud = observer.cloud;
    match entry.kind.as_str() {
        names::FLOATING_IP => floating_ip(observer, entry).await,
        names::LOAD_BALANCER => balancer::delete::balancer(observer, entry).await,
        names::VIP_PORT => balancer::delete::vip_port(observer, entry).await,
        names::ROUTER_INTERFACE => router_interface(observer, entry).await,
        names::ROUTER => router(observer, entry).await,
        names::SECURITY_GROUP => {
            let found = observer.owned_groups(entry.id.as_deref(), &entry.name).await?;
            let Some(group) = found.first() else { return Ok(None) };
            gone(cloud.delete_security_group(&group.id).await)?;
            Ok(Some(format!("deleted security group {} ({})", group.name, group.id)))
        }
        names::SUBNET => {
            let subnets = observer.owned_subnets(entry.id.as_deref(), &entry.name, "").await?;
            for subnet in &subnets {
                gone(cloud.delete_subnet(&subnet.id).await)?;
            }
            Ok(subnets.first().map(|subnet| format!("deleted subnet {} ({})", subnet.name, subnet.id)))
        }
        names::NETWORK => {
            let found = observer.owned_networks(entry.id.as_deref(), &entry.name).await?;
            let Some(network) = found.first() else { return Ok(None) };
            gone(cloud.delete_network(&network.id).await)?;
            Ok(Some(format!("deleted network {} ({})", network.name, network.id)))
        }
        // An entry of a version that knows more kinds is kept.
        _ => Ok(None),
    }
}

async fn floating_ip(observer: &Observer<'_>, entry: &Entry) -> Result<Option<String>, ReconcileError> {
    let mut found = observer.owned_floating_ips(None).await?.into_iter().next();
    if found.is_none() && entry.id.is_some() {
        // Its description was changed by hand; the tag still identifies the owner.
        let query = FloatingIpQuery { tags: vec![observer.tag.text()], ..FloatingIpQuery::default() };
        let tagged = observer.cloud.floating_ips(&query).await?;
        found = tagged.into_iter().find(|ip| entry.id.as_ref() == Some(&ip.id));
    }
    let Some(floating_ip) = found else { return Ok(None) };
    gone(observer.cloud.delete_floating_ip(&floating_ip.id).await)?;
    Ok(Some(format!("released floating IP {} ({})", floating_ip.address, floating_ip.id)))
}

/// Interfaces have no tags in Neutron. The subnet has our tag, and no one else has connected it.
async fn router_interface(observer: &Observer<'_>, entry: &Entry) -> Result<Option<String>, ReconcileError> {
    for subnet in observer.owned_subnets(None, &entry.name, "").await? {
        let query = PortQuery { network_id: Some(subnet.network_id.clone()), ..PortQuery::default() };
        let on_subnet =
            |port: &Port| port.fixed_ips.iter().any(|ip| ip.subnet_id.as_ref() == Some(&subnet.id));
        let ports = observer.cloud.ports(&query).await?;
        for port in ports.iter().filter(|port| !port.device_id.is_empty() && on_subnet(port)) {
            remove_routes(observer, &port.device_id, &subnet.cidr).await?;
            match observer.cloud.remove_router_interface(&port.device_id, &subnet.id).await {
                Ok(()) => {
                    let (subnet, router) = (subnet.id, &port.device_id);
                    return Ok(Some(format!("disconnected subnet {subnet} from router {router}")));
                }
                // A port of another resource than a router.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(None)
}

/// Removes the routes of a router to addresses of our subnet. They keep its interface.
async fn remove_routes(observer: &Observer<'_>, router: &str, cidr: &str) -> Result<(), ReconcileError> {
    let query = NetworkQuery { id: Some(router.to_owned()), ..NetworkQuery::default() };
    // It may be no router.
    let Some(found) = observer.cloud.routers(&query).await?.into_iter().next() else { return Ok(()) };
    let is_within = |next: &str| next.parse().is_ok_and(|next| cidrs::contains(cidr, next));
    let ours: Vec<_> = found.routes.into_iter().filter(|(_, next)| is_within(next)).collect();
    if !ours.is_empty() {
        observer.cloud.remove_routes(router, &ours).await?;
    }
    Ok(())
}

async fn router(observer: &Observer<'_>, entry: &Entry) -> Result<Option<String>, ReconcileError> {
    let found = observer.owned_routers(entry.id.as_deref(), &entry.name).await?;
    let Some(router) = found.first() else { return Ok(None) };
    if !router.routes.is_empty() {
        // The cloud provider of the workload cluster added them. They keep the interfaces.
        observer.cloud.set_routes(&router.id, &[]).await?;
    }
    // The router is ours, so are its interfaces.
    let query = PortQuery { device_id: Some(router.id.clone()), ..PortQuery::default() };
    for port in observer.cloud.ports(&query).await? {
        for subnet in port.fixed_ips.iter().filter_map(|ip| ip.subnet_id.as_deref()) {
            match observer.cloud.remove_router_interface(&router.id, subnet).await {
                // The gateway's port is listed for administrators only and is deleted with the router.
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
    }
    gone(observer.cloud.delete_router(&router.id).await)?;
    Ok(Some(format!("deleted router {} ({})", router.name, router.id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_is_deleted_after_those_that_use_it() {
        let mut journal = Journal::default();
        for kind in [names::NETWORK, names::SUBNET, names::ROUTER, names::SECURITY_GROUP, names::FLOATING_IP]
        {
            journal.intend(kind, "a");
        }
        journal.intend("dns-zone", "a");
        let mut order = Vec::new();
        while let Some(entry) = next_entry(&journal) {
            journal.strike(&entry.kind, &entry.name);
            order.push(entry.kind);
        }
        assert_eq!(order, ["floating-ip", "router", "security-group", "subnet", "network"]);
    }
}
