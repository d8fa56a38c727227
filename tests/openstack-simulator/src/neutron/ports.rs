//! Handlers for Neutron ports.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::allocation::is_formed;
use super::resource::{apply, changes, check_quota, draft, find, reply, stamp};
use super::{Recipient, ResourceKind, allocate, allocate_one, bad_request, conflict, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, flag, list, object, set, text, touch};
use crate::state::CloudState;

/// Attribute of a virtual function whose server may change its hardware address.
const TRUSTED: &str = "trusted";

/// Returns the defaults of a port.
fn defaults() -> Value {
    json!({
        "name": "", "description": "", "admin_state_up": true, "mac_address": "", "fixed_ips": null,
        "device_id": "", "device_owner": "", "security_groups": null, "allowed_address_pairs": [],
        "extra_dhcp_opts": [], "port_security_enabled": true, "binding:vnic_type": "normal",
        "binding:profile": {}, "binding:host_id": "", "dns_name": "", "propagate_uplink_status": false,
        "qos_policy_id": null, "numa_affinity_policy": null, "device_profile": null,
    })
}

/// Returns a unique hardware address.
fn mac_address() -> String {
    let random = uuid::Uuid::new_v4();
    let [a, b, c, ..] = random.as_bytes();
    format!("fa:16:3e:{a:02x}:{b:02x}:{c:02x}")
}

/// Checks the attributes that only admins may set, and those that only the owner of the network may.
fn check_policy(context: &Context<'_>, network: &Object, port: &Object) -> Result<(), Reply> {
    let is_set = |key: &str| match port.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        _ => false,
    };
    let has_address = || list(port, "fixed_ips").iter().any(|fixed| fixed.get("ip_address").is_some());
    let open = port.get("port_security_enabled") == Some(&json!(false));
    let owns_network = context.caller.owns(text(network, "project_id"));
    let refused = [
        ("binding:host_id", is_set("binding:host_id")),
        ("binding:profile", is_set("binding:profile")),
        ("fixed_ips:ip_address", !owns_network && has_address()),
        ("mac_address", !owns_network && is_set("mac_address")),
        (TRUSTED, port.get(TRUSTED).is_some_and(|trusted| !trusted.is_null())),
        ("port_security_enabled", !owns_network && open),
    ];
    let refused = refused.into_iter().find(|(_, is_refused)| *is_refused && !context.caller.admin);
    let Some((key, _)) = refused else { return Ok(()) };
    let words = format!("(rule:create_port and rule:create_port:{key}) is disallowed by policy");
    Err(refusal(StatusCode::FORBIDDEN, "PolicyNotAuthorized", &words))
}

/// Returns the defaults of the ports of users. Only the extension `port-trusted-vif` has the attribute `trusted`.
fn defaults_of(context: &Context<'_>) -> Value {
    let mut defaults = defaults();
    if context.options.trusted_ports {
        defaults[TRUSTED] = Value::Null;
    }
    defaults
}

/// `POST /ports`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let mut port = draft(context, ResourceKind::Port, defaults_of(context), &["network_id"])?;
    let network_id = text(&port, "network_id").to_owned();
    let network = find(state, context, ResourceKind::Network, &network_id)?;
    let project = text(&port, "project_id").to_owned();
    if !context.caller.owns(text(network, "project_id")) && !flag(network, "shared") {
        let words = format!("Tenant {project} not allowed to create port on this network");
        return Err(refusal(StatusCode::FORBIDDEN, "HTTPForbidden", &words));
    }
    check_policy(context, network, &port)?;
    if !context.caller.admin {
        // Neutron shows it to administrators only.
        port.remove(TRUSTED);
    }
    check_quota(state, ResourceKind::Port, &project)?;
    give_addresses(state, &mut port)?;
    complete(state, &mut port, &project)?;
    let id = text(&port, "id").to_owned();
    state.insert(ResourceKind::Port, port);
    reply(state, ResourceKind::Port, &id, StatusCode::CREATED)
}

