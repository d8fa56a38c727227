//! Operations that all kinds of network resources share: visibility, creation and changes.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{ResourceKind, bad_request, refusal};
use crate::context::{Caller, Context};
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, flag, new_id, object, seconds, set, text, texts, touch};
use crate::state::CloudState;

/// Attributes that only the service sets; a body with one of them gets another error message than a body with
/// an unknown attribute.
const READ_ONLY: [&str; 12] = [
    "id",
    "status",
    "tags",
    "created_at",
    "updated_at",
    "revision_number",
    "subnets",
    "router_id",
    "port_details",
    "security_group_rules",
    "availability_zones",
    "l2_adjacency",
];

/// Returns true if the caller may see the object.
pub(super) fn is_visible(state: &CloudState, caller: &Caller, kind: ResourceKind, object: &Object) -> bool {
    if caller.owns(text(object, "project_id")) {
        return true;
    }
    let network = || state.find(ResourceKind::Network, text(object, "network_id"));
    match kind {
        ResourceKind::Network => flag(object, "shared") || flag(object, "router:external"),
        // The subnets of an external network are hidden; those of a shared one are visible.
        ResourceKind::Subnet => network().is_some_and(|network| flag(network, "shared")),
        // The owner of a network sees all ports in it.
        ResourceKind::Port => network().is_some_and(|network| caller.owns(text(network, "project_id"))),
        ResourceKind::Router
        | ResourceKind::SecurityGroup
        | ResourceKind::SecurityGroupRule
        | ResourceKind::FloatingIp
        | ResourceKind::Trunk => false,
    }
}

/// Returns the object, if the caller may see it.
pub(super) fn find<'a>(
    state: &'a CloudState,
    context: &Context<'_>,
    kind: ResourceKind,
    id: &str,
) -> Result<&'a Object, Reply> {
    let found = state.find(kind, id).filter(|object| is_visible(state, &context.caller, kind, object));
    found.ok_or_else(|| kind.missing(id))
}

/// Returns the object, if the caller may change it.
pub(super) fn find_own<'a>(
    state: &'a CloudState,
    context: &Context<'_>,
    kind: ResourceKind,
    id: &str,
    verb: &str,
) -> Result<&'a Object, Reply> {
    let found = find(state, context, kind, id)?;
    if context.caller.owns(text(found, "project_id")) {
        return Ok(found);
    }
    let words = format!("rule:{verb}_{} is disallowed by policy", kind.singular());
    Err(refusal(StatusCode::FORBIDDEN, "PolicyNotAuthorized", &words))
}

/// Returns the object in the form in which it is served: some parts are stored elsewhere.
pub(super) fn view(state: &CloudState, kind: ResourceKind, object: &Object) -> Object {
    let mut view = object.clone();
    let id = text(object, "id");
    match kind {
        ResourceKind::Network => {
            let subnets = state.with(ResourceKind::Subnet, "network_id", id).into_iter();
            let subnets: Vec<&str> = subnets.map(|subnet| text(subnet, "id")).collect();
            set(&mut view, "subnets", json!(subnets));
        }
        ResourceKind::SecurityGroup => {
            let rules = state.with(ResourceKind::SecurityGroupRule, "security_group_id", id);
            let rules: Vec<Object> = rules.into_iter().map(with_number).collect();
            set(&mut view, "security_group_rules", json!(rules));
        }
        ResourceKind::FloatingIp => {
            let port = state.find(ResourceKind::Port, text(object, "port_id"));
            set(&mut view, "port_details", port.map_or(Value::Null, port_details));
        }
        ResourceKind::Subnet
        | ResourceKind::Port
        | ResourceKind::Router
        | ResourceKind::Trunk
        | ResourceKind::SecurityGroupRule => {}
    }
    view
}

/// Adds the number of a rule's record, which Neutron shows only inside a group: here a part of its random id.
fn with_number(rule: &Object) -> Object {
    let mut rule = rule.clone();
    let digits = text(&rule, "id").get(..8).unwrap_or_default();
    let number = u32::from_str_radix(digits, 16).unwrap_or_default();
    set(&mut rule, "standard_attr_id", json!(number));
    rule
}

fn port_details(port: &Object) -> Value {
    let keys = ["name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner"];
    let details: Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), port.get(*key).cloned().unwrap_or_default())).collect();
    Value::Object(details)
}

/// Reduces the view to the requested fields.
pub(super) fn with_fields(mut view: Object, fields: &[&str]) -> Object {
    if !fields.is_empty() {
        view.retain(|key, _| fields.contains(&key.as_str()));
    }
    view
}

/// `GET /{kind}/{id}`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, kind: ResourceKind, id: &str) -> HandlerResult {
    let found = find(state, context, kind, id)?;
    let fields: Vec<&str> = context.request.query.all("fields").collect();
    Ok(Reply::ok(&json!({kind.singular(): with_fields(view(state, kind, found), &fields)})))
}

/// Returns a reply with the object `id`.
pub(super) fn reply(state: &CloudState, kind: ResourceKind, id: &str, status: StatusCode) -> HandlerResult {
    let found = state.find(kind, id).ok_or_else(|| kind.missing(id))?;
    Ok(Reply::json(status, &json!({kind.singular(): view(state, kind, found)})))
}

