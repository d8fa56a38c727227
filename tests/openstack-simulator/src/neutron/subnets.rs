//! Handlers for Neutron subnets.

use std::net::IpAddr;

use http::StatusCode;
use serde_json::{Value, json};

use super::allocation::is_automatic;
use super::resource::{apply, changes, check_quota, draft, find_own, reply};
use super::{ResourceKind, bad_request, conflict};
use crate::address::Network;
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, flag, list, set, text, touch};
use crate::state::CloudState;

/// Returns the defaults of a subnet.
fn defaults() -> Value {
    json!({
        "name": "", "description": "", "enable_dhcp": true, "subnetpool_id": null, "ipv6_ra_mode": null,
        "ipv6_address_mode": null, "gateway_ip": "", "allocation_pools": [], "host_routes": [],
        "dns_nameservers": [], "service_types": [], "cidr": "", "prefixlen": null, "segment_id": null,
    })
}

fn invalid(words: &str) -> Reply {
    bad_request("InvalidInput", &format!("Invalid input for operation: {words}"))
}

/// `POST /subnets`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let mut subnet = draft(context, ResourceKind::Subnet, defaults(), &["network_id", "ip_version"])?;
    let network = text(&subnet, "network_id").to_owned();
    find_own(state, context, ResourceKind::Network, &network, "create_subnet_on")
        .map_err(|_| ResourceKind::Network.missing(&network))?;
    let range = check_range(state, &subnet, &network)?;
    check_modes(&subnet, &range)?;
    check_quota(state, ResourceKind::Subnet, text(&subnet, "project_id"))?;
    complete(&mut subnet, &range)?;
    let id = text(&subnet, "id").to_owned();
    state.insert(ResourceKind::Subnet, subnet);
    if let Some(network) = state.find_mut(ResourceKind::Network, &network) {
        touch(network, context.now);
    }
    reply(state, ResourceKind::Subnet, &id, StatusCode::CREATED)
}

fn check_range(state: &CloudState, subnet: &Object, network: &str) -> Result<Network, Reply> {
    let cidr = text(subnet, "cidr");
    let range = Network::parse(cidr).ok_or_else(|| invalid(&format!("{cidr} is not in a CIDR format.")))?;
    let version = if range.is_v4() { 4 } else { 6 };
    if subnet.get("ip_version").and_then(Value::as_u64) != Some(version) {
        return Err(invalid(&format!(
            "cidr '{cidr}' does not match the ip_version '{}'",
            subnet["ip_version"]
        )));
    }
    let siblings = state.with(ResourceKind::Subnet, "network_id", network);
    let overlaps =
        |other: &Object| Network::parse(text(other, "cidr")).is_some_and(|other| range.overlaps(&other));
    if siblings.into_iter().any(overlaps) {
        let words = format!(
            "Requested subnet with cidr: {cidr} for network: {network} overlaps with another subnet."
        );
        return Err(invalid(&words));
    }
    Ok(range)
}

/// Checks the modes by which hosts get their addresses of IPv6.
fn check_modes(subnet: &Object, range: &Network) -> Result<(), Reply> {
    let keys = ["ipv6_ra_mode", "ipv6_address_mode"];
    let [announced, address] = keys.map(|key| text(subnet, key));
    let named = keys.into_iter().find(|key| !text(subnet, key).is_empty());
    let Some(named) = named else { return Ok(()) };
    if range.is_v4() {
        return Err(invalid(&format!("{named} is not valid when ip_version is 4.")));
    }
    if !flag(subnet, "enable_dhcp") {
        let words = "ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to False.";
        return Err(invalid(words));
    }
    if !announced.is_empty() && !address.is_empty() && announced != address {
        return Err(invalid(&format!(
            "ipv6_ra_mode set to '{announced}' with ipv6_address_mode set to '{address}' is not valid. If both \
             attributes are set, they must be the same value."
        )));
    }
    let cidr = text(subnet, "cidr");
    if is_automatic(subnet) && !cidr.ends_with("/64") {
        return Err(invalid(&format!(
            "Invalid CIDR {cidr} for IPv6 address mode. OpenStack uses the EUI-64 address format, which requires the \
             prefix to be /64."
        )));
    }
    Ok(())
}