/// Returns what the addresses of a port depend on.
fn recipient(port: &Object) -> Recipient<'_> {
    Recipient { mac_address: text(port, "mac_address"), device_owner: text(port, "device_owner") }
}

/// Gives a new port its hardware address, unless it has one, and its addresses.
fn give_addresses(state: &CloudState, port: &mut Object) -> Result<(), Reply> {
    if text(port, "mac_address").is_empty() {
        set(port, "mac_address", mac_address());
    }
    let requested = port.get("fixed_ips").and_then(Value::as_array).cloned();
    let fixed_ips = allocate(state, text(port, "network_id"), requested.as_deref(), &recipient(port))?;
    set(port, "fixed_ips", fixed_ips);
    Ok(())
}

/// Adds the attributes that depend on other objects, and checks these objects.
fn complete(state: &CloudState, port: &mut Object, project: &str) -> Result<(), Reply> {
    let secure = flag(port, "port_security_enabled");
    match port.get("security_groups").and_then(Value::as_array) {
        Some(groups) => check_groups(state, groups, project)?,
        None => {
            let default = super::security_groups::default_of(state, project);
            let groups: Vec<&str> = default.filter(|_| secure).into_iter().collect();
            let groups = json!(groups);
            set(port, "security_groups", groups);
        }
    }
    if !secure && !list(port, "security_groups").is_empty() {
        let words = "Port Security must be enabled in order to have allowed address pairs or security groups on a port.";
        return Err(conflict("PortSecurityAndIPRequiredForSecurityGroups", words));
    }
    let mac = text(port, "mac_address").to_owned();
    let pairs = with_mac(list(port, "allowed_address_pairs"), &mac);
    set(port, "allowed_address_pairs", pairs);
    set(port, "status", "DOWN");
    set(port, "ip_allocation", "immediate");
    set(port, "revision_number", 1);
    let hidden =
        ["binding:profile", "binding:host_id", "dns_name", "propagate_uplink_status", "qos_policy_id"];
    port.retain(|key, _| {
        !hidden.contains(&key.as_str()) && !matches!(key.as_str(), "numa_affinity_policy" | "device_profile")
    });
    Ok(())
}

fn check_groups(state: &CloudState, groups: &[Value], project: &str) -> Result<(), Reply> {
    for group in groups {
        let id = group.as_str().unwrap_or_default();
        if uuid::Uuid::parse_str(id).is_err() {
            let words = format!("Invalid input for security_groups. Reason: '{id}' is not a valid UUID.");
            return Err(bad_request("HTTPBadRequest", &words));
        }
        let held =
            state.find(ResourceKind::SecurityGroup, id).filter(|held| text(held, "project_id") == project);
        held.ok_or_else(|| ResourceKind::SecurityGroup.missing(id))?;
    }
    Ok(())
}

/// Adds the port's own hardware address to allowed pairs without one.
fn with_mac(pairs: &[Value], mac: &str) -> Vec<Value> {
    pairs
        .iter()
        .map(|pair| {
            let mut pair = object(pair.clone());
            pair.entry("mac_address").or_insert_with(|| json!(mac));
            Value::Object(pair)
        })
        .collect()
}

/// `PUT /ports/{id}`.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let mut allowed = vec![
        "name",
        "description",
        "admin_state_up",
        "fixed_ips",
        "device_id",
        "device_owner",
        "security_groups",
        "allowed_address_pairs",
        "extra_dhcp_opts",
        "port_security_enabled",
        "binding:vnic_type",
        "dns_name",
    ];
    if context.options.trusted_ports {
        allowed.push(TRUSTED);
    }
    let mut changes = changes(state, context, ResourceKind::Port, id, &allowed)?;
    if changes.contains_key(TRUSTED) && !context.caller.admin {
        let words = format!("(rule:update_port and rule:update_port:{TRUSTED}) is disallowed by policy");
        return Err(refusal(StatusCode::FORBIDDEN, "PolicyNotAuthorized", &words));
    }
    let port = state.find(ResourceKind::Port, id).ok_or_else(|| ResourceKind::Port.missing(id))?;
    if let Some(groups) = changes.get("security_groups").and_then(Value::as_array) {
        check_groups(state, groups, text(port, "project_id"))?;
    }
    if changes.contains_key("allowed_address_pairs") {
        let pairs = with_mac(list(&changes, "allowed_address_pairs"), text(port, "mac_address"));
        set(&mut changes, "allowed_address_pairs", pairs);
    }
    if let Some(requested) = changes.get("fixed_ips").and_then(Value::as_array) {
        let fixed_ips = reallocate(state, port, requested)?;
        set(&mut changes, "fixed_ips", fixed_ips);
    }
    apply(state, context, ResourceKind::Port, id, changes)
}

