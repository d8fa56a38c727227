//! Octavia v2: load balancers with listeners, pools, members and health monitors.

use http::{Method, StatusCode};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::context::Context;
use crate::http::{HandlerResult, Reply, Request};
use crate::object::Object;
use crate::options::SimulatorOptions;
use crate::state::CloudState;

mod age;
mod balancers;
mod children;
mod draft;
mod forwarding;
mod listing;
mod lookups;
mod members;
mod transitions;
mod tree;

pub(crate) use forwarding::{Target, forwarding};
pub(crate) use lookups::of_project;
pub(crate) use transitions::{Transition, advance};

/// Kind of a resource of Octavia.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum BalancerKind {
    LoadBalancer,
    Listener,
    Pool,
    Member,
    HealthMonitor,
}

impl BalancerKind {
    pub(crate) const ALL: [Self; 5] =
        [Self::LoadBalancer, Self::Listener, Self::Pool, Self::Member, Self::HealthMonitor];

    /// Returns its name in bodies and in quotas.
    fn singular(self) -> &'static str {
        match self {
            Self::LoadBalancer => "loadbalancer",
            Self::Listener => "listener",
            Self::Pool => "pool",
            Self::Member => "member",
            Self::HealthMonitor => "healthmonitor",
        }
    }

    /// Returns its name in errors.
    fn title(self) -> &'static str {
        match self {
            Self::LoadBalancer => "Load Balancer",
            Self::Listener => "Listener",
            Self::Pool => "Pool",
            Self::Member => "Member",
            Self::HealthMonitor => "Health Monitor",
        }
    }

    /// Returns the kind of a path segment; members are below their pool.
    fn of(segment: &str) -> Option<Self> {
        let top = [Self::LoadBalancer, Self::Listener, Self::Pool, Self::HealthMonitor];
        top.into_iter().find(|kind| segment.strip_suffix('s') == Some(kind.singular()))
    }

    fn missing(self, id: &str) -> Reply {
        refusal(StatusCode::NOT_FOUND, &format!("{} {id} not found.", self.title()))
    }
}

/// Key of the load balancer of a listener, pool, member or monitor. Keys with `_` are never served.
const LOAD_BALANCER: &str = "_load_balancer";
/// Key of the pool of a member or monitor.
const POOL: &str = "_pool";
/// Key of the listener of a pool.
const LISTENER: &str = "_listener";
/// Key of the provisioning status.
const STATUS: &str = "provisioning_status";

/// Returns an error in Octavia's format.
fn refusal(status: StatusCode, message: &str) -> Reply {
    let code = if status.is_server_error() { "Server" } else { "Client" };
    Reply::json(status, &json!({"faultcode": code, "faultstring": message, "debuginfo": null}))
}

fn invalid(detail: &str) -> Reply {
    refusal(StatusCode::BAD_REQUEST, &format!("Validation failure: {detail}"))
}

fn conflict(message: &str) -> Reply {
    refusal(StatusCode::CONFLICT, message)
}

fn unsupported(provider: &str, what: &str) -> Reply {
    let words = format!("Provider '{provider}' does not support a requested option/action: {what}");
    refusal(StatusCode::NOT_IMPLEMENTED, &words)
}

fn forbidden() -> Reply {
    refusal(StatusCode::FORBIDDEN, "Policy does not allow this request to be performed.")
}

fn no_such_page() -> Reply {
    refusal(StatusCode::NOT_FOUND, "The resource could not be found.")
}

/// The version document, which needs no token.
pub(crate) fn public(request: &Request, options: &SimulatorOptions) -> Option<Reply> {
    if request.segments() != ["load-balancer"] {
        return None;
    }
    let href = format!("{}/load-balancer/v2", request.base_url);
    let version = |minor: u32| {
        let status = if minor == options.load_balancer_minor { "CURRENT" } else { "SUPPORTED" };
        json!({
            "id": format!("v2.{minor}"), "status": status, "updated": "2022-08-29T00:00:00Z",
            "links": [{"rel": "self", "href": href}],
        })
    };
    let versions: Vec<Value> = (0..=options.load_balancer_minor).map(version).collect();
    Some(Reply::ok(&json!({"versions": versions})))
}

/// Handles a call to Octavia.
pub(crate) fn handle(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let minor = context.options.load_balancer_minor;
    route(state, context).map(|reply| age::without_newer(reply, minor))
}

fn route(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let segments = context.request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let ["load-balancer", "v2" | "v2.0", "lbaas", path @ ..] = segments.as_slice() else {
        return Err(no_such_page());
    };
    // The policy of Octavia, unlike those of Nova and Neutron in this release, tells readers from members.
    if context.caller.reader && !context.request.method.is_safe() {
        return Err(forbidden());
    }
    if path.first().is_some_and(|name| age::is_newer(name, context.options.load_balancer_minor)) {
        return Err(no_such_page());
    }
    match path {
        ["providers" | "flavors" | "availabilityzones" | "quotas", ..] => {
            lookups::handle(state, context, path)
        }
        ["loadbalancers", id, "status" | "statuses"] => tree::get(state, context, id),
        ["loadbalancers", id, "failover"] => balancers::fail_over(state, context, id),
        ["pools", pool, "members", rest @ ..] => members::handle(state, context, pool, rest),
        [name, rest @ ..] => match BalancerKind::of(name) {
            Some(kind) => resources(state, context, kind, rest),
            None => Err(no_such_page()),
        },
        [] => Err(no_such_page()),
    }
}

fn resources(
    state: &mut CloudState,
    context: &Context<'_>,
    kind: BalancerKind,
    path: &[&str],
) -> HandlerResult {
    match (&context.request.method, path) {
        (&Method::GET, []) => listing::list(state, context, kind, None),
        (&Method::GET, [id]) => listing::get(state, context, kind, id),
        (&Method::POST, []) if kind == BalancerKind::LoadBalancer => balancers::create(state, context),
        (&Method::PUT, [id]) if kind == BalancerKind::LoadBalancer => balancers::update(state, context, id),
        (&Method::DELETE, [id]) if kind == BalancerKind::LoadBalancer => {
            balancers::delete(state, context, id)
        }
        (&Method::POST, []) => children::create(state, context, kind),
        (&Method::PUT, [id]) => children::update(state, context, kind, id),
        (&Method::DELETE, [id]) => children::delete(state, context, kind, id),
        _ => Err(no_such_page()),
    }
}

/// Formats a time as `2026-11-21T07:27:53`, without a zone.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S").to_string()
}

impl CloudState {
    /// Returns the resources of one kind.
    pub(crate) fn balancers(&self, kind: BalancerKind) -> impl Iterator<Item = &Object> {
        self.load_balancing.get(&kind).into_iter().flat_map(std::collections::BTreeMap::values)
    }

    fn balancer(&self, kind: BalancerKind, id: &str) -> Option<&Object> {
        self.load_balancing.get(&kind)?.get(id)
    }

    fn balancer_mut(&mut self, kind: BalancerKind, id: &str) -> Option<&mut Object> {
        self.load_balancing.get_mut(&kind)?.get_mut(id)
    }
}
