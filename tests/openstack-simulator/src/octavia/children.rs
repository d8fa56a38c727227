//! Handlers for listeners, pools and health monitors.

use super::draft::{changes, check_mutable, check_quota, draft, find, provider, with_basics};
use super::transitions::begin;
use super::*;
use crate::address::Network;
use crate::object::{set, text, texts};

/// Attributes of a kind that users may set, and those that they must set.
fn attributes(kind: BalancerKind) -> (Value, &'static [&'static str]) {
    match kind {
        BalancerKind::Listener => (
            with_basics(json!({
                "description": "", "connection_limit": -1, "allowed_cidrs": null, "default_pool_id": null,
                "timeout_client_data": 50000, "timeout_member_data": 50000, "timeout_member_connect": 5000,
                "timeout_tcp_inspect": 0, "insert_headers": {}, "sni_container_refs": [],
                "default_tls_container_ref": null, "l7policies": [],
            })),
            &["loadbalancer_id", "protocol", "protocol_port"],
        ),
        BalancerKind::Pool => (
            with_basics(json!({
                "description": "", "session_persistence": null, "loadbalancer_id": null, "listener_id": null,
                "tls_enabled": false,
            })),
            &["protocol", "lb_algorithm"],
        ),
        BalancerKind::HealthMonitor | BalancerKind::LoadBalancer | BalancerKind::Member => (
            with_basics(json!({
                "max_retries_down": 3, "http_method": null, "url_path": null, "expected_codes": null,
                "domain_name": null, "http_version": null,
            })),
            &["pool_id", "type", "delay", "timeout", "max_retries"],
        ),
    }
}

/// `POST` of a listener, pool or health monitor.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>, kind: BalancerKind) -> HandlerResult {
    let (defaults, required) = attributes(kind);
    let mut new = draft(context, kind, defaults, required)?;
    match kind {
        BalancerKind::Listener => place_listener(state, context, &mut new)?,
        BalancerKind::Pool => place_pool(state, context, &mut new)?,
        BalancerKind::HealthMonitor | BalancerKind::LoadBalancer | BalancerKind::Member => {
            place_monitor(state, context, &mut new)?;
        }
    }
    let load_balancer = text(&new, LOAD_BALANCER).to_owned();
    check_quota(state, context, kind, 1)?;
    check_mutable(state, &load_balancer)?;
    let id = text(&new, "id").to_owned();
    let listener = text(&new, LISTENER).to_owned();
    state.load_balancing.entry(kind).or_default().insert(id.clone(), new);
    if let Some(listener) = state.balancer_mut(BalancerKind::Listener, &listener) {
        set(listener, "default_pool_id", id.as_str());
    }
    begin(state, context, &load_balancer, vec![(kind, id.clone())], "PENDING_CREATE");
    listing::reply(state, kind, &id, StatusCode::CREATED)
}

fn place_listener(state: &CloudState, context: &Context<'_>, new: &mut Object) -> Result<(), Reply> {
    let load_balancer = take(new, "loadbalancer_id");
    find(state, context, BalancerKind::LoadBalancer, &load_balancer)?;
    let (protocol, port) = (text(new, "protocol"), new.get("protocol_port").and_then(Value::as_i64));
    let taken = state.balancers(BalancerKind::Listener).any(|other| {
        text(other, LOAD_BALANCER) == load_balancer
            && text(other, "protocol") == protocol
            && other.get("protocol_port").and_then(Value::as_i64) == port
    });
    if taken {
        let port = port.unwrap_or_default();
        return Err(conflict(&format!(
            "Another Listener on this Load Balancer is already using protocol {protocol} and protocol_port {port}"
        )));
    }
    check_cidrs(state, &load_balancer, new)?;
    set(new, LOAD_BALANCER, load_balancer);
    Ok(())
}

/// Checks the allowed CIDRs in a body: syntax, address family, and the provider's support.
fn check_cidrs(state: &CloudState, load_balancer: &str, body: &Object) -> Result<(), Reply> {
    let cidrs = texts(body, "allowed_cidrs");
    let provider = provider(state, load_balancer);
    if !cidrs.is_empty() && provider == "ovn" {
        let words = "OVN provider does not support allowed_cidrs option";
        return Err(unsupported(provider, words));
    }
    let balancer = state.balancer(BalancerKind::LoadBalancer, load_balancer);
    let address = balancer.map(|it| text(it, "vip_address")).unwrap_or_default();
    for cidr in &cidrs {
        if Network::parse(cidr).is_none() {
            let words = format!(
                "Invalid input for field/attribute allowed_cidrs. Value: '{cidr}'. Value should be IPv4 or IPv6 CIDR format"
            );
            return Err(refusal(StatusCode::BAD_REQUEST, &words));
        }
        if cidr.contains(':') != address.contains(':') {
            let words = format!("CIDR {cidr} IP version incompatible with all VIPs [{address}] IP version.");
            return Err(invalid(&words));
        }
    }
    Ok(())
}

