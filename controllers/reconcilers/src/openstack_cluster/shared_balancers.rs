//! Removal of a cluster's parts from load balancers that other workload clusters use, too.

use std::collections::BTreeSet;
use std::net::IpAddr;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{LoadBalancer, Member, Port, PortQuery, Subnet, SubnetQuery, TaggedKind};
use controllers_runtime::ReconcileError;
use jiff::Timestamp;

use super::act::gone;
use super::balancer::busy::busy;
use super::balancer::{ACTIVE, PENDING, health};
use super::balancer_members::unless_gone;
use super::leftovers::LEFTOVERS;
use super::observe::Observer;
use super::service_balancers::Evidence;
use super::service_parts::{Parts, Removal, next};
use crate::{cidrs, names};

/// Machines of the cluster, as far as members of load balancers show them.
#[derive(Debug, Default)]
pub(super) struct OwnMembers {
    /// Subnets of the network that Capstan created for the cluster.
    subnets: Vec<Subnet>,
    /// That network.
    network: Option<String>,
    /// Addresses of machines on a network of another owner, which no other port has now.
    addresses: BTreeSet<String>,
}

impl OwnMembers {
    /// Finds the subnets or addresses of the cluster's machines.
    pub(super) async fn find(
        observer: &Observer<'_>,
        object: &OpenStackCluster,
        evidence: &Evidence,
    ) -> Result<Self, ReconcileError> {
        if let Some(network) = &evidence.created {
            let query = SubnetQuery { network_id: Some(network.clone()), ..SubnetQuery::default() };
            let subnets = observer.cloud.subnets(&query).await?;
            return Ok(Self { subnets, network: Some(network.clone()), ..Self::default() });
        }
        // Addresses alone prove nothing: the name that the workload cluster had must be known, too.
        let Some(network) = evidence.existing.as_ref().filter(|_| evidence.knows_name()) else {
            return Ok(Self::default());
        };
        let query = PortQuery { network_id: Some(network.clone()), ..PortQuery::default() };
        let mut addresses: BTreeSet<String> = evidence.notes.addresses.iter().cloned().collect();
        let own = names::cluster_tag(object);
        let is_other = |port: &&Port| own.as_ref().is_none_or(|tag| !port.tags.contains(tag));
        // A machine that is gone has no port. Another owner may have its address now.
        for port in observer.cloud.ports(&query).await?.iter().filter(is_other) {
            for address in port.fixed_ips.iter().filter_map(|ip| ip.ip_address.as_ref()) {
                addresses.remove(address);
            }
        }
        Ok(Self { addresses, ..Self::default() })
    }

    /// Returns true if a member of a load balancer is a machine of the cluster. Other clusters may have the same addresses
    /// on other networks, so the subnet decides where it is known. Pure.
    fn has(&self, balancer: &LoadBalancer, member: &Member) -> bool {
        let Some(network) = &self.network else { return self.addresses.contains(&member.address) };
        if let Some(id) = &member.subnet_id {
            return self.subnets.iter().any(|subnet| subnet.id == *id);
        }
        let address: Option<IpAddr> = member.address.parse().ok();
        let is_within =
            |address| self.subnets.iter().any(|subnet: &Subnet| cidrs::contains(&subnet.cidr, address));
        balancer.vip_network_id == *network && address.is_some_and(is_within)
    }

    fn is_empty(&self) -> bool {
        self.subnets.is_empty() && self.addresses.is_empty()
    }
}

/// Returns the next part of the cluster in a shared load balancer.
pub(super) async fn removal(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
    own: &OwnMembers,
) -> Result<Option<Removal>, ReconcileError> {
    if own.is_empty() {
        return Ok(None);
    }
    let mut parts = Parts::default();
    for pool in unless_gone(observer.cloud.pools(&balancer.id).await)? {
        let members = unless_gone(observer.cloud.members(&pool.id).await)?;
        parts.pools.push((pool, members));
    }
    let is_own = |member: &Member| own.has(balancer, member);
    if !parts.pools.iter().any(|(_, members)| members.iter().any(is_own)) {
        return Ok(None);
    }
    parts.listeners = unless_gone(observer.cloud.listeners(&balancer.id).await)?;
    Ok(next(balancer, &parts, is_own))
}

