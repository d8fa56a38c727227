//! Deletion of the resource of one entry of the journal.

use controllers_infrastructure::{FloatingIp, FloatingIpQuery, NetworkQuery, Port, PortQuery, TaggedKind};
use controllers_runtime::{Entry, Journal, OwnershipTag, ReconcileError};

use super::act::{EventText, gone};
use super::balancer;
use super::leftovers::LEFTOVERS;
use super::observe::Observer;
use crate::{cidrs, names, resource_events};

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

/// Deletes the resource of an entry, if it exists and has our tag. Returns the Event about what was done.
pub(super) async fn delete_entry(
    observer: &Observer<'_>,
    entry: &Entry,
) -> Result<EventText, ReconcileError> {
    if entry.kind == names::FLOATING_IP {
        return floating_ip(observer, entry).await;
    }
    let deleted = delete_resource(observer, entry).await?;
    Ok(deleted.map(|message| (resource_events::deleted(&entry.kind), message)))
}

/// Deletes the resource of an entry that is no floating IP. Describes what was done.
async fn delete_resource(observer: &Observer<'_>, entry: &Entry) -> Result<Option<String>, ReconcileError> {
    let cloud = observer.cloud;
    match entry.kind.as_str() {
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

/// Releases the floating IPs of the cluster one by one, then lets go of the one that the spec gives.
async fn floating_ip(observer: &Observer<'_>, entry: &Entry) -> Result<EventText, ReconcileError> {
    let (mut given, mut own) = observer.given_and_own_floating_ips().await?;
    if own.is_empty() && entry.id.is_some() {
        // Its description was changed by hand; the tag still identifies the owner.
        let query = FloatingIpQuery { tags: vec![observer.tag.text()], ..FloatingIpQuery::default() };
        let tagged = observer.cloud.floating_ips(&query).await?;
        let named = tagged.into_iter().find(|ip| entry.id.as_ref() == Some(&ip.id));
        let list =
            if named.as_ref().is_some_and(|ip| observer.desired.gives(ip)) { &mut given } else { &mut own };
        list.extend(named);
    }
    if let Some(FloatingIp { id, address, .. }) = own.first() {
        gone(observer.cloud.delete_floating_ip(id).await)?;
        let reason = resource_events::deleted(&entry.kind);
        return Ok(Some((reason, format!("released floating IP {address} ({id})"))));
    }
    let Some(kept) = given.iter().find(|ip| is_held(observer.tag, ip)) else { return Ok(None) };
    let_go(observer, kept).await?;
    let (id, address) = (&kept.id, &kept.address);
    let message = format!("kept floating IP {address} ({id}), which spec.apiServer.floatingIP names");
    Ok(Some((LEFTOVERS, message)))
}

/// Returns true if a given floating IP is still associated, or has our tag. Pure.
fn is_held(tag: &OwnershipTag, floating_ip: &FloatingIp) -> bool {
    floating_ip.port_id.is_some() || floating_ip.tags.contains(&tag.text())
}

/// Disassociates a given floating IP, and removes our tag from it.
async fn let_go(observer: &Observer<'_>, floating_ip: &FloatingIp) -> Result<(), ReconcileError> {
    let id = &floating_ip.id;
    if floating_ip.port_id.is_some() {
        gone(observer.cloud.associate_floating_ip(id, None).await)?;
    }
    let tag = observer.tag.text();
    if floating_ip.tags.contains(&tag) {
        gone(observer.cloud.change_tags(TaggedKind::FloatingIp, id, &[], &[tag]).await)?;
    }
    Ok(())
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
    use apiserver_types::{OpenStackCluster, OpenStackClusterSpec};

    use super::*;

    #[test]
    fn r7_7_a_given_floating_ip_is_let_go_once() {
        let mut object = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        object.metadata.uid = Some("u".to_owned());
        let tag = OwnershipTag::of(&object);
        // Its description stays, and does not keep the entry in the journal.
        let free = FloatingIp { description: tag.description(), ..FloatingIp::default() };
        assert!(!is_held(&tag, &free));
        assert!(is_held(&tag, &FloatingIp { tags: tag.tags(None), ..free.clone() }));
        assert!(is_held(&tag, &FloatingIp { port_id: Some("vip".to_owned()), ..free }));
    }

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