/// Adds the gateway and the pools.
pub(super) fn complete(subnet: &mut Object, range: &Network) -> Result<(), Reply> {
    let gateway = match subnet.get("gateway_ip") {
        Some(Value::Null) => None,
        Some(Value::String(requested)) if !requested.is_empty() => {
            let parsed: Result<IpAddr, _> = requested.parse();
            Some(parsed.map_err(|_| {
                let words =
                    format!("Invalid input for gateway_ip. Reason: '{requested}' is not a valid IP address.");
                bad_request("HTTPBadRequest", &words)
            })?)
        }
        _ => Some(range.gateway()),
    };
    if list(subnet, "allocation_pools").is_empty() {
        let pools: Vec<Value> = range
            .pools(gateway)
            .into_iter()
            .map(|(start, end)| json!({"start": start.to_string(), "end": end.to_string()}))
            .collect();
        set(subnet, "allocation_pools", pools);
    } else {
        check_pools(subnet, range)?;
    }
    set(subnet, "gateway_ip", json!(gateway.map(|gateway| gateway.to_string())));
    subnet.remove("prefixlen");
    subnet.remove("segment_id");
    Ok(())
}

fn check_pools(subnet: &Object, range: &Network) -> Result<(), Reply> {
    for pool in list(subnet, "allocation_pools") {
        let bound = |key: &str| pool.get(key)?.as_str()?.parse::<IpAddr>().ok();
        let (Some(start), Some(end)) = (bound("start"), bound("end")) else {
            let words = format!(
                "Invalid input for allocation_pools. Reason: Invalid data format for IP pool: '{pool}'."
            );
            return Err(bad_request("HTTPBadRequest", &words));
        };
        if start > end {
            let words = format!("The allocation pool {start}-{end} is not valid.");
            return Err(bad_request("InvalidAllocationPool", &words));
        }
        if !range.contains(start) || !range.contains(end) {
            let words = format!(
                "The allocation pool {start}-{end} spans beyond the subnet cidr {}.",
                text(subnet, "cidr")
            );
            return Err(bad_request("OutOfBoundsAllocationPool", &words));
        }
    }
    Ok(())
}

/// `PUT /subnets/{id}`.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let allowed = [
        "name",
        "description",
        "enable_dhcp",
        "gateway_ip",
        "allocation_pools",
        "host_routes",
        "dns_nameservers",
        "service_types",
    ];
    let changes = changes(state, context, ResourceKind::Subnet, id, &allowed)?;
    apply(state, context, ResourceKind::Subnet, id, changes)
}

/// Deletes the subnet, unless a port has an address of it.
pub(super) fn delete(state: &mut CloudState, id: &str, context: &Context<'_>) -> Result<(), Reply> {
    // Ports have addresses on subnets of their network only.
    let network = state.find(ResourceKind::Subnet, id).map(|subnet| text(subnet, "network_id"));
    let ports = state.with(ResourceKind::Port, "network_id", network.unwrap_or_default()).into_iter();
    let mut addresses = ports.flat_map(|port| list(port, "fixed_ips"));
    let in_use = addresses.any(|fixed| fixed.get("subnet_id").and_then(Value::as_str) == Some(id));
    drop(addresses);
    if in_use {
        let words = format!(
            "Unable to complete operation on subnet {id}: One or more ports have an IP allocation from this subnet."
        );
        return Err(conflict("SubnetInUse", &words));
    }
    let removed = state.remove(ResourceKind::Subnet, id).unwrap_or_default();
    if let Some(network) = state.find_mut(ResourceKind::Network, text(&removed, "network_id")) {
        touch(network, context.now);
    }
    Ok(())
}
