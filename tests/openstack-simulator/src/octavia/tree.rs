//! Status tree of a load balancer.

use super::draft::find;
use super::*;
use crate::object::{set, text};

/// `GET /loadbalancers/{id}/status`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let found = find(state, context, BalancerKind::LoadBalancer, id)?;
    let listeners = below(state, BalancerKind::Listener, LOAD_BALANCER, id);
    let listeners: Vec<Value> = listeners.map(|listener| with_pools(state, listener)).collect();
    let mut balancer = basics(found, &[]);
    set(&mut balancer, "listeners", listeners);
    Ok(Reply::ok(&json!({"statuses": {"loadbalancer": balancer}})))
}

fn below<'a>(
    state: &'a CloudState,
    kind: BalancerKind,
    key: &'a str,
    id: &'a str,
) -> impl Iterator<Item = &'a Object> {
    state.balancers(kind).filter(move |part| text(part, key) == id)
}

fn basics(object: &Object, more: &[&str]) -> Object {
    let keys = ["id", "name", STATUS, "operating_status"];
    let fields = keys.iter().chain(more);
    fields.map(|key| ((*key).to_owned(), object.get(*key).cloned().unwrap_or_default())).collect()
}

fn with_pools(state: &CloudState, listener: &Object) -> Value {
    let pools = below(state, BalancerKind::Pool, LISTENER, text(listener, "id"));
    let pools: Vec<Value> = pools
        .map(|pool| {
            let id = text(pool, "id");
            let members = below(state, BalancerKind::Member, POOL, id);
            let members: Vec<Value> =
                members.map(|member| basics(member, &["address", "protocol_port"]).into()).collect();
            let monitor = below(state, BalancerKind::HealthMonitor, POOL, id).next();
            let mut view = basics(pool, &[]);
            set(&mut view, "members", members);
            if let Some(monitor) = monitor {
                set(&mut view, "health_monitor", basics(monitor, &["type"]));
            }
            Value::Object(view)
        })
        .collect();
    let mut view = basics(listener, &[]);
    set(&mut view, "pools", pools);
    Value::Object(view)
}
