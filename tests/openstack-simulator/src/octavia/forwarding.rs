//! Data path of load balancers: the addresses to which they forward connections.

use std::collections::BTreeMap;

use super::*;
use crate::neutron::ResourceKind;
use crate::object::text;

/// States of a member or a load balancer that does not forward: it is not there yet, or broken.
const IDLE: [&str; 2] = ["PENDING_CREATE", "ERROR"];

/// Id of a network, and an address in it.
pub(crate) type Target = (String, String);

/// Returns the load balancers in front of each address.
pub(crate) fn forwarding(state: &CloudState) -> BTreeMap<Target, Vec<&Object>> {
    let mut found: BTreeMap<Target, Vec<&Object>> = BTreeMap::new();
    let forwards = |part: &&Object| !IDLE.contains(&text(part, STATUS));
    for member in state.balancers(BalancerKind::Member).filter(forwards) {
        let balancer = state.balancer(BalancerKind::LoadBalancer, text(member, LOAD_BALANCER));
        let Some(balancer) = balancer.filter(forwards) else { continue };
        // A member without a subnet is reached through the network of the address.
        let subnet = state.find(ResourceKind::Subnet, text(member, "subnet_id"));
        let network =
            subnet.map_or_else(|| text(balancer, "vip_network_id"), |subnet| text(subnet, "network_id"));
        let target = (network.to_owned(), text(member, "address").to_owned());
        found.entry(target).or_default().push(balancer);
    }
    found
}
