//! What all kinds of network objects have in common: seeing, making and changing them.

use http::StatusCode;
use serde_json::{Map, Value, json};

use super::{Kind, bad_request, refusal};
use crate::context::{Caller, Context};
use crate::http::{Answer, Reply};
use crate::object::{Object, flag, new_id, object, seconds, set, text, texts, touch};
use crate::state::State;

/// What only the service sets; a body with one of these is refused in other words than one with
/// an attribute nobody knows.
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

/// Whether the caller may see the object.
pub(super) fn is_visible(state: &State, caller: &Caller, kind: Kind, object: &Object) -> bool {
    if caller.owns(text(object, "project_id")) {
        return true;
    }
    let network = || state.find(Kind::Network, text(object, "network_id"));
    match kind {
        Kind::Network => flag(object, "shared") || flag(object, "router:external"),
        // The subnets of an external network stay hidden; those of a shared one do not.
        Kind::Subnet => network().is_some_and(|network| flag(network, "shared")),
        // Who owns a network sees all ports in it.
        Kind::Port => network().is_some_and(|network| caller.owns(text(network, "project_id"))),
        Kind::Router | Kind::SecurityGroup | Kind::SecurityGroupRule | Kind::FloatingIp => false,
    }
}

/// The object, if the caller may see it.
pub(super) fn find<'a>(
    state: &'a State,
    context: &Context<'_>,
    kind: Kind,
    id: &str,
) -> Result<&'a Object, Reply> {
    let found = state.find(kind, id).filter(|object| is_visible(state, &context.caller, kind, object));
    found.ok_or_else(|| kind.missing(id))
}

/// The object, if the caller may change it.
pub(super) fn find_own<'a>(
    state: &'a State,
    context: &Context<'_>,
    kind: Kind,
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

/// The object as it is served: some parts are kept elsewhere.
pub(super) fn view(state: &State, kind: Kind, object: &Object) -> Object {
    let mut view = object.clone();
    let id = text(object, "id");
    match kind {
        Kind::Network => {
            let subnets = state.table(Kind::Subnet).filter(|subnet| text(subnet, "network_id") == id);
            let subnets: Vec<&str> = subnets.map(|subnet| text(subnet, "id")).collect();
            set(&mut view, "subnets", json!(subnets));
        }
        Kind::SecurityGroup => {
            let rules =
                state.table(Kind::SecurityGroupRule).filter(|rule| text(rule, "security_group_id") == id);
            let rules: Vec<&Object> = rules.collect();
            set(&mut view, "security_group_rules", json!(rules));
        }
        Kind::FloatingIp => {
            let port = state.find(Kind::Port, text(object, "port_id"));
            set(&mut view, "port_details", port.map_or(Value::Null, port_details));
        }
        Kind::Subnet | Kind::Port | Kind::Router | Kind::SecurityGroupRule => {}
    }
    view
}

fn port_details(port: &Object) -> Value {
    let keys = ["name", "network_id", "mac_address", "admin_state_up", "status", "device_id", "device_owner"];
    let details: Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), port.get(*key).cloned().unwrap_or_default())).collect();
    Value::Object(details)
}

/// The view with only the asked fields.
pub(super) fn with_fields(mut view: Object, fields: &[&str]) -> Object {
    if !fields.is_empty() {
        view.retain(|key, _| fields.contains(&key.as_str()));
    }
    view
}

/// `GET /{kind}/{id}`.
pub(super) fn get(state: &State, context: &Context<'_>, kind: Kind, id: &str) -> Answer {
    let found = find(state, context, kind, id)?;
    let fields: Vec<&str> = context.request.query.all("fields").collect();
    Ok(Reply::ok(&json!({kind.singular(): with_fields(view(state, kind, found), &fields)})))
}

/// The reply with the object `id` in it.
pub(super) fn reply(state: &State, kind: Kind, id: &str, status: StatusCode) -> Answer {
    let found = state.find(kind, id).ok_or_else(|| kind.missing(id))?;
    Ok(Reply::json(status, &json!({kind.singular(): view(state, kind, found)})))
}

/// The attributes in the body.
fn body(context: &Context<'_>, kind: Kind) -> Result<Object, Reply> {
    let name = kind.singular();
    let missing = || bad_request("HTTPBadRequest", &format!("Unable to find '{name}' in request body"));
    context.body(name).ok_or_else(missing)
}

/// A new object from the body: `defaults` names every attribute that users may set, and
/// `required` those that they must.
pub(super) fn draft(
    context: &Context<'_>,
    kind: Kind,
    defaults: Value,
    required: &[&str],
) -> Result<Object, Reply> {
    let body = body(context, kind)?;
    let mut draft = object(defaults);
    for key in required {
        if !body.contains_key(*key) {
            let words = format!("Failed to parse request. Required attribute '{key}' not specified");
            return Err(bad_request("HTTPBadRequest", &words));
        }
    }
    for key in body.keys().filter(|key| !matches!(key.as_str(), "project_id" | "tenant_id")) {
        let ignored = kind == Kind::Port && key == "tags";
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

/// Gives a new object what every object has.
pub(super) fn stamp(draft: &mut Object, project: &str, now: jiff::Timestamp) {
    set(draft, "id", new_id());
    set(draft, "project_id", project);
    set(draft, "tenant_id", project);
    set(draft, "tags", json!([]));
    set(draft, "created_at", seconds(now));
    set(draft, "updated_at", seconds(now));
    set(draft, "revision_number", 0);
}

/// The changes in the body, each of them one of `allowed`; and that the caller may make them.
pub(super) fn changes(
    state: &State,
    context: &Context<'_>,
    kind: Kind,
    id: &str,
    allowed: &[&str],
) -> Result<Object, Reply> {
    find_own(state, context, kind, id, "update")?;
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

/// Makes the changes and answers with the object.
pub(super) fn apply(
    state: &mut State,
    context: &Context<'_>,
    kind: Kind,
    id: &str,
    changes: Object,
) -> Answer {
    if let Some(object) = state.find_mut(kind, id) {
        object.extend(changes);
        touch(object, context.now);
    }
    reply(state, kind, id, StatusCode::OK)
}

/// Refuses an object that would be one too many for its project.
pub(super) fn check_quota(state: &State, kind: Kind, project: &str) -> Result<(), Reply> {
    let limit = state.quota(project, kind.singular());
    let Ok(limit) = usize::try_from(limit) else { return Ok(()) };
    let held = state.table(kind).filter(|object| text(object, "project_id") == project).count();
    if held < limit {
        return Ok(());
    }
    let words = format!("Quota exceeded for resources: ['{}'].", kind.singular());
    Err(super::conflict("OverQuota", &words))
}

/// Whether the object has all, any of the tags in a filter.
pub(super) fn has_tags(object: &Object, wanted: &str, all: bool) -> bool {
    let tags = texts(object, "tags");
    let mut wanted = wanted.split(',');
    let has = |tag: &str| tags.iter().any(|held| held == tag);
    if all { wanted.all(has) } else { wanted.any(has) }
}
