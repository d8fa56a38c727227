//! Lists and reads of Octavia's resources.

use super::draft::find;
use super::*;
use crate::object::{object, set, text, texts};

/// Query parameters that are not filters on an attribute.
const LIST_OPTIONS: [&str; 10] = [
    "fields",
    "limit",
    "marker",
    "page_reverse",
    "sort",
    "tags",
    "tags-any",
    "not-tags",
    "not-tags-any",
    "loadbalancer_id",
];

/// `GET` of a kind. Members are those of one pool.
pub(super) fn list(
    state: &CloudState,
    context: &Context<'_>,
    kind: BalancerKind,
    pool: Option<&str>,
) -> HandlerResult {
    let query = &context.request.query;
    let mut found: Vec<Object> = state
        .balancers(kind)
        .filter(|object| context.caller.owns(text(object, "project_id")))
        .filter(|object| pool.is_none_or(|pool| text(object, POOL) == pool))
        .filter(|object| query.get("loadbalancer_id").is_none_or(|id| text(object, LOAD_BALANCER) == id))
        .map(|object| view(state, kind, object))
        .collect();
    check_filters(context, kind)?;
    found.retain(|object| matches(object, context));
    if let Some(marker) = query.get("marker") {
        let position = found.iter().position(|object| text(object, "id") == marker);
        let position = position.ok_or_else(|| kind.missing(marker))?;
        found.drain(..=position);
    }
    let limit = query.get("limit").and_then(|limit| limit.parse::<usize>().ok()).unwrap_or(1000).max(1);
    let more = found.len() > limit;
    found.truncate(limit);
    let mut body = Object::new();
    let plural = format!("{}s", kind.singular());
    if let Some(last) = found.last().filter(|_| more) {
        // The link lacks the filters of the request, as Octavia's does.
        let (request, marker) = (context.request, text(last, "id"));
        let href = format!("{}{}?limit={limit}&marker={marker}", request.base_url, request.path);
        set(&mut body, &format!("{plural}_links"), json!([{"rel": "next", "href": href}]));
    }
    set(&mut body, &plural, json!(found));
    Ok(Reply::ok(&Value::Object(body)))
}

/// Returns an error if a filter names no attribute of the kind.
fn check_filters(context: &Context<'_>, kind: BalancerKind) -> Result<(), Reply> {
    let common = [
        "id",
        "name",
        "description",
        "project_id",
        "provisioning_status",
        "operating_status",
        "admin_state_up",
        "created_at",
        "updated_at",
    ];
    let own: &[&str] = match kind {
        BalancerKind::LoadBalancer => &[
            "vip_address",
            "vip_port_id",
            "vip_subnet_id",
            "vip_network_id",
            "provider",
            "flavor_id",
            "availability_zone",
        ],
        BalancerKind::Listener => &["protocol", "protocol_port", "default_pool_id"],
        BalancerKind::Pool => &["protocol", "lb_algorithm", "healthmonitor_id"],
        BalancerKind::Member => &["address", "protocol_port", "weight", "subnet_id"],
        BalancerKind::HealthMonitor => &["type", "delay", "timeout", "max_retries", "pool_id"],
    };
    let keys = context.request.query.keys();
    let known = |key: &&&str| LIST_OPTIONS.contains(*key) || common.contains(*key) || own.contains(*key);
    if keys.iter().all(|key| known(&key)) {
        return Ok(());
    }
    Err(refusal(StatusCode::BAD_REQUEST, "One or more arguments are either duplicate or invalid"))
}

fn matches(object: &Object, context: &Context<'_>) -> bool {
    let query = &context.request.query;
    let held = texts(object, "tags");
    let has_all = |requested: &str| requested.split(',').all(|tag| held.iter().any(|held| held == tag));
    let has_any = |requested: &str| requested.split(',').any(|tag| held.iter().any(|held| held == tag));
    query.keys().iter().all(|key| {
        let mut values = query.all(key);
        match *key {
            "tags" => values.all(has_all),
            "tags-any" => values.any(has_any),
            "not-tags" => !values.any(has_all),
            "not-tags-any" => !values.any(has_any),
            key if LIST_OPTIONS.contains(&key) => true,
            key => values.any(|requested| plain(object.get(key)).eq_ignore_ascii_case(requested)),
        }
    })
}

fn plain(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

/// `GET` of one resource.
pub(super) fn get(state: &CloudState, context: &Context<'_>, kind: BalancerKind, id: &str) -> HandlerResult {
    find(state, context, kind, id)?;
    reply(state, kind, id, StatusCode::OK)
}

/// Returns a reply with the resource `id`.
pub(super) fn reply(state: &CloudState, kind: BalancerKind, id: &str, status: StatusCode) -> HandlerResult {
    let found = state.balancer(kind, id).ok_or_else(|| kind.missing(id))?;
    Ok(Reply::json(status, &json!({kind.singular(): view(state, kind, found)})))
}

/// Returns the resource in the form in which it is served, with references to its parts and parents.
fn view(state: &CloudState, kind: BalancerKind, held: &Object) -> Object {
    let id = text(held, "id");
    let mut view = held.clone();
    view.retain(|key, _| !key.starts_with('_'));
    let refer = |id: &str| if id.is_empty() { json!([]) } else { json!([{"id": id}]) };
    let parts = |kind: BalancerKind, key: &str| -> Value {
        let parts = state.balancers(kind).filter(|part| text(part, key) == id);
        parts.map(|part| json!({"id": text(part, "id")})).collect()
    };
    let more = match kind {
        BalancerKind::LoadBalancer => json!({
            "listeners": parts(BalancerKind::Listener, LOAD_BALANCER),
            "pools": parts(BalancerKind::Pool, LOAD_BALANCER),
        }),
        BalancerKind::Listener => json!({"loadbalancers": refer(text(held, LOAD_BALANCER))}),
        BalancerKind::Pool => {
            let monitor = state.balancers(BalancerKind::HealthMonitor).find(|it| text(it, POOL) == id);
            json!({
                "loadbalancers": refer(text(held, LOAD_BALANCER)), "listeners": refer(text(held, LISTENER)),
                "members": parts(BalancerKind::Member, POOL),
                "healthmonitor_id": monitor.map(|monitor| text(monitor, "id")),
            })
        }
        BalancerKind::Member => json!({}),
        BalancerKind::HealthMonitor => json!({"pools": refer(text(held, POOL))}),
    };
    view.extend(object(more));
    view
}
