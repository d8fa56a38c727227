//! Neutron's count of the addresses of a network, which only administrators may read.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::allocation::{number_of_addresses, used};
use super::{ResourceKind, no_such_page, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::text;
use crate::state::CloudState;

/// Handles everything under `/network-ip-availabilities`. The policy of Neutron reserves it for administrators.
pub(super) fn handle(state: &CloudState, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    let (&Method::GET, [network]) = (&context.request.method, path) else { return Err(no_such_page()) };
    if !context.caller.admin {
        let words = "rule:get_network_ip_availability is disallowed by policy";
        return Err(refusal(StatusCode::FORBIDDEN, "PolicyNotAuthorized", words));
    }
    let found = state.table(ResourceKind::Network).find(|it| text(it, "id") == *network);
    let found = found.ok_or_else(|| ResourceKind::Network.missing(network))?;
    let of_network = state.table(ResourceKind::Subnet).filter(|it| text(it, "network_id") == *network);
    let subnets: Vec<Value> = of_network
        .map(|subnet| {
            json!({
                "subnet_id": subnet.get("id"), "subnet_name": subnet.get("name"), "cidr": subnet.get("cidr"),
                "ip_version": subnet.get("ip_version"),
                "total_ips": number_of_addresses(subnet), "used_ips": used(state, subnet).len(),
            })
        })
        .collect();
    let sum = |key: &str| subnets.iter().filter_map(|it| it.get(key)?.as_u64()).sum::<u64>();
    Ok(Reply::ok(&json!({"network_ip_availability": {
        "network_id": network, "network_name": found.get("name"), "tenant_id": found.get("project_id"),
        "project_id": found.get("project_id"), "total_ips": sum("total_ips"), "used_ips": sum("used_ips"),
        "subnet_ip_availability": subnets,
    }})))
}
