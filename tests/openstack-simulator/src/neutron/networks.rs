//! Handlers for Neutron networks.

use http::StatusCode;
use serde_json::json;

use super::resource::{apply, changes, check_quota, draft, reply};
use super::{ResourceKind, conflict, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, flag, set, text};
use crate::state::CloudState;

/// Returns the defaults of a network.
pub(crate) fn defaults() -> serde_json::Value {
    json!({
        "name": "", "description": "", "admin_state_up": true, "shared": false, "mtu": 1450,
        "router:external": false, "is_default": false, "port_security_enabled": true,
        "availability_zone_hints": [], "dns_domain": "", "provider:network_type": null,
        "provider:physical_network": null, "provider:segmentation_id": null,
    })
}

/// Checks that only admins share a network.
fn check_policy(context: &Context<'_>, object: &Object, verb: &str) -> Result<(), Reply> {
    let risky = ["shared", "router:external"].into_iter().find(|key| flag(object, key));
    let Some(key) = risky.filter(|_| !context.caller.admin) else { return Ok(()) };
    let words = format!("(rule:{verb}_network and rule:{verb}_network:{key}) is disallowed by policy");
    Err(refusal(StatusCode::FORBIDDEN, "PolicyNotAuthorized", &words))
}

/// `POST /networks`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let mut network = draft(context, ResourceKind::Network, defaults(), &[])?;
    check_policy(context, &network, "create")?;
    check_quota(state, ResourceKind::Network, text(&network, "project_id"))?;
    network.retain(|key, _| !key.starts_with("provider:") && key != "dns_domain");
    complete(&mut network);
    let id = text(&network, "id").to_owned();
    state.insert(ResourceKind::Network, network);
    reply(state, ResourceKind::Network, &id, StatusCode::CREATED)
}

/// Adds the attributes that no client sets.
pub(super) fn complete(network: &mut Object) {
    set(network, "status", "ACTIVE");
    set(network, "availability_zones", json!([]));
    set(network, "ipv4_address_scope", json!(null));
    set(network, "ipv6_address_scope", json!(null));
    set(network, "l2_adjacency", true);
    set(network, "revision_number", 1);
}

/// `PUT /networks/{id}`.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let allowed = [
        "name",
        "description",
        "admin_state_up",
        "shared",
        "mtu",
        "router:external",
        "is_default",
        "port_security_enabled",
    ];
    let changes = changes(state, context, ResourceKind::Network, id, &allowed)?;
    check_policy(context, &changes, "update")?;
    apply(state, context, ResourceKind::Network, id, changes)
}

/// Deletes the network and its subnets, unless the network is in use.
pub(super) fn delete(state: &mut CloudState, id: &str) -> Result<(), Reply> {
    let ports = state.with(ResourceKind::Port, "network_id", id).into_iter();
    let floating = state.with(ResourceKind::FloatingIp, "floating_network_id", id);
    let holders: Vec<&str> = ports.chain(floating).map(|holder| text(holder, "id")).collect();
    if !holders.is_empty() {
        let words = format!(
            "Unable to complete operation on network {id}. There are one or more ports still in use on the \
             network, id for these ports is: {}.",
            holders.join(",")
        );
        return Err(conflict("NetworkInUse", &words));
    }
    state.remove(ResourceKind::Network, id);
    state.remove_with(ResourceKind::Subnet, "network_id", id);
    Ok(())
}