/// Returns the attributes in the body.
pub(super) fn body(context: &Context<'_>, kind: ResourceKind) -> Result<Object, Reply> {
    let name = kind.singular();
    let missing = || bad_request("HTTPBadRequest", &format!("Unable to find '{name}' in request body"));
    context.body(name).ok_or_else(missing)
}

/// Creates a new object from the body: `defaults` has every attribute that users may set, and `required`
/// those that they must set.
pub(super) fn draft(
    context: &Context<'_>,
    kind: ResourceKind,
    defaults: Value,
    required: &[&str],
) -> Result<Object, Reply> {
    draft_of(context, body(context, kind)?, kind, defaults, required)
}

/// Creates a new object from attributes, as [`draft`] does.
pub(super) fn draft_of(
    context: &Context<'_>,
    body: Object,
    kind: ResourceKind,
    defaults: Value,
    required: &[&str],
) -> Result<Object, Reply> {
    let mut draft = object(defaults);
    for key in required {
        if !body.contains_key(*key) {
            let words = format!("Failed to parse request. Required attribute '{key}' not specified");
            return Err(bad_request("HTTPBadRequest", &words));
        }
    }
    for key in body.keys().filter(|key| !matches!(key.as_str(), "project_id" | "tenant_id")) {
        let ignored = kind == ResourceKind::Port && key == "tags";
        if READ_ONLY.contains(&key.as_str()) && !draft.contains_key(key) && !ignored {
            let words = format!("Attribute '{key}' not allowed in POST");
            return Err(bad_request("HTTPBadRequest", &words));
        }
        if !draft.contains_key(key) && !required.contains(&key.as_str()) && !ignored {
            return Err(bad_request("HTTPBadRequest", &format!("Unrecognized attribute(s) '{key}'")));
        }
    }
    let owner =
        ["project_id", "tenant_id"].into_iter().find_map(|key| body.get(key)?.as_str().map(str::to_owned));
    let owner = owner.filter(|_| context.caller.admin).unwrap_or_else(|| context.caller.project_id.clone());
    draft.extend(body.into_iter().filter(|(key, _)| key != "tags"));
    stamp(&mut draft, &owner, context.now);
    Ok(draft)
}

/// Adds the attributes that every object has.
pub(super) fn stamp(draft: &mut Object, project: &str, now: jiff::Timestamp) {
    set(draft, "id", new_id());
    set(draft, "project_id", project);
    set(draft, "tenant_id", project);
    set(draft, "tags", json!([]));
    set(draft, "created_at", seconds(now));
    set(draft, "updated_at", seconds(now));
    set(draft, "revision_number", 0);
}

/// Returns the changes in the body, if all of them are in `allowed` and the caller may make them.
pub(super) fn changes(
    state: &CloudState,
    context: &Context<'_>,
    kind: ResourceKind,
    id: &str,
    allowed: &[&str],
) -> Result<Object, Reply> {
    let found = find_own(state, context, kind, id, "update")?;
    check_revision(context, found)?;
    let body = body(context, kind)?;
    if let Some(key) = body.keys().find(|key| !allowed.contains(&key.as_str())) {
        let known = READ_ONLY.contains(&key.as_str())
            || state.find(kind, id).is_some_and(|object| object.contains_key(key));
        let words = if known {
            format!("Cannot update read-only attribute {key}")
        } else {
            format!("Unrecognized attribute(s) '{key}'")
        };
        return Err(bad_request("HTTPBadRequest", &words));
    }
    Ok(body)
}

/// Returns an error if the request requires another revision than the object has.
fn check_revision(context: &Context<'_>, object: &Object) -> Result<(), Reply> {
    let Some(required) = context.request.header("if-match") else { return Ok(()) };
    let held = object.get("revision_number").and_then(Value::as_u64).unwrap_or_default();
    if required.strip_prefix("revision_number=").and_then(|number| number.parse().ok()) == Some(held) {
        return Ok(());
    }
    let words = format!(
        "Constrained to {}, but current revision is {held}",
        required.replace("revision_number=", "")
    );
    Err(refusal(StatusCode::PRECONDITION_FAILED, "RevisionNumberConstraintFailed", &words))
}

/// Applies the changes, and returns a reply with the object.
pub(super) fn apply(
    state: &mut CloudState,
    context: &Context<'_>,
    kind: ResourceKind,
    id: &str,
    changes: Object,
) -> HandlerResult {
    if let Some(object) = state.find_mut(kind, id) {
        object.extend(changes);
        touch(object, context.now);
    }
    reply(state, kind, id, StatusCode::OK)
}

/// Returns an error if another object would exceed the project's quota.
pub(super) fn check_quota(state: &CloudState, kind: ResourceKind, project: &str) -> Result<(), Reply> {
    let limit = state.quota(project, kind.singular());
    let Ok(limit) = usize::try_from(limit) else { return Ok(()) };
    if state.network.count(kind, project) < limit {
        return Ok(());
    }
    let words = format!("Quota exceeded for resources: ['{}'].", kind.singular());
    Err(super::conflict("OverQuota", &words))
}

/// Returns true if the object has all, or any, of the tags in a filter.
pub(super) fn has_tags(object: &Object, requested: &str, all: bool) -> bool {
    let tags = texts(object, "tags");
    let mut requested = requested.split(',');
    let has = |tag: &str| tags.iter().any(|held| held == tag);
    if all { requested.all(has) } else { requested.any(has) }
}
