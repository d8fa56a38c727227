//! Handlers for rules of Neutron security groups.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource::{body, check_quota, draft_of, find_own, stamp, view};
use super::{ResourceKind, bad_request, conflict};
use crate::address::Network;
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, object, set, text, touch};
use crate::state::CloudState;

/// Returns the defaults of a rule.
fn defaults() -> Value {
    json!({
        "ethertype": "IPv4", "protocol": null, "port_range_min": null, "port_range_max": null,
        "remote_ip_prefix": null, "remote_group_id": null, "remote_address_group_id": null, "description": "",
    })
}

/// Attributes that identify a rule: two rules with the same values are duplicates.
const IDENTITY: [&str; 8] = [
    "security_group_id",
    "direction",
    "ethertype",
    "protocol",
    "port_range_min",
    "port_range_max",
    "remote_group_id",
    "normalized_cidr",
];

/// `POST /security-group-rules`, with one rule or with several.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let kind = ResourceKind::SecurityGroupRule;
    if let Some(Value::Array(bodies)) = context.whole_body().remove("security_group_rules") {
        let ids = add_all(state, context, bodies)?;
        let rules: Vec<Object> =
            ids.iter().filter_map(|id| Some(view(state, kind, state.find(kind, id)?))).collect();
        return Ok(Reply::json(StatusCode::CREATED, &json!({"security_group_rules": rules})));
    }
    let id = add(state, context, body(context, kind)?)?;
    let mut rule = view(state, kind, state.find(kind, &id).ok_or_else(|| kind.missing(&id))?);
    // Neutron shows the tags of a rule only in later responses.
    rule.remove("tags");
    Ok(Reply::json(StatusCode::CREATED, &json!({kind.singular(): rule})))
}

/// Adds all rules or none.
fn add_all(state: &mut CloudState, context: &Context<'_>, bodies: Vec<Value>) -> Result<Vec<String>, Reply> {
    let bodies: Vec<Object> = bodies.into_iter().map(object).collect();
    let group = |body: &Object| text(body, "security_group_id").to_owned();
    if bodies.iter().any(|body| Some(group(body)) != bodies.first().map(group)) {
        let words = "Only allowed to update rules for one security profile at a time";
        return Err(bad_request("SecurityGroupNotSingleGroupRules", words));
    }
    let mut ids = Vec::new();
    for body in bodies {
        match add(state, context, body) {
            Ok(id) => ids.push(id),
            Err(refusal) => {
                for id in &ids {
                    state.remove(ResourceKind::SecurityGroupRule, id);
                }
                return Err(refusal);
            }
        }
    }
    Ok(ids)
}

/// Adds a rule, and returns its id.
fn add(state: &mut CloudState, context: &Context<'_>, body: Object) -> Result<String, Reply> {
    let required = ["security_group_id", "direction"];
    let mut rule = draft_of(context, body, ResourceKind::SecurityGroupRule, defaults(), &required)?;
    check_words(&mut rule)?;
    check_ports(&rule)?;
    let group = text(&rule, "security_group_id").to_owned();
    find_own(state, context, ResourceKind::SecurityGroup, &group, "update")
        .map_err(|_| ResourceKind::SecurityGroup.missing(&group))?;
    let remote = text(&rule, "remote_group_id");
    if !remote.is_empty() && state.find(ResourceKind::SecurityGroup, remote).is_none() {
        return Err(ResourceKind::SecurityGroup.missing(remote));
    }
    set_prefix(&mut rule)?;
    let same = |held: &&Object| IDENTITY.iter().all(|key| held.get(*key) == rule.get(*key));
    let of_group = state.with(ResourceKind::SecurityGroupRule, "security_group_id", &group);
    if let Some(held) = of_group.into_iter().find(same) {
        let words = format!("Security group rule already exists. Rule id is {}.", text(held, "id"));
        return Err(conflict("SecurityGroupRuleExists", &words));
    }
    let project = text(&rule, "project_id").to_owned();
    check_quota(state, ResourceKind::SecurityGroupRule, &project)?;
    let id = text(&rule, "id").to_owned();
    state.insert(ResourceKind::SecurityGroupRule, rule);
    if let Some(group) = state.find_mut(ResourceKind::SecurityGroup, &group) {
        touch(group, context.now);
    }
    Ok(id)
}

