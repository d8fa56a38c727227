//! Allocation of the addresses of subnets.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};

use super::{ResourceKind, bad_request, conflict};
use crate::address::{Network, address, number};
use crate::http::Reply;
use crate::object::{Object, list, text};
use crate::state::CloudState;

/// Returns the addresses of `subnet` in use: by ports, floating IPs and the gateways of routers.
pub(super) fn used(state: &CloudState, subnet: &Object) -> BTreeSet<u128> {
    let [fixed, floating] = places(subnet).map(|place| state.network.addresses(place, 0));
    fixed.chain(floating).collect()
}

/// Returns the places by which the addresses of a subnet are recorded: itself, and its network for floating IPs.
fn places(subnet: &Object) -> [&str; 2] {
    ["id", "network_id"].map(|key| text(subnet, key))
}

fn is_used(state: &CloudState, subnet: &Object, address: IpAddr) -> bool {
    places(subnet).iter().any(|place| state.network.is_used(place, number(address)))
}

/// Returns the lowest number from `first` on that is not an address in use.
fn lowest_free(state: &CloudState, subnet: &Object, first: u128) -> u128 {
    let mut free = first;
    loop {
        let before = free;
        for place in places(subnet) {
            for used in state.network.addresses(place, free) {
                if used != free {
                    break;
                }
                free = free.saturating_add(1);
            }
        }
        // Ports and floating IPs may take turns.
        if free == before {
            return free;
        }
    }
}

/// Returns the number of addresses in the subnet's pools.
pub(super) fn number_of_addresses(subnet: &Object) -> u64 {
    let sizes = list(subnet, "allocation_pools").iter().filter_map(|pool| {
        let bound = |key| pool.get(key)?.as_str()?.parse::<IpAddr>().ok().map(number);
        u64::try_from(bound("end")?.checked_sub(bound("start")?)?.saturating_add(1)).ok()
    });
    sizes.sum()
}

/// Returns the lowest free address of the subnet's pools.
fn next_free(state: &CloudState, subnet: &Object) -> Option<IpAddr> {
    list(subnet, "allocation_pools").iter().find_map(|pool| {
        let bound = |key| pool.get(key)?.as_str()?.parse::<IpAddr>().ok();
        let (start, end) = (bound("start")?, bound("end")?);
        let free = lowest_free(state, subnet, number(start));
        (free <= number(end)).then(|| address(start.is_ipv4(), free))
    })
}

fn subnets_of<'a>(state: &'a CloudState, network: &str) -> Vec<&'a Object> {
    state.with(ResourceKind::Subnet, "network_id", network)
}

fn exhausted(network: &str) -> Reply {
    let words = format!("No more IP addresses available on network {network}.");
    conflict("IpAddressGenerationFailure", &words)
}

/// Modes of IPv6 in which hosts form their own addresses.
const AUTOMATIC: [&str; 2] = ["slaac", "dhcpv6-stateless"];

/// `device_owner` of the interfaces of routers.
pub(super) const ROUTER_INTERFACE: &str = "network:router_interface";

/// Port that gets addresses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recipient<'a> {
    pub(crate) mac_address: &'a str,
    pub(crate) device_owner: &'a str,
}

impl Recipient<'_> {
    fn is_router(&self) -> bool {
        self.device_owner == ROUTER_INTERFACE
    }
}

/// Returns true if the hosts of a subnet form their own addresses.
pub(super) fn is_automatic(subnet: &Object) -> bool {
    ["ipv6_address_mode", "ipv6_ra_mode"].iter().any(|key| AUTOMATIC.contains(&text(subnet, key)))
}

/// Returns true if an address of a port is on a subnet whose hosts form their own addresses.
pub(super) fn is_formed(state: &CloudState, fixed_ip: &Value) -> bool {
    let subnet = fixed_ip.get("subnet_id").and_then(Value::as_str).unwrap_or_default();
    state.find(ResourceKind::Subnet, subnet).is_some_and(is_automatic)
}

/// Returns addresses for a new port in `network`: those in `requested`, or one of each IP version if none are requested,
/// and one on each subnet whose hosts form their own. The order of a port's addresses means nothing, so those that are
/// formed come first.
pub(crate) fn allocate(
    state: &CloudState,
    network: &str,
    requested: Option<&[Value]>,
    recipient: &Recipient<'_>,
) -> Result<Vec<Value>, Reply> {
    let assigned = match requested {
        None => one_of_each_version(state, network)?,
        Some(requested) => {
            let each = requested.iter().map(|fixed_ip| allocate_one(state, network, fixed_ip, recipient));
            each.collect::<Result<Vec<_>, _>>()?
        }
    };
    let is_known = |subnet: &&Object| assigned.iter().any(|it| it["subnet_id"] == text(subnet, "id"));
    let automatic = subnets_of(state, network).into_iter().filter(|subnet| is_automatic(subnet));
    let missing = automatic.filter(|subnet| !recipient.is_router() && !is_known(subnet));
    let mut addresses =
        missing.map(|subnet| formed(state, subnet, recipient)).collect::<Result<Vec<_>, _>>()?;
    addresses.extend(assigned);
    Ok(addresses)
}

