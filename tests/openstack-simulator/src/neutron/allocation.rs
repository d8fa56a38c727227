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
    let id = text(subnet, "id");
    let network = text(subnet, "network_id");
    let ports = state.table(ResourceKind::Port).flat_map(|port| list(port, "fixed_ips"));
    let routers = state
        .table(ResourceKind::Router)
        .filter_map(|router| router.get("external_gateway_info")?.as_object());
    let gateways = routers.flat_map(|info| list(info, "external_fixed_ips"));
    let fixed = ports
        .chain(gateways)
        .filter(|fixed| fixed.get("subnet_id").and_then(Value::as_str) == Some(id))
        .filter_map(|fixed| fixed.get("ip_address")?.as_str());
    let floating = state
        .table(ResourceKind::FloatingIp)
        .filter(|floating| text(floating, "floating_network_id") == network)
        .map(|floating| text(floating, "floating_ip_address"));
    fixed.chain(floating).filter_map(|address| address.parse().ok()).map(number).collect()
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
    let used = used(state, subnet);
    list(subnet, "allocation_pools").iter().find_map(|pool| {
        let bound = |key| pool.get(key)?.as_str()?.parse::<IpAddr>().ok();
        let (start, end) = (bound("start")?, bound("end")?);
        let free = (number(start)..=number(end)).find(|candidate| !used.contains(candidate))?;
        Some(address(start.is_ipv4(), free))
    })
}

fn subnets_of<'a>(state: &'a CloudState, network: &str) -> Vec<&'a Object> {
    state.table(ResourceKind::Subnet).filter(|subnet| text(subnet, "network_id") == network).collect()
}

fn exhausted(network: &str) -> Reply {
    let words = format!("No more IP addresses available on network {network}.");
    conflict("IpAddressGenerationFailure", &words)
}

/// Returns addresses for a new port in `network`: those in `requested`, or one IPv4 address if none are
/// requested.
pub(crate) fn allocate(
    state: &CloudState,
    network: &str,
    requested: Option<&[Value]>,
) -> Result<Vec<Value>, Reply> {
    let Some(requested) = requested else {
        let subnets = subnets_of(state, network);
        if subnets.is_empty() {
            // A port of a network without subnets has no address, which is no error.
            return Ok(Vec::new());
        }
        let is_v4 = |subnet: &&&Object| subnet.get("ip_version").and_then(Value::as_u64) == Some(4);
        let v4 = subnets.iter().filter(is_v4).chain(subnets.iter().filter(|subnet| !is_v4(subnet)));
        let mut found = v4.filter_map(|subnet| Some((subnet, next_free(state, subnet)?)));
        let (subnet, free) = found.next().ok_or_else(|| exhausted(network))?;
        return Ok(vec![json!({"subnet_id": text(subnet, "id"), "ip_address": free.to_string()})]);
    };
    requested.iter().map(|fixed_ip| allocate_one(state, network, fixed_ip)).collect()
}

fn allocate_one(state: &CloudState, network: &str, fixed_ip: &Value) -> Result<Value, Reply> {
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
    let address = match requested {
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
    if used(state, subnet).contains(&number(address)) {
        let words = format!("IP address {requested} already allocated in subnet {}", text(subnet, "id"));
        return Err(conflict("IpAddressAlreadyAllocated", &words));
    }
    Ok(address)
}