/// Returns the addresses of a port after a change: it keeps those that it already has, and those that it formed.
fn reallocate(state: &CloudState, port: &Object, requested: &[Value]) -> Result<Vec<Value>, Reply> {
    let held = list(port, "fixed_ips");
    let mut fixed_ips = Vec::new();
    for fixed_ip in requested {
        let field = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let address = field(fixed_ip, "ip_address");
        let subnet = field(fixed_ip, "subnet_id");
        let kept = held.iter().find(|fixed| match &address {
            Some(address) => field(fixed, "ip_address").as_ref() == Some(address),
            None => field(fixed, "subnet_id") == subnet && !fixed_ips.contains(*fixed),
        });
        match kept {
            Some(kept) => fixed_ips.push(kept.clone()),
            None => {
                fixed_ips.push(allocate_one(state, text(port, "network_id"), fixed_ip, &recipient(port))?);
            }
        }
    }
    let formed = held.iter().filter(|fixed| is_formed(state, fixed) && !fixed_ips.contains(*fixed));
    let formed: Vec<Value> = formed.cloned().collect();
    fixed_ips.extend(formed);
    Ok(fixed_ips)
}

/// Deletes the port, unless it belongs to a router.
pub(super) fn delete(state: &mut CloudState, id: &str, context: &Context<'_>) -> Result<(), Reply> {
    let owner = state.find(ResourceKind::Port, id).map(|port| text(port, "device_owner")).unwrap_or_default();
    if owner.starts_with("network:router") {
        let words =
            format!("Port {id} cannot be deleted directly via the port API: has device owner {owner}.");
        return Err(conflict("ServicePortInUse", &words));
    }
    if let Some(trunk) = super::trunks::of_parent(state, id) {
        let words = format!("Port {id} is currently a parent port for trunk {}.", text(trunk, "id"));
        return Err(conflict("PortInUseAsTrunkParent", &words));
    }
    discard(state, id, context.now);
    Ok(())
}

/// Removes the port, and disassociates its floating IPs.
pub(crate) fn discard(state: &mut CloudState, id: &str, now: Timestamp) {
    state.remove(ResourceKind::Port, id);
    let floating = state.with(ResourceKind::FloatingIp, "port_id", id).into_iter();
    let floating: Vec<String> = floating.map(|floating| text(floating, "id").to_owned()).collect();
    for floating in floating {
        if let Some(floating) = state.find_mut(ResourceKind::FloatingIp, &floating) {
            super::floating_ips::disassociate(floating);
            touch(floating, now);
        }
    }
}

/// Creates a port for a service: for a router's interface, or for a server without a port.
pub(crate) fn make(
    state: &mut CloudState,
    context: &Context<'_>,
    network: &str,
    project: &str,
    attributes: Value,
) -> Result<String, Reply> {
    let mut port = object(defaults());
    port.extend(object(attributes));
    set(&mut port, "network_id", network);
    stamp(&mut port, project, context.now);
    give_addresses(state, &mut port)?;
    complete(state, &mut port, project)?;
    let id = text(&port, "id").to_owned();
    state.insert(ResourceKind::Port, port);
    Ok(id)
}

/// Binds the port to a server.
pub(crate) fn bind(state: &mut CloudState, id: &str, server: &str, zone: &str, now: Timestamp) {
    if let Some(port) = state.find_mut(ResourceKind::Port, id) {
        set(port, "device_id", server);
        set(port, "device_owner", format!("compute:{zone}"));
        touch(port, now);
    }
}
