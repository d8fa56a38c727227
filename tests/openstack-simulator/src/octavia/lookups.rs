//! Providers, flavors, availability zones and quotas of Octavia.

use super::*;
use crate::object::text;

/// The providers. Changes of `frozen` never end.
pub(super) const PROVIDERS: [(&str, &str); 4] = [
    ("amphora", "The Octavia Amphora driver."),
    ("octavia", "Deprecated alias of the Octavia Amphora driver."),
    ("ovn", "Octavia OVN driver."),
    ("frozen", "A driver that never ends a change."),
];

/// The flavors: id, name, and whether it is enabled.
pub(super) const FLAVORS: [(&str, &str, bool); 2] = [
    ("6a1f3c3e-8f0b-4b1c-9a53-0f2b8f3f2f11", "single", true),
    ("2c7d5b1a-0d1f-4c7e-8a5e-9d3b7a6c5e22", "retired", false),
];

/// The availability zones.
pub(super) const ZONES: [&str; 1] = ["az1"];

/// Handles the calls that concern no load balancer.
pub(super) fn handle(state: &mut CloudState, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    match (&context.request.method, path) {
        (&Method::GET, ["providers"]) => {
            let view = |(name, description): &(&str, &str)| json!({"name": name, "description": description});
            Ok(Reply::ok(&json!({"providers": PROVIDERS.iter().map(view).collect::<Vec<Value>>()})))
        }
        (&Method::GET, ["flavors"]) => {
            let views: Vec<Value> = FLAVORS.iter().map(flavor).collect();
            Ok(Reply::ok(&json!({"flavors": views})))
        }
        (&Method::GET, ["flavors", id]) => {
            let found = FLAVORS.iter().find(|(held, ..)| held == id);
            let missing = || refusal(StatusCode::NOT_FOUND, &format!("Flavor {id} not found."));
            Ok(Reply::ok(&json!({"flavor": flavor(found.ok_or_else(missing)?)})))
        }
        (&Method::GET, ["availabilityzones"]) => {
            let view = |name: &&str| json!({"name": name, "description": "", "enabled": true});
            Ok(Reply::ok(&json!({"availability_zones": ZONES.iter().map(view).collect::<Vec<Value>>()})))
        }
        (&Method::GET, ["quotas", project]) if context.caller.owns(project) => {
            Ok(Reply::ok(&json!({"quota": quota(state, project)})))
        }
        (&Method::GET, ["quotas", ..]) => Err(forbidden()),
        (&Method::PUT, ["quotas", project]) if context.caller.admin => {
            let quotas = state.quotas.entry((*project).to_owned()).or_default();
            for (resource, limit) in context.body("quota").unwrap_or_default() {
                if let Some(limit) = limit.as_i64() {
                    quotas.insert(resource.replace('_', ""), limit);
                }
            }
            Ok(Reply::json(StatusCode::ACCEPTED, &json!({"quota": quota(state, project)})))
        }
        (&Method::PUT, ["quotas", ..]) => Err(forbidden()),
        _ => Err(no_such_page()),
    }
}

fn flavor((id, name, enabled): &(&str, &str, bool)) -> Value {
    json!({"id": id, "name": name, "description": "", "enabled": enabled, "flavor_profile_id": null})
}

fn quota(state: &CloudState, project: &str) -> Value {
    let limit = |kind: BalancerKind| state.quota(project, kind.singular());
    let (balancers, monitors) = (limit(BalancerKind::LoadBalancer), limit(BalancerKind::HealthMonitor));
    json!({
        "load_balancer": balancers, "loadbalancer": balancers, "listener": limit(BalancerKind::Listener),
        "pool": limit(BalancerKind::Pool), "member": limit(BalancerKind::Member),
        "health_monitor": monitors, "healthmonitor": monitors, "l7policy": -1, "l7rule": -1,
    })
}

/// Returns the load balancers of a project: id and name.
pub(crate) fn of_project<'a>(
    state: &'a CloudState,
    project: &'a str,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let all = state.balancers(BalancerKind::LoadBalancer);
    all.filter(move |it| text(it, "project_id") == project).map(|it| (text(it, "id"), text(it, "name")))
}