/// Returns an address of each IP version that the network has, IPv4 first. A port of a network without subnets has no
/// address, which is no error.
fn one_of_each_version(state: &CloudState, network: &str) -> Result<Vec<Value>, Reply> {
    let mut addresses = Vec::new();
    for version in [4, 6] {
        let of_version = |subnet: &&Object| {
            !is_automatic(subnet) && subnet.get("ip_version").and_then(Value::as_u64) == Some(version)
        };
        let subnets: Vec<&Object> = subnets_of(state, network).into_iter().filter(of_version).collect();
        let mut found = subnets.iter().filter_map(|subnet| Some((subnet, next_free(state, subnet)?)));
        match found.next() {
            Some((subnet, free)) => {
                addresses.push(json!({"subnet_id": text(subnet, "id"), "ip_address": free.to_string()}));
            }
            None if subnets.is_empty() => {}
            None => return Err(exhausted(network)),
        }
    }
    Ok(addresses)
}

/// Returns the address that a port forms on a subnet.
fn formed(state: &CloudState, subnet: &Object, recipient: &Recipient<'_>) -> Result<Value, Reply> {
    let range = Network::parse(text(subnet, "cidr"));
    let formed = range.and_then(|range| range.formed(recipient.mac_address));
    let free = formed.filter(|address| !is_used(state, subnet, *address));
    let address = free.ok_or_else(|| exhausted(text(subnet, "network_id")))?;
    Ok(json!({"subnet_id": text(subnet, "id"), "ip_address": address.to_string()}))
}

/// Returns one requested address of a port.
pub(crate) fn allocate_one(
    state: &CloudState,
    network: &str,
    fixed_ip: &Value,
    recipient: &Recipient<'_>,
) -> Result<Value, Reply> {
    let subnet_id = fixed_ip.get("subnet_id").and_then(Value::as_str);
    let requested = fixed_ip.get("ip_address").and_then(Value::as_str);
    let subnet = match (subnet_id, requested) {
        (Some(id), _) => {
            let subnet =
                state.find(ResourceKind::Subnet, id).ok_or_else(|| ResourceKind::Subnet.missing(id))?;
            if text(subnet, "network_id") != network {
                let words = format!(
                    "Invalid input for operation: Failed to create port on network {network}, because \
                     fixed_ips included invalid subnet {id}."
                );
                return Err(bad_request("InvalidInput", &words));
            }
            subnet
        }
        (None, Some(requested)) => containing(state, network, requested)?,
        (None, None) => {
            let words = "Invalid input for operation: IP allocation requires subnet_id or ip_address.";
            return Err(bad_request("InvalidInput", words));
        }
    };
    let id = text(subnet, "id");
    let is_formed = is_automatic(subnet) && !recipient.is_router();
    let address = match requested {
        Some(requested) if is_formed => {
            let words = format!(
                "IPv6 address {requested} cannot be directly assigned to a port on subnet {id} as the subnet is \
                 configured for automatic addresses"
            );
            return Err(bad_request("AllocationOnAutoAddressSubnet", &words));
        }
        None if is_formed => return formed(state, subnet, recipient),
        Some(requested) => fixed(state, subnet, requested)?,
        None => next_free(state, subnet).ok_or_else(|| exhausted(network))?,
    };
    Ok(json!({"subnet_id": id, "ip_address": address.to_string()}))
}

/// Returns the subnet of the network that contains the address.
fn containing<'a>(state: &'a CloudState, network: &str, requested: &str) -> Result<&'a Object, Reply> {
    let inside = |subnet: &&Object| {
        let range = Network::parse(text(subnet, "cidr"));
        requested.parse().is_ok_and(|address| range.is_some_and(|range| range.contains(address)))
    };
    subnets_of(state, network).into_iter().find(inside).ok_or_else(|| {
        let words = format!(
            "IP address {requested} is not a valid IP for any of the subnets on the specified network."
        );
        bad_request("InvalidIpForNetwork", &words)
    })
}

/// Returns the address itself, if it belongs to the subnet and is free.
fn fixed(state: &CloudState, subnet: &Object, requested: &str) -> Result<IpAddr, Reply> {
    let range = Network::parse(text(subnet, "cidr"));
    let address: Option<IpAddr> = requested.parse().ok();
    let address = address.filter(|address| range.is_some_and(|range| range.contains(*address)));
    let address = address.ok_or_else(|| {
        let words = format!("IP address {requested} is not a valid IP for the specified subnet.");
        bad_request("InvalidIpForSubnet", &words)
    })?;
    if is_used(state, subnet, address) {
        let words = format!("IP address {requested} already allocated in subnet {}", text(subnet, "id"));
        return Err(conflict("IpAddressAlreadyAllocated", &words));
    }
    Ok(address)
}