/// Inserts a rule that needs no checks.
pub(super) fn insert(state: &mut CloudState, attributes: Object, project: &str, now: Timestamp) {
    let mut rule = object(defaults());
    rule.extend(attributes);
    set(&mut rule, "normalized_cidr", Value::Null);
    set(&mut rule, "description", Value::Null);
    stamp(&mut rule, project, now);
    state.insert(ResourceKind::SecurityGroupRule, rule);
}

fn check_words(rule: &mut Object) -> Result<(), Reply> {
    let direction = text(rule, "direction");
    if !matches!(direction, "ingress" | "egress") {
        let words = format!("Invalid input for direction. Reason: {direction} is not in valid_values.");
        return Err(bad_request("HTTPBadRequest", &words));
    }
    let ethertype = text(rule, "ethertype").to_owned();
    let known = ["IPv4", "IPv6"].into_iter().find(|known| known.eq_ignore_ascii_case(&ethertype));
    let Some(known) = known else {
        let words = format!(
            "Security group rule for ethertype '{ethertype}' not supported. Allowed values are ['IPv4', 'IPv6']."
        );
        return Err(bad_request("SecurityGroupRuleInvalidEtherType", &words));
    };
    set(rule, "ethertype", known);
    // Numbers and `any` are other spellings of the protocols' names.
    let protocol = match rule.get("protocol") {
        Some(Value::Number(number)) => Some(number.to_string()),
        Some(Value::String(name)) => Some(name.to_lowercase()),
        _ => None,
    };
    let protocol = protocol.filter(|name| name != "any" && !name.is_empty());
    set(rule, "protocol", json!(protocol));
    Ok(())
}

fn check_ports(rule: &Object) -> Result<(), Reply> {
    let port = |key: &str| {
        rule.get(key).and_then(|port| match port {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        })
    };
    let (min, max): (Option<i64>, Option<i64>) = (port("port_range_min"), port("port_range_max"));
    let protocol = text(rule, "protocol");
    if protocol.is_empty() && (min.is_some() || max.is_some()) {
        let words = "Must also specify protocol if port range is given.";
        return Err(bad_request("SecurityGroupProtocolRequiredWithPorts", words));
    }
    let is_transport = matches!(protocol, "tcp" | "udp" | "6" | "17");
    match (min, max) {
        (Some(min), Some(max)) if is_transport && min > max => {
            let words = "For TCP/UDP protocols, port_range_min must be <= port_range_max";
            Err(bad_request("SecurityGroupInvalidPortRange", words))
        }
        _ => Ok(()),
    }
}

fn set_prefix(rule: &mut Object) -> Result<(), Reply> {
    let prefix = text(rule, "remote_ip_prefix").to_owned();
    if prefix.is_empty() {
        set(rule, "normalized_cidr", Value::Null);
        return Ok(());
    }
    if !text(rule, "remote_group_id").is_empty() {
        let words = "Only remote_ip_prefix or remote_group_id may be provided.";
        return Err(bad_request("SecurityGroupRemoteGroupAndRemoteIpPrefix", words));
    }
    let full = match prefix.contains('/') {
        true => prefix.clone(),
        false if prefix.contains(':') => format!("{prefix}/128"),
        false => format!("{prefix}/32"),
    };
    let invalid = || bad_request("InvalidCIDR", &format!("Invalid CIDR {prefix} given as IP prefix."));
    let range = Network::parse(&full).ok_or_else(invalid)?;
    let ethertype = text(rule, "ethertype");
    if (ethertype == "IPv4") != range.is_v4() {
        let words = format!("Conflicting value ethertype {ethertype} for CIDR {prefix}");
        return Err(bad_request("SecurityGroupRuleParameterConflict", &words));
    }
    set(rule, "normalized_cidr", full);
    Ok(())
}
