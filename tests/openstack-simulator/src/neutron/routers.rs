//! Handlers for Neutron routers and their gateways.

use http::StatusCode;
use serde_json::{Value, json};

use super::allocation::ROUTER_INTERFACE;
use super::resource::{apply, changes, check_quota, draft, find, find_own, reply};
use super::{Recipient, ResourceKind, allocate, allocate_one, bad_request, conflict};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, flag, list, set, text};
use crate::state::CloudState;

/// Returns the defaults of a router.
fn defaults() -> Value {
    json!({
        "name": "", "description": "", "admin_state_up": true, "external_gateway_info": null,
        "availability_zone_hints": [], "flavor_id": null, "routes": [], "distributed": false, "ha": false,
    })
}

/// `POST /routers`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let mut router = draft(context, ResourceKind::Router, defaults(), &[])?;
    check_quota(state, ResourceKind::Router, text(&router, "project_id"))?;
    let gateway = gateway(state, context, router.get("external_gateway_info"), &[])?;
    set(&mut router, "external_gateway_info", gateway);
    set(&mut router, "status", "ACTIVE");
    set(&mut router, "availability_zones", json!([]));
    router.remove("distributed");
    router.remove("ha");
    let id = text(&router, "id").to_owned();
    state.insert(ResourceKind::Router, router);
    reply(state, ResourceKind::Router, &id, StatusCode::CREATED)
}

/// Port of a gateway. External networks of the simulator have no subnet on which it would form an address.
const GATEWAY: Recipient<'static> = Recipient { mac_address: "", device_owner: "network:router_gateway" };

/// Returns the gateway that the body requests, with an address of the external network. `held` are the addresses that the
/// router has on this network.
fn gateway(
    state: &CloudState,
    context: &Context<'_>,
    requested: Option<&Value>,
    held: &[Value],
) -> Result<Value, Reply> {
    let Some(requested) = requested.and_then(Value::as_object).filter(|requested| !requested.is_empty())
    else {
        return Ok(Value::Null);
    };
    let network_id = text(requested, "network_id");
    let network = find(state, context, ResourceKind::Network, network_id)?;
    if !flag(network, "router:external") {
        let words = format!("Bad router request: Network {network_id} is not an external network.");
        return Err(bad_request("BadRequest", &words));
    }
    let addresses =
        requested.get("external_fixed_ips").and_then(Value::as_array).filter(|list| !list.is_empty());
    let fixed_ips = match addresses {
        None => allocate(state, network_id, None, &GATEWAY)?,
        Some(addresses) => {
            let mut fixed_ips = Vec::new();
            for address in addresses {
                let kept = held.iter().find(|it| is_held(it, address)).cloned();
                match kept {
                    Some(kept) => fixed_ips.push(kept),
                    None => fixed_ips.push(allocate_one(state, network_id, address, &GATEWAY)?),
                }
            }
            fixed_ips
        }
    };
    let snat = requested.get("enable_snat").and_then(Value::as_bool).unwrap_or(true);
    Ok(json!({"network_id": network_id, "external_fixed_ips": fixed_ips, "enable_snat": snat}))
}

/// Returns true if a held address is the requested one, or is on the requested subnet if no address is requested.
fn is_held(held: &Value, requested: &Value) -> bool {
    let same = |key: &str| requested.get(key).is_none_or(|value| held.get(key) == Some(value));
    same("subnet_id") && same("ip_address")
}

/// Returns the external network of the router.
pub(super) fn external_network(router: &Object) -> &str {
    let info = router.get("external_gateway_info").and_then(Value::as_object);
    info.map(|info| text(info, "network_id")).unwrap_or_default()
}

/// `PUT /routers/{id}`.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let allowed = ["name", "description", "admin_state_up", "external_gateway_info", "routes"];
    let mut changes = changes(state, context, ResourceKind::Router, id, &allowed)?;
    let router = state.find(ResourceKind::Router, id).ok_or_else(|| ResourceKind::Router.missing(id))?;
    if let Some(requested) = changes.get("external_gateway_info") {
        let before = external_network(router);
        let after = requested.as_object().map(|requested| text(requested, "network_id")).unwrap_or_default();
        let requests_address = requested.get("external_fixed_ips").is_some();
        if before == after && !after.is_empty() && !requests_address {
            changes.remove("external_gateway_info");
        } else {
            // Neutron gives the gateway other addresses on the same network also while floating IPs need it.
            let stays = before == after && !after.is_empty();
            if !stays {
                check_floating(state, id, before)?;
            }
            let info = router.get("external_gateway_info").and_then(Value::as_object);
            let held = info.filter(|_| stays).map_or(&[][..], |info| list(info, "external_fixed_ips"));
            let gateway = gateway(state, context, Some(requested), held)?;
            set(&mut changes, "external_gateway_info", gateway);
        }
    }
    apply(state, context, ResourceKind::Router, id, changes)
}

/// `PUT /routers/{id}/remove_extraroutes`. Routes that the router does not have are ignored.
pub(super) fn remove_routes(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let router = find_own(state, context, ResourceKind::Router, id, "update")?;
    let body = context.whole_body();
    let removed = body.get("router").and_then(Value::as_object).map_or(&[][..], |it| list(it, "routes"));
    let stays: Vec<Value> =
        list(router, "routes").iter().filter(|route| !removed.contains(route)).cloned().collect();
    let mut changes = Object::new();
    set(&mut changes, "routes", stays);
    apply(state, context, ResourceKind::Router, id, changes)
}

/// Returns an error if floating IPs need the gateway that is removed.
fn check_floating(state: &CloudState, id: &str, network: &str) -> Result<(), Reply> {
    if state.with(ResourceKind::FloatingIp, "router_id", id).is_empty() {
        return Ok(());
    }
    let words = format!(
        "Gateway cannot be updated for router {id}, since a gateway to external network {network} is required \
         by one or more floating IPs."
    );
    Err(conflict("RouterExternalGatewayInUseByFloatingIp", &words))
}

/// Returns the interface ports of the router.
pub(super) fn interfaces<'a>(state: &'a CloudState, id: &'a str) -> impl Iterator<Item = &'a Object> {
    let ports = state.with(ResourceKind::Port, "device_id", id).into_iter();
    ports.filter(|port| text(port, "device_owner") == ROUTER_INTERFACE)
}

/// Returns the interface port of the router in the subnet.
pub(super) fn interface_in<'a>(state: &'a CloudState, id: &'a str, subnet: &str) -> Option<&'a Object> {
    interfaces(state, id).find(|port| {
        let mut fixed = list(port, "fixed_ips").iter();
        fixed.any(|fixed| fixed.get("subnet_id").and_then(Value::as_str) == Some(subnet))
    })
}

/// Deletes the router, unless it has interfaces.
pub(super) fn delete(state: &mut CloudState, id: &str) -> Result<(), Reply> {
    let held: Vec<&str> = interfaces(state, id).map(|port| text(port, "id")).collect();
    if !held.is_empty() {
        let words = format!("Router {id} has ports still attached: {}", held.join(", "));
        return Err(conflict("RouterInUse", &words));
    }
    state.remove(ResourceKind::Router, id);
    Ok(())
}
