//! New resources and changes, from the bodies of requests.

use serde_json::{Value, json};

use super::*;
use crate::object::{new_id, object, set, text};

/// Returns the attributes in a body.
fn body(context: &Context<'_>, kind: BalancerKind) -> Result<Object, Reply> {
    let name = kind.singular();
    let missing = || {
        let words =
            format!("Invalid input for field/attribute {name}. Value: 'None'. Mandatory field missing.");
        refusal(StatusCode::BAD_REQUEST, &words)
    };
    context.body(name).ok_or_else(missing)
}

/// Creates a resource from the body of a request.
pub(super) fn draft(
    context: &Context<'_>,
    kind: BalancerKind,
    defaults: Value,
    required: &[&str],
) -> Result<Object, Reply> {
    draft_of(context, body(context, kind)?, defaults, required)
}

/// Creates a resource from attributes: `defaults` has every attribute that users may set.
pub(super) fn draft_of(
    context: &Context<'_>,
    body: Object,
    defaults: Value,
    required: &[&str],
) -> Result<Object, Reply> {
    let mut draft = object(defaults);
    for key in required {
        if body.get(*key).is_none_or(Value::is_null) {
            let words =
                format!("Invalid input for field/attribute {key}. Value: 'None'. Mandatory field missing.");
            return Err(refusal(StatusCode::BAD_REQUEST, &words));
        }
    }
    check_known(context, &body, |key| {
        draft.contains_key(key) || required.contains(&key) || key == "project_id" || key == "tenant_id"
    })?;
    draft.extend(body);
    set(&mut draft, "id", new_id());
    set(&mut draft, "project_id", context.caller.project_id.clone());
    set(&mut draft, "created_at", time(context.now));
    set(&mut draft, "updated_at", Value::Null);
    set(&mut draft, "operating_status", "OFFLINE");
    set(&mut draft, STATUS, "PENDING_CREATE");
    Ok(draft)
}

fn check_known(context: &Context<'_>, body: &Object, known: impl Fn(&str) -> bool) -> Result<(), Reply> {
    let minor = context.options.load_balancer_minor;
    match body.keys().find(|key| !known(key) || age::is_newer(key, minor)) {
        Some(key) => {
            let words = format!("Unknown attribute:\n{key}");
            Err(refusal(StatusCode::BAD_REQUEST, &words))
        }
        None => Ok(()),
    }
}

/// Returns the changes in a body, if all of them are in `allowed`.
pub(super) fn changes(context: &Context<'_>, kind: BalancerKind, allowed: &[&str]) -> Result<Object, Reply> {
    let body = body(context, kind)?;
    check_known(context, &body, |key| allowed.contains(&key))?;
    Ok(body)
}

/// Returns the resource, if it belongs to the caller.
pub(super) fn find<'a>(
    state: &'a CloudState,
    context: &Context<'_>,
    kind: BalancerKind,
    id: &str,
) -> Result<&'a Object, Reply> {
    let found = state.balancer(kind, id).ok_or_else(|| kind.missing(id))?;
    if context.caller.owns(text(found, "project_id")) { Ok(found) } else { Err(forbidden()) }
}

/// Returns an error if `more` resources would exceed the project's quota.
pub(super) fn check_quota(
    state: &CloudState,
    context: &Context<'_>,
    kind: BalancerKind,
    more: usize,
) -> Result<(), Reply> {
    let project = context.caller.project_id.as_str();
    let Ok(limit) = usize::try_from(state.quota(project, kind.singular())) else { return Ok(()) };
    let held = state.balancers(kind).filter(|it| text(it, "project_id") == project).count();
    if held + more <= limit {
        return Ok(());
    }
    let words = format!("Quota has been met for resources: {}", kind.title());
    Err(refusal(StatusCode::FORBIDDEN, &words))
}

/// Returns an error unless the load balancer accepts a change of its listeners, pools and so on.
pub(super) fn check_mutable(state: &CloudState, load_balancer: &str) -> Result<(), Reply> {
    let kind = BalancerKind::LoadBalancer;
    let found = state.balancer(kind, load_balancer).ok_or_else(|| kind.missing(load_balancer))?;
    if text(found, STATUS) == "ACTIVE" {
        return Ok(());
    }
    Err(conflict(&format!("Load Balancer {load_balancer} is immutable and cannot be updated.")))
}

/// Returns the provider of a load balancer.
pub(super) fn provider<'a>(state: &'a CloudState, load_balancer: &str) -> &'a str {
    let found = state.balancer(BalancerKind::LoadBalancer, load_balancer);
    found.map(|it| text(it, "provider")).unwrap_or_default()
}

/// Returns the attributes that all kinds have.
pub(super) fn with_basics(attributes: Value) -> Value {
    let mut whole = object(json!({"name": "", "admin_state_up": true, "tags": []}));
    whole.extend(object(attributes));
    Value::Object(whole)
}
