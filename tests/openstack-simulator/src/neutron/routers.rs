//! Routers and their way out.

use http::StatusCode;
use serde_json::{Value, json};

use super::resource::{apply, changes, check_quota, draft, find, reply};
use super::{Kind, allocate, bad_request, conflict};
use crate::context::Context;
use crate::http::{Answer, Reply};
use crate::object::{Object, flag, list, set, text};
use crate::state::State;

/// A router nobody has wishes for.
fn defaults() -> Value {
    json!({
        "name": "", "description": "", "admin_state_up": true, "external_gateway_info": null,
        "availability_zone_hints": [], "flavor_id": null, "routes": [], "distributed": false, "ha": false,
    })
}

/// `POST /routers`.
pub(super) fn create(state: &mut State, context: &Context<'_>) -> Answer {
    let mut router = draft(context, Kind::Router, defaults(), &[])?;
    check_quota(state, Kind::Router, text(&router, "project_id"))?;
    let gateway = gateway(state, context, router.get("external_gateway_info"))?;
    set(&mut router, "external_gateway_info", gateway);
    set(&mut router, "status", "ACTIVE");
    set(&mut router, "availability_zones", json!([]));
    router.remove("distributed");
    router.remove("ha");
    let id = text(&router, "id").to_owned();
    state.insert(Kind::Router, router);
    reply(state, Kind::Router, &id, StatusCode::CREATED)
}

/// The gateway that the body asks for, with an address of the external network.
fn gateway(state: &State, context: &Context<'_>, wanted: Option<&Value>) -> Result<Value, Reply> {
    let Some(wanted) = wanted.and_then(Value::as_object).filter(|wanted| !wanted.is_empty()) else {
        return Ok(Value::Null);
    };
    let network_id = text(wanted, "network_id");
    let network = find(state, context, Kind::Network, network_id)?;
    if !flag(network, "router:external") {
        let words = format!("Bad router request: Network {network_id} is not an external network.");
        return Err(bad_request("BadRequest", &words));
    }
    let addresses =
        wanted.get("external_fixed_ips").and_then(Value::as_array).filter(|list| !list.is_empty());
    let fixed_ips = allocate(state, network_id, addresses.map(Vec::as_slice))?;
    let snat = wanted.get("enable_snat").and_then(Value::as_bool).unwrap_or(true);
    Ok(json!({"network_id": network_id, "external_fixed_ips": fixed_ips, "enable_snat": snat}))
}

/// The external network of the router.
pub(super) fn external_network(router: &Object) -> &str {
    let info = router.get("external_gateway_info").and_then(Value::as_object);
    info.map(|info| text(info, "network_id")).unwrap_or_default()
}

/// `PUT /routers/{id}`.
pub(super) fn update(state: &mut State, context: &Context<'_>, id: &str) -> Answer {
    let allowed = ["name", "description", "admin_state_up", "external_gateway_info", "routes"];
    let mut changes = changes(state, context, Kind::Router, id, &allowed)?;
    let router = state.find(Kind::Router, id).ok_or_else(|| Kind::Router.missing(id))?;
    if let Some(wanted) = changes.get("external_gateway_info") {
        let before = external_network(router);
        let after = wanted.as_object().map(|wanted| text(wanted, "network_id")).unwrap_or_default();
        let asks_address = wanted.get("external_fixed_ips").is_some();
        if before == after && !after.is_empty() && !asks_address {
            changes.remove("external_gateway_info");
        } else {
            check_floating(state, id, before)?;
            let gateway = gateway(state, context, Some(wanted))?;
            set(&mut changes, "external_gateway_info", gateway);
        }
    }
    apply(state, context, Kind::Router, id, changes)
}

/// Refuses to take away the gateway that floating IPs need.
fn check_floating(state: &State, id: &str, network: &str) -> Result<(), Reply> {
    if !state.table(Kind::FloatingIp).any(|floating| text(floating, "router_id") == id) {
        return Ok(());
    }
    let words = format!(
        "Gateway cannot be updated for router {id}, since a gateway to external network {network} is required \
         by one or more floating IPs."
    );
    Err(conflict("RouterExternalGatewayInUseByFloatingIp", &words))
}

/// The interface ports of the router.
pub(super) fn interfaces<'a>(state: &'a State, id: &'a str) -> impl Iterator<Item = &'a Object> {
    state.table(Kind::Port).filter(move |port| {
        text(port, "device_id") == id && text(port, "device_owner") == "network:router_interface"
    })
}

/// The interface port of the router in the subnet.
pub(super) fn interface_in<'a>(state: &'a State, id: &'a str, subnet: &str) -> Option<&'a Object> {
    interfaces(state, id).find(|port| {
        let mut fixed = list(port, "fixed_ips").iter();
        fixed.any(|fixed| fixed.get("subnet_id").and_then(Value::as_str) == Some(subnet))
    })
}

/// Deletes the router, unless it has interfaces.
pub(super) fn delete(state: &mut State, id: &str) -> Result<(), Reply> {
    let held: Vec<&str> = interfaces(state, id).map(|port| text(port, "id")).collect();
    if !held.is_empty() {
        let words = format!("Router {id} has ports still attached: {}", held.join(", "));
        return Err(conflict("RouterInUse", &words));
    }
    state.remove(Kind::Router, id);
    Ok(())
}