/// Removes the next part of the cluster from a load balancer that stays. Returns the wait for the change, and nothing if no
/// part is left. Describes what was done.
pub(super) async fn leave(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
    own: &OwnMembers,
    made: &mut Vec<(&'static str, String)>,
) -> Result<Option<ReconcileError>, ReconcileError> {
    let Some(removal) = removal(observer, balancer, own).await? else { return Ok(None) };
    let status = balancer.provisioning_status.as_str();
    if status.starts_with("PENDING") {
        let (reason, message) = health::pending(Timestamp::now(), balancer);
        return Ok(Some(ReconcileError::waiting(reason, message)));
    }
    if status != ACTIVE {
        // Octavia changes no part of it, and its owner heals it.
        let title = format!("load balancer {} ({}), which is in {status}", balancer.name, balancer.id);
        made.push((
            LEFTOVERS,
            format!("kept the parts of this cluster in {title}. Delete them once it is ACTIVE"),
        ));
        return Ok(None);
    }
    let removed = remove(observer, balancer, removal).await.map_err(busy)?;
    made.extend(removed.map(|message| ("DeletedLoadBalancerPart", message)));
    let message = format!(
        "waiting for load balancer {} ({}) to lose the parts of this cluster",
        balancer.name, balancer.id
    );
    Ok(Some(ReconcileError::waiting(PENDING, message)))
}

/// Removes one part. Describes what was done, if the user must know.
async fn remove(
    observer: &Observer<'_>,
    balancer: &LoadBalancer,
    removal: Removal,
) -> Result<Option<String>, ReconcileError> {
    let cloud = observer.cloud;
    let title = match removal {
        Removal::Tags(tags) => {
            gone(cloud.set_tags(TaggedKind::LoadBalancer, &balancer.id, &tags).await)?;
            return Ok(None);
        }
        Removal::Listener(id, title) => gone(cloud.delete_listener(&id).await).map(|_| title)?,
        Removal::Pool(id, title) => gone(cloud.delete_pool(&id).await).map(|_| title)?,
        Removal::Member(pool, id, title) => gone(cloud.delete_member(&pool, &id).await).map(|_| title)?,
    };
    let (name, id) = (&balancer.name, &balancer.id);
    Ok(Some(format!("deleted {title} of load balancer {name} ({id}), which other workload clusters use")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r17_3_the_subnet_of_a_member_decides_where_it_is_known() {
        let subnet = Subnet { id: "s".to_owned(), cidr: "10.6.0.0/24".to_owned(), ..Subnet::default() };
        let created =
            OwnMembers { subnets: vec![subnet], network: Some("n".to_owned()), ..OwnMembers::default() };
        let noted =
            OwnMembers { addresses: BTreeSet::from(["10.6.0.5".to_owned()]), ..OwnMembers::default() };
        let table = [
            (&created, "n", Some("s"), "10.6.0.5", true),
            (&created, "other", Some("s"), "10.6.0.5", true),
            (&created, "n", Some("foreign"), "10.6.0.5", false),
            (&created, "n", None, "10.6.0.5", true),
            (&created, "n", None, "10.7.0.5", false),
            (&created, "other", None, "10.6.0.5", false),
            (&noted, "other", None, "10.6.0.5", true),
            (&noted, "other", None, "10.6.0.6", false),
        ];
        for (own, network, subnet, address, expected) in table {
            let balancer = LoadBalancer { vip_network_id: network.to_owned(), ..LoadBalancer::default() };
            let member = Member {
                address: address.to_owned(),
                subnet_id: subnet.map(str::to_owned),
                ..Member::default()
            };
            assert_eq!(own.has(&balancer, &member), expected, "{network} {subnet:?} {address}");
        }
        assert!(OwnMembers::default().is_empty() && !created.is_empty() && !noted.is_empty());
    }
}
