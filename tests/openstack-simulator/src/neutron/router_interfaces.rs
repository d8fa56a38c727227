//! Handlers for interfaces between Neutron routers and subnets.

use http::StatusCode;
use serde_json::{Value, json};

use super::resource::{find, find_own};
use super::routers::interface_in;
use super::{ResourceKind, bad_request, conflict, ports, refusal};
use crate::address::Network;
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{list, set, text, touch};
use crate::state::CloudState;

fn refused(words: &str) -> Reply {
    bad_request("BadRequest", &format!("Bad router request: {words}"))
}

fn summary(state: &CloudState, router: &str, port: &crate::object::Object) -> Value {
    let subnets: Vec<&str> =
        list(port, "fixed_ips").iter().filter_map(|fixed| fixed.get("subnet_id")?.as_str()).collect();
    let project =
        state.find(ResourceKind::Router, router).map(|router| text(router, "project_id")).unwrap_or_default();
    json!({
        "id": router, "tenant_id": project, "port_id": text(port, "id"), "network_id": text(port, "network_id"),
        "subnet_id": subnets.first(), "subnet_ids": subnets,
    })
}

/// `PUT /routers/{id}/add_router_interface`: by subnet, or with an existing port.
pub(super) fn add(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let project =
        text(find_own(state, context, ResourceKind::Router, id, "update")?, "project_id").to_owned();
    let body = context.whole_body();
    let port_id = match (text(&body, "subnet_id"), text(&body, "port_id")) {
        ("", "") => return Err(refused("Either subnet_id or port_id must be specified.")),
        (subnet, "") => add_subnet(state, context, id, subnet, &project)?,
        ("", port) => add_port(state, context, id, port)?,
        (_, _) => return Err(refused("Cannot specify both subnet-id and port-id.")),
    };
    let port =
        state.find(ResourceKind::Port, &port_id).ok_or_else(|| ResourceKind::Port.missing(&port_id))?;
    Ok(Reply::ok(&summary(state, id, port)))
}

fn add_subnet(
    state: &mut CloudState,
    context: &Context<'_>,
    id: &str,
    subnet_id: &str,
    project: &str,
) -> Result<String, Reply> {
    let subnet = find(state, context, ResourceKind::Subnet, subnet_id)?;
    let gateway = text(subnet, "gateway_ip").to_owned();
    let network = text(subnet, "network_id").to_owned();
    if gateway.is_empty() {
        return Err(refused("Subnet for router interface must have a gateway IP."));
    }
    if interface_in(state, id, subnet_id).is_some() {
        return Err(refused(&format!("Router already has a port on subnet {subnet_id}.")));
    }
    let attributes = json!({
        "fixed_ips": [{"subnet_id": subnet_id, "ip_address": gateway}], "device_id": id,
        "device_owner": "network:router_interface", "port_security_enabled": false,
    });
    ports::make(state, context, &network, project, attributes)
}

fn add_port(state: &mut CloudState, context: &Context<'_>, id: &str, port_id: &str) -> Result<String, Reply> {
    let port = find(state, context, ResourceKind::Port, port_id)?;
    let device = text(port, "device_id");
    if !device.is_empty() {
        let words = format!(
            "Unable to complete operation on port {port_id} for network {}. Port already has an attached device {device}.",
            text(port, "network_id")
        );
        return Err(conflict("PortInUse", &words));
    }
    if let Some(port) = state.find_mut(ResourceKind::Port, port_id) {
        set(port, "device_id", id);
        set(port, "device_owner", "network:router_interface");
        touch(port, context.now);
    }
    Ok(port_id.to_owned())
}

/// `PUT /routers/{id}/remove_router_interface`: by subnet or by port.
pub(super) fn remove(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    find_own(state, context, ResourceKind::Router, id, "update")?;
    let body = context.whole_body();
    let (subnet, port) = (text(&body, "subnet_id"), text(&body, "port_id"));
    if subnet.is_empty() && port.is_empty() {
        return Err(refused("Either subnet_id or port_id must be specified."));
    }
    let interface = if subnet.is_empty() {
        let held = state.find(ResourceKind::Port, port).filter(|held| text(held, "device_id") == id);
        held.ok_or_else(|| {
            let words = format!("Router {id} does not have an interface with id {port}");
            refusal(StatusCode::NOT_FOUND, "RouterInterfaceNotFound", &words)
        })?
    } else {
        interface_in(state, id, subnet).ok_or_else(|| {
            let words = format!("Router {id} has no interface on subnet {subnet}");
            refusal(StatusCode::NOT_FOUND, "RouterInterfaceNotFoundForSubnet", &words)
        })?
    };
    let summary = summary(state, id, interface);
    let port_id = text(interface, "id").to_owned();
    check_floating(state, id, &summary)?;
    check_routes(state, id, &summary)?;
    ports::discard(state, &port_id, context.now);
    Ok(Reply::ok(&summary))
}

/// Returns an error if ports have floating IPs through this interface.
fn check_floating(state: &CloudState, id: &str, summary: &Value) -> Result<(), Reply> {
    let subnet = summary.get("subnet_id").and_then(Value::as_str).unwrap_or_default();
    let needs = state.with(ResourceKind::FloatingIp, "router_id", id).into_iter().any(|floating| {
        let port = state.find(ResourceKind::Port, text(floating, "port_id"));
        let mut fixed = port.into_iter().flat_map(|port| list(port, "fixed_ips"));
        fixed.any(|fixed| fixed.get("subnet_id").and_then(Value::as_str) == Some(subnet))
    });
    if !needs {
        return Ok(());
    }
    let words = format!(
        "Router interface for subnet {subnet} on router {id} cannot be deleted, as it is required by one or more \
         floating IPs."
    );
    Err(conflict("RouterInterfaceInUseByFloatingIP", &words))
}

/// Returns an error if a route of the router leads through this interface.
fn check_routes(state: &CloudState, id: &str, summary: &Value) -> Result<(), Reply> {
    let subnet = summary.get("subnet_id").and_then(Value::as_str).unwrap_or_default();
    let range = state.find(ResourceKind::Subnet, subnet).and_then(|it| Network::parse(text(it, "cidr")));
    let Some((range, router)) = range.zip(state.find(ResourceKind::Router, id)) else { return Ok(()) };
    let mut hops = list(router, "routes").iter().filter_map(|route| route.get("nexthop")?.as_str());
    if !hops.any(|hop| hop.parse().is_ok_and(|hop| range.contains(hop))) {
        return Ok(());
    }
    let words = format!(
        "Router interface for subnet {subnet} on router {id} cannot be deleted, as it is required by one or more \
         routes."
    );
    Err(conflict("RouterInterfaceInUseByRoute", &words))
}