fn place_pool(state: &CloudState, context: &Context<'_>, new: &mut Object) -> Result<(), Reply> {
    let (listener, mut load_balancer) = (take(new, "listener_id"), take(new, "loadbalancer_id"));
    if !listener.is_empty() {
        let found = find(state, context, BalancerKind::Listener, &listener)?;
        if !text(found, "default_pool_id").is_empty() {
            return Err(conflict("This listener already has a default pool"));
        }
        load_balancer = text(found, LOAD_BALANCER).to_owned();
    }
    if load_balancer.is_empty() {
        return Err(invalid("Must provide at least one of: loadbalancer_id, listener_id"));
    }
    find(state, context, BalancerKind::LoadBalancer, &load_balancer)?;
    let (provider, algorithm) = (provider(state, &load_balancer), text(new, "lb_algorithm"));
    if (provider == "ovn") != (algorithm == "SOURCE_IP_PORT") {
        return Err(unsupported(provider, &format!("{algorithm} is not supported")));
    }
    set(new, LISTENER, listener);
    set(new, LOAD_BALANCER, load_balancer);
    Ok(())
}

fn place_monitor(state: &CloudState, context: &Context<'_>, new: &mut Object) -> Result<(), Reply> {
    let pool = take(new, "pool_id");
    let found = find(state, context, BalancerKind::Pool, &pool)?;
    if state.balancers(BalancerKind::HealthMonitor).any(|other| text(other, POOL) == pool) {
        return Err(conflict("This pool already has a health monitor"));
    }
    set(new, LOAD_BALANCER, text(found, LOAD_BALANCER));
    set(new, POOL, pool);
    Ok(())
}

/// Removes an attribute that is stored under another key.
fn take(object: &mut Object, key: &str) -> String {
    object.remove(key).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

/// `PUT` of a listener, pool or health monitor.
pub(super) fn update(
    state: &mut CloudState,
    context: &Context<'_>,
    kind: BalancerKind,
    id: &str,
) -> HandlerResult {
    let load_balancer = text(find(state, context, kind, id)?, LOAD_BALANCER).to_owned();
    let allowed: &[&str] = match kind {
        BalancerKind::Listener => &[
            "name",
            "description",
            "admin_state_up",
            "tags",
            "connection_limit",
            "allowed_cidrs",
            "default_pool_id",
            "timeout_client_data",
            "timeout_member_data",
        ],
        BalancerKind::Pool => {
            &["name", "description", "admin_state_up", "tags", "lb_algorithm", "session_persistence"]
        }
        _ => &["name", "admin_state_up", "tags", "delay", "timeout", "max_retries", "max_retries_down"],
    };
    let changes = changes(context, kind, allowed)?;
    if kind == BalancerKind::Listener {
        check_cidrs(state, &load_balancer, &changes)?;
    }
    check_mutable(state, &load_balancer)?;
    if let Some(object) = state.balancer_mut(kind, id) {
        object.extend(changes);
    }
    begin(state, context, &load_balancer, vec![(kind, id.to_owned())], "PENDING_UPDATE");
    listing::reply(state, kind, id, StatusCode::OK)
}

/// `DELETE` of a listener, pool or health monitor. The members and monitor of a pool go with it.
pub(super) fn delete(
    state: &mut CloudState,
    context: &Context<'_>,
    kind: BalancerKind,
    id: &str,
) -> HandlerResult {
    let load_balancer = text(find(state, context, kind, id)?, LOAD_BALANCER).to_owned();
    check_mutable(state, &load_balancer)?;
    let mut targets = vec![(kind, id.to_owned())];
    if kind == BalancerKind::Pool {
        for kind in [BalancerKind::Member, BalancerKind::HealthMonitor] {
            let parts = state.balancers(kind).filter(|part| text(part, POOL) == id);
            targets.extend(parts.map(|part| (kind, text(part, "id").to_owned())));
        }
        let listeners = state.load_balancing.entry(BalancerKind::Listener).or_default();
        for listener in listeners.values_mut().filter(|it| text(it, "default_pool_id") == id) {
            set(listener, "default_pool_id", Value::Null);
        }
    }
    begin(state, context, &load_balancer, targets, "PENDING_DELETE");
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
