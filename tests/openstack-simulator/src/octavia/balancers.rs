//! Handlers for load balancers.

use super::draft::{changes, check_quota, draft, find, with_basics};
use super::transitions::begin;
use super::*;
use crate::neutron::{ResourceKind, ports};
use crate::object::{list, set, text};

/// `device_owner` of the ports that Octavia creates.
pub(super) const OWNER: &str = "Octavia";

/// Attributes of a load balancer that users may set.
fn defaults() -> Value {
    with_basics(json!({
        "description": "", "vip_address": null, "vip_port_id": null, "vip_subnet_id": null,
        "vip_network_id": null, "vip_qos_policy_id": null, "provider": "amphora", "flavor_id": null,
        "availability_zone": null, "additional_vips": [],
    }))
}

/// `POST /loadbalancers`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let kind = BalancerKind::LoadBalancer;
    let mut new = draft(context, kind, defaults(), &[])?;
    check_placement(&mut new)?;
    check_quota(state, context, kind, 1)?;
    plug(state, context, &mut new)?;
    let id = text(&new, "id").to_owned();
    state.load_balancing.entry(kind).or_default().insert(id.clone(), new);
    begin(state, context, &id, vec![(kind, id.clone())], "PENDING_CREATE");
    listing::reply(state, kind, &id, StatusCode::CREATED)
}

/// Checks provider, flavor and availability zone.
fn check_placement(new: &mut Object) -> Result<(), Reply> {
    if text(new, "provider").is_empty() {
        set(new, "provider", "amphora");
    }
    let provider = text(new, "provider");
    if !lookups::PROVIDERS.iter().any(|(name, _)| *name == provider) {
        let words = format!("Provider '{provider}' is not enabled.");
        return Err(refusal(StatusCode::BAD_REQUEST, &words));
    }
    let flavor = text(new, "flavor_id");
    if !flavor.is_empty() && !lookups::FLAVORS.iter().any(|(id, _, enabled)| *enabled && *id == flavor) {
        return Err(invalid("Invalid flavor_id."));
    }
    let zone = text(new, "availability_zone");
    if !zone.is_empty() && !lookups::ZONES.contains(&zone) {
        return Err(invalid("Invalid availability zone."));
    }
    Ok(())
}

/// Gives the load balancer its address: on the port that was named, or on a port of Octavia's own.
fn plug(state: &mut CloudState, context: &Context<'_>, new: &mut Object) -> Result<(), Reply> {
    let own = |object: &&Object| context.caller.owns(text(object, "project_id"));
    let (named, subnet) = (text(new, "vip_port_id").to_owned(), text(new, "vip_subnet_id").to_owned());
    let network = text(new, "vip_network_id").to_owned();
    if !named.is_empty() && state.refuses_vip_ports {
        return Err(invalid("use of vip_port_id is disallowed by this deployment's configuration."));
    }
    let port = if !named.is_empty() {
        let missing = || refusal(StatusCode::BAD_REQUEST, &format!("Port {named} not found."));
        let port = state.find(ResourceKind::Port, &named).filter(own).ok_or_else(missing)?;
        let device = text(port, "device_id");
        if !device.is_empty() {
            return Err(invalid(&format!("Port {named} is already used by device {device}")));
        }
        named
    } else if !subnet.is_empty() {
        let missing = || refusal(StatusCode::BAD_REQUEST, &format!("Subnet {subnet} not found."));
        let found = state.find(ResourceKind::Subnet, &subnet).ok_or_else(missing)?;
        let network = text(found, "network_id").to_owned();
        own_port(state, context, new, &network, Some(&subnet))?
    } else if !network.is_empty() {
        let missing = || refusal(StatusCode::BAD_REQUEST, &format!("Network {network} not found."));
        state.find(ResourceKind::Network, &network).ok_or_else(missing)?;
        own_port(state, context, new, &network, None)?
    } else {
        let words = "VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.";
        return Err(invalid(words));
    };
    let Some(port) = state.find(ResourceKind::Port, &port) else { return Ok(()) };
    let fixed = list(port, "fixed_ips").iter().find(|fixed| {
        subnet.is_empty() || fixed.get("subnet_id").and_then(Value::as_str) == Some(subnet.as_str())
    });
    let of = |key: &str| fixed.and_then(|fixed| fixed.get(key)).cloned().unwrap_or_default();
    set(new, "vip_address", of("ip_address"));
    set(new, "vip_subnet_id", of("subnet_id"));
    set(new, "vip_port_id", text(port, "id"));
    set(new, "vip_network_id", text(port, "network_id"));
    Ok(())
}

