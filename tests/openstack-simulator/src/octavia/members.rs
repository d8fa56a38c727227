//! Handlers for the members of a pool, one by one or all at once.

use super::draft::{changes, check_mutable, check_quota, draft, draft_of, find, with_basics};
use super::transitions::begin;
use super::*;
use crate::object::{object, set, text};

/// Attributes of a member that users may set.
fn defaults() -> Value {
    with_basics(json!({
        "weight": 1, "backup": false, "subnet_id": null, "monitor_address": null, "monitor_port": null,
    }))
}

/// Attributes of a member that users must set.
const REQUIRED: [&str; 2] = ["address", "protocol_port"];

/// Handles everything under `/pools/{pool}/members`.
pub(super) fn handle(
    state: &mut CloudState,
    context: &Context<'_>,
    pool: &str,
    path: &[&str],
) -> HandlerResult {
    let load_balancer = text(find(state, context, BalancerKind::Pool, pool)?, LOAD_BALANCER).to_owned();
    let kind = BalancerKind::Member;
    match (&context.request.method, path) {
        (&Method::GET, []) => listing::list(state, context, kind, Some(pool)),
        (&Method::POST, []) => create(state, context, pool, &load_balancer),
        (&Method::PUT, []) => batch(state, context, pool, &load_balancer),
        (method, [id]) => {
            let of_pool = text(find(state, context, kind, id)?, POOL) == pool;
            match *method {
                _ if !of_pool => Err(kind.missing(id)),
                Method::GET => listing::get(state, context, kind, id),
                Method::PUT => update(state, context, id, &load_balancer),
                Method::DELETE => delete(state, context, id, &load_balancer),
                _ => Err(no_such_page()),
            }
        }
        _ => Err(no_such_page()),
    }
}

/// Returns true if a member has the address and port.
fn is_at(member: &Object, pool: &str, new: &Object) -> bool {
    text(member, POOL) == pool
        && text(member, "address") == text(new, "address")
        && member.get("protocol_port") == new.get("protocol_port")
}

fn create(state: &mut CloudState, context: &Context<'_>, pool: &str, load_balancer: &str) -> HandlerResult {
    let kind = BalancerKind::Member;
    let new = draft(context, kind, defaults(), &REQUIRED)?;
    if state.balancers(kind).any(|member| is_at(member, pool, &new)) {
        let port = new.get("protocol_port").and_then(Value::as_i64).unwrap_or_default();
        return Err(conflict(&format!(
            "Another member on this pool is already using ip {} on protocol_port {port}",
            text(&new, "address")
        )));
    }
    check_quota(state, context, kind, 1)?;
    check_mutable(state, load_balancer)?;
    let id = insert(state, new, pool, load_balancer);
    begin(state, context, load_balancer, vec![(kind, id.clone())], "PENDING_CREATE");
    listing::reply(state, kind, &id, StatusCode::CREATED)
}

fn insert(state: &mut CloudState, mut new: Object, pool: &str, load_balancer: &str) -> String {
    let id = text(&new, "id").to_owned();
    set(&mut new, POOL, pool);
    set(&mut new, LOAD_BALANCER, load_balancer);
    state.load_balancing.entry(BalancerKind::Member).or_default().insert(id.clone(), new);
    id
}

fn update(state: &mut CloudState, context: &Context<'_>, id: &str, load_balancer: &str) -> HandlerResult {
    let kind = BalancerKind::Member;
    let allowed = ["name", "admin_state_up", "tags", "weight", "backup", "monitor_address", "monitor_port"];
    let changes = changes(context, kind, &allowed)?;
    check_mutable(state, load_balancer)?;
    if let Some(object) = state.balancer_mut(kind, id) {
        object.extend(changes);
    }
    begin(state, context, load_balancer, vec![(kind, id.to_owned())], "PENDING_UPDATE");
    listing::reply(state, kind, id, StatusCode::OK)
}

fn delete(state: &mut CloudState, context: &Context<'_>, id: &str, load_balancer: &str) -> HandlerResult {
    check_mutable(state, load_balancer)?;
    begin(state, context, load_balancer, vec![(BalancerKind::Member, id.to_owned())], "PENDING_DELETE");
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// `PUT /pools/{pool}/members`: adds and changes members; without `additive_only` it removes all others.
fn batch(state: &mut CloudState, context: &Context<'_>, pool: &str, load_balancer: &str) -> HandlerResult {
    let kind = BalancerKind::Member;
    let parameter = "additive_only";
    if context.request.query.get(parameter).is_some()
        && age::is_newer(parameter, context.options.load_balancer_minor)
    {
        let words = format!("Unknown argument: \"{parameter}\"");
        return Err(refusal(StatusCode::BAD_REQUEST, &words));
    }
    let additive =
        context.request.query.get(parameter).is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let whole = context.whole_body();
    let bodies = crate::object::list(&whole, "members").iter().cloned().map(object);
    let new: Vec<Object> =
        bodies.map(|body| draft_of(context, body, defaults(), &REQUIRED)).collect::<Result<_, _>>()?;
    let is_known = |new: &Object| state.balancers(kind).any(|member| is_at(member, pool, new));
    check_quota(state, context, kind, new.iter().filter(|new| !is_known(new)).count())?;
    check_mutable(state, load_balancer)?;
    let surplus: Vec<String> = state
        .balancers(kind)
        .filter(|member| text(member, POOL) == pool && !new.iter().any(|new| is_at(member, pool, new)))
        .map(|member| text(member, "id").to_owned())
        .collect();
    let mut targets = Vec::new();
    for new in new {
        let known = state.balancers(kind).find(|member| is_at(member, pool, &new));
        let known = known.map(|member| text(member, "id").to_owned());
        let id = match known {
            Some(id) => {
                if let Some(member) = state.balancer_mut(kind, &id) {
                    set(member, "weight", new.get("weight").cloned().unwrap_or_default());
                }
                id
            }
            None => insert(state, new, pool, load_balancer),
        };
        targets.push((kind, id));
    }
    if !additive {
        let members = state.load_balancing.entry(kind).or_default();
        members.retain(|id, _| !surplus.contains(id));
    }
    begin(state, context, load_balancer, targets, "PENDING_UPDATE");
    Ok(Reply::empty(StatusCode::ACCEPTED))
}
