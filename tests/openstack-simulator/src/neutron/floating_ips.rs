//! Handlers for Neutron floating IPs.

use http::StatusCode;
use serde_json::{Value, json};

use super::allocation::ROUTER_INTERFACE;
use super::resource::{apply, changes, check_quota, draft, find, reply};
use super::routers::external_network;
use super::{Recipient, ResourceKind, allocate, allocate_one, bad_request, conflict, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, flag, list, set, text};
use crate::state::CloudState;

fn defaults() -> Value {
    json!({
        "description": "", "port_id": null, "fixed_ip_address": null, "floating_ip_address": null,
        "subnet_id": null, "dns_name": "", "dns_domain": "", "qos_policy_id": null,
    })
}

/// Port of a floating IP. External networks of the simulator have no subnet on which it would form an address.
const FLOATING: Recipient<'static> = Recipient { mac_address: "", device_owner: "network:floatingip" };

/// `POST /floatingips`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let mut floating = draft(context, ResourceKind::FloatingIp, defaults(), &["floating_network_id"])?;
    let requested = text(&floating, "floating_ip_address").to_owned();
    if !requested.is_empty() && !context.caller.admin {
        let words =
            "(rule:create_floatingip and rule:create_floatingip:floating_ip_address) is disallowed by policy";
        return Err(refusal(StatusCode::FORBIDDEN, "PolicyNotAuthorized", words));
    }
    let network_id = text(&floating, "floating_network_id").to_owned();
    let network = find(state, context, ResourceKind::Network, &network_id)?;
    if !flag(network, "router:external") {
        let words = format!("Bad floatingip request: Network {network_id} is not a valid external network.");
        return Err(bad_request("BadRequest", &words));
    }
    check_quota(state, ResourceKind::FloatingIp, text(&floating, "project_id"))?;
    let address = if requested.is_empty() {
        // The first one is of IPv4.
        allocate(state, &network_id, None, &FLOATING)?.into_iter().next().unwrap_or_default()
    } else {
        allocate_one(state, &network_id, &json!({"ip_address": requested}), &FLOATING)?
    };
    set(&mut floating, "floating_ip_address", address.get("ip_address").cloned().unwrap_or_default());
    floating
        .retain(|key, _| !matches!(key.as_str(), "subnet_id" | "dns_name" | "dns_domain" | "qos_policy_id"));
    let port = text(&floating, "port_id").to_owned();
    associate(state, context, &mut floating, &port)?;
    let id = text(&floating, "id").to_owned();
    state.insert(ResourceKind::FloatingIp, floating);
    reply(state, ResourceKind::FloatingIp, &id, StatusCode::CREATED)
}

/// `PUT /floatingips/{id}`: sets another port, no port, or another description.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let allowed = ["port_id", "fixed_ip_address", "description"];
    let changes = changes(state, context, ResourceKind::FloatingIp, id, &allowed)?;
    let mut floating = state.find(ResourceKind::FloatingIp, id).cloned().unwrap_or_default();
    // An update without `port_id` disassociates, too, as in Neutron.
    let keeps = !changes.contains_key("port_id") && changes.contains_key("description");
    let port = text(&changes, "port_id").to_owned();
    if !keeps {
        disassociate(&mut floating);
    }
    floating.extend(changes);
    if !keeps {
        associate(state, context, &mut floating, &port)?;
    }
    apply(state, context, ResourceKind::FloatingIp, id, floating)
}

/// Disassociates the floating IP from its port.
pub(super) fn disassociate(floating: &mut Object) {
    for key in ["port_id", "fixed_ip_address", "router_id"] {
        set(floating, key, Value::Null);
    }
    set(floating, "status", "DOWN");
}

/// Associates the floating IP with the port, through the router between them.
fn associate(
    state: &CloudState,
    context: &Context<'_>,
    floating: &mut Object,
    port_id: &str,
) -> Result<(), Reply> {
    if port_id.is_empty() {
        disassociate(floating);
        return Ok(());
    }
    let port = find(state, context, ResourceKind::Port, port_id)?;
    let (subnet, address) = fixed_address(port, text(floating, "fixed_ip_address"))?;
    let network = text(floating, "floating_network_id");
    check_free(state, floating, port_id, address)?;
    let router = router_between(state, text(port, "network_id"), subnet, network).ok_or_else(|| {
        let words = format!(
            "External network {network} is not reachable from subnet {subnet}.  Therefore, cannot associate Port \
             {port_id} with a Floating IP."
        );
        refusal(StatusCode::NOT_FOUND, "ExternalGatewayForFloatingIPNotFound", &words)
    })?;
    let (router, address) = (text(router, "id").to_owned(), address.to_owned());
    set(floating, "port_id", port_id);
    set(floating, "fixed_ip_address", address);
    set(floating, "router_id", router);
    set(floating, "status", "ACTIVE");
    Ok(())
}

/// Returns the first router that has an interface in the subnet of a network, and a gateway to an external network.
fn router_between<'a>(
    state: &'a CloudState,
    network: &str,
    subnet: &str,
    external: &str,
) -> Option<&'a Object> {
    let is_on = |fixed: &Value| fixed.get("subnet_id").and_then(Value::as_str) == Some(subnet);
    let ports = state.with(ResourceKind::Port, "network_id", network).into_iter();
    let interfaces = ports.filter(|port| {
        text(port, "device_owner") == ROUTER_INTERFACE && list(port, "fixed_ips").iter().any(is_on)
    });
    let routers = interfaces.filter_map(|port| state.find(ResourceKind::Router, text(port, "device_id")));
    let outside = routers.filter(|router| external_network(router) == external);
    outside.min_by(|one, other| text(one, "id").cmp(text(other, "id")))
}

/// Returns the requested address of the port, and its subnet. Floating IPs lead to addresses of IPv4 only.
fn fixed_address<'a>(port: &'a Object, requested: &str) -> Result<(&'a str, &'a str), Reply> {
    let mut addresses = list(port, "fixed_ips")
        .iter()
        .filter_map(|fixed| Some((fixed.get("subnet_id")?.as_str()?, fixed.get("ip_address")?.as_str()?)))
        .filter(|(_, address)| !address.contains(':'));
    let id = text(port, "id");
    addresses.find(|(_, address)| requested.is_empty() || *address == requested).ok_or_else(|| {
        let reason = if requested.is_empty() {
            format!("Cannot add floating IP to port {id} that has no fixed IPv4 addresses.")
        } else {
            format!("Port {id} does not have fixed ip {requested}.")
        };
        bad_request("BadRequest", &format!("Bad floatingip request: {reason}"))
    })
}

/// Returns an error for a second floating IP of the same network on one address.
fn check_free(state: &CloudState, floating: &Object, port_id: &str, address: &str) -> Result<(), Reply> {
    let network = text(floating, "floating_network_id");
    let id = text(floating, "id");
    let taken = state.with(ResourceKind::FloatingIp, "port_id", port_id).into_iter().any(|other| {
        text(other, "id") != id
            && text(other, "fixed_ip_address") == address
            && text(other, "floating_network_id") == network
    });
    if !taken {
        return Ok(());
    }
    let own = text(floating, "floating_ip_address");
    let words = format!(
        "Cannot associate floating IP {own} ({id}) with port {port_id} using fixed IP {address}, as that fixed IP \
         already has a floating IP on external network {network}."
    );
    Err(conflict("FloatingIPPortAlreadyAssociated", &words))
}