/// Creates the port of a load balancer in the caller's project, as Octavia does.
fn own_port(
    state: &mut CloudState,
    context: &Context<'_>,
    new: &Object,
    network: &str,
    subnet: Option<&str>,
) -> Result<String, Reply> {
    let id = text(new, "id");
    let mut fixed = Object::new();
    if let Some(subnet) = subnet {
        set(&mut fixed, "subnet_id", subnet);
    }
    if !text(new, "vip_address").is_empty() {
        set(&mut fixed, "ip_address", text(new, "vip_address"));
    }
    let fixed = if fixed.is_empty() { Value::Null } else { json!([fixed]) };
    let attributes = json!({
        "name": format!("octavia-lb-{id}"), "device_id": format!("lb-{id}"), "device_owner": OWNER,
        "admin_state_up": false, "fixed_ips": fixed, "security_groups": [],
    });
    ports::make(state, context, network, &context.caller.project_id, attributes)
}

/// Returns an error unless the load balancer itself accepts a change.
fn check_state(state: &CloudState, id: &str, allowed: &[&str]) -> Result<(), Reply> {
    let kind = BalancerKind::LoadBalancer;
    let status = text(state.balancer(kind, id).ok_or_else(|| kind.missing(id))?, STATUS);
    if allowed.contains(&status) {
        return Ok(());
    }
    Err(conflict(&format!("Invalid state {status} of loadbalancer resource {id}")))
}

/// `PUT /loadbalancers/{id}`.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let kind = BalancerKind::LoadBalancer;
    find(state, context, kind, id)?;
    let allowed = ["name", "description", "admin_state_up", "tags", "vip_qos_policy_id"];
    let changes = changes(context, kind, &allowed)?;
    check_state(state, id, &["ACTIVE"])?;
    if let Some(object) = state.balancer_mut(kind, id) {
        object.extend(changes);
    }
    begin(state, context, id, vec![(kind, id.to_owned())], "PENDING_UPDATE");
    listing::reply(state, kind, id, StatusCode::OK)
}

/// `PUT /loadbalancers/{id}/failover`, for administrators.
pub(super) fn fail_over(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let kind = BalancerKind::LoadBalancer;
    if context.request.method != Method::PUT {
        return Err(no_such_page());
    }
    let provider = text(find(state, context, kind, id)?, "provider");
    if !context.caller.admin {
        return Err(forbidden());
    }
    if provider == "ovn" {
        return Err(unsupported(provider, "This provider does not support loadbalancer_failover"));
    }
    check_state(state, id, &["ACTIVE", "ERROR"])?;
    begin(state, context, id, vec![(kind, id.to_owned())], "PENDING_UPDATE");
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// `DELETE /loadbalancers/{id}`.
pub(super) fn delete(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let kind = BalancerKind::LoadBalancer;
    find(state, context, kind, id)?;
    let cascade =
        context.request.query.get("cascade").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let has = |kind| state.balancers(kind).any(|part| text(part, LOAD_BALANCER) == id);
    if !cascade && (has(BalancerKind::Listener) || has(BalancerKind::Pool)) {
        return Err(invalid(&format!("Cannot delete Load Balancer {id} - it has children")));
    }
    check_state(state, id, &["ACTIVE", "ERROR"])?;
    begin(state, context, id, vec![(kind, id.to_owned())], "PENDING_DELETE");
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
