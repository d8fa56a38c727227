//! Neutron v2.0: networks, ports, routers, floating IPs and security groups.

use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::context::Context;
use crate::http::{HandlerResult, Reply, Request};
use crate::state::CloudState;

mod allocation;
mod extensions;
mod floating_ips;
mod index;
mod ip_availability;
mod listing;
mod networks;
pub(crate) mod ports;
mod quotas;
mod resource;
mod router_interfaces;
mod routers;
pub(crate) mod security_group_rules;
pub(crate) mod security_groups;
mod subnets;
mod tables;
mod tags;
pub(crate) mod trunks;

pub(crate) use allocation::{Recipient, allocate, allocate_one};
pub(crate) use tables::NetworkTables;

/// Kind of a network resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum ResourceKind {
    Network,
    Subnet,
    Port,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    FloatingIp,
    Trunk,
}

impl ResourceKind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Network,
        Self::Subnet,
        Self::Port,
        Self::Router,
        Self::SecurityGroup,
        Self::SecurityGroupRule,
        Self::FloatingIp,
        Self::Trunk,
    ];

    /// Returns its name in bodies and in quotas.
    pub(crate) fn singular(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Subnet => "subnet",
            Self::Port => "port",
            Self::Router => "router",
            Self::SecurityGroup => "security_group",
            Self::SecurityGroupRule => "security_group_rule",
            Self::FloatingIp => "floatingip",
            Self::Trunk => "trunk",
        }
    }

    /// Returns its name in lists.
    pub(crate) fn plural(self) -> String {
        format!("{}s", self.singular())
    }

    /// Returns the kind of a path segment.
    fn of(segment: &str) -> Option<Self> {
        let name = segment.replace('-', "_");
        Self::ALL.into_iter().find(|kind| kind.plural() == name)
    }

    /// Returns a 404 with the message for the kind.
    pub(crate) fn missing(self, id: &str) -> Reply {
        let (name, words) = match self {
            Self::Network => ("NetworkNotFound", format!("Network {id} could not be found.")),
            Self::Subnet => ("SubnetNotFound", format!("Subnet {id} could not be found.")),
            Self::Port => ("PortNotFound", format!("Port {id} could not be found.")),
            Self::Router => ("RouterNotFound", format!("Router {id} could not be found")),
            Self::SecurityGroup => ("SecurityGroupNotFound", format!("Security group {id} does not exist")),
            Self::SecurityGroupRule => {
                ("SecurityGroupRuleNotFound", format!("Security group rule {id} does not exist"))
            }
            Self::FloatingIp => ("FloatingIPNotFound", format!("Floating IP {id} could not be found")),
            Self::Trunk => ("TrunkNotFound", format!("Trunk {id} could not be found.")),
        };
        refusal(StatusCode::NOT_FOUND, name, &words)
    }
}

/// Returns an error in Neutron's format.
pub(crate) fn refusal(status: StatusCode, kind: &str, message: &str) -> Reply {
    Reply::json(status, &json!({"NeutronError": {"type": kind, "message": message, "detail": ""}}))
}

fn bad_request(kind: &str, message: &str) -> Reply {
    refusal(StatusCode::BAD_REQUEST, kind, message)
}

fn conflict(kind: &str, message: &str) -> Reply {
    refusal(StatusCode::CONFLICT, kind, message)
}

fn no_such_page() -> Reply {
    refusal(StatusCode::NOT_FOUND, "HTTPNotFound", "The resource could not be found.")
}

/// The version documents, which need no token.
pub(crate) fn public(request: &Request) -> Option<Reply> {
    let link = json!([{"rel": "self", "href": format!("{}/network/v2.0/", request.base_url)}]);
    let version = json!({"id": "v2.0", "status": "CURRENT", "links": link});
    (request.segments() == ["network"]).then(|| Reply::ok(&json!({"versions": [version]})))
}

/// Handles a call to Neutron.
pub(crate) fn handle(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let segments = context.request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let Some(["network", "v2.0"]) = segments.get(..2) else { return Err(no_such_page()) };
    let path: Vec<&str> =
        segments.iter().skip(2).map(|part| part.strip_suffix(".json").unwrap_or(part)).collect();
    match path.as_slice() {
        [] => Ok(extensions::resources(context)),
        ["extensions", rest @ ..] => extensions::handle(context, rest),
        ["network-ip-availabilities", rest @ ..] => ip_availability::handle(state, context, rest),
        ["quotas", rest @ ..] => quotas::handle(state, context, rest),
        ["availability_zones"] => Ok(extensions::zones()),
        [name, rest @ ..] => match ResourceKind::of(name) {
            Some(kind) => resources(state, context, kind, rest),
            None => Err(no_such_page()),
        },
    }
}

fn resources(
    state: &mut CloudState,
    context: &Context<'_>,
    kind: ResourceKind,
    path: &[&str],
) -> HandlerResult {
    match (&context.request.method, path) {
        (&Method::GET, []) => listing::list(state, context, kind),
        (&Method::POST, []) => create(state, context, kind),
        (&Method::GET, [id]) => resource::get(state, context, kind, id),
        (&Method::PUT, [id]) => update(state, context, kind, id),
        (&Method::DELETE, [id]) => delete(state, context, kind, id),
        (_, [id, "tags", rest @ ..]) => tags::handle(state, context, kind, id, rest),
        (&Method::PUT, [id, "add_router_interface"]) if kind == ResourceKind::Router => {
            router_interfaces::add(state, context, id)
        }
        (&Method::PUT, [id, "remove_router_interface"]) if kind == ResourceKind::Router => {
            router_interfaces::remove(state, context, id)
        }
        (&Method::PUT, [id, "remove_extraroutes"]) if kind == ResourceKind::Router => {
            routers::remove_routes(state, context, id)
        }
        (&Method::PUT, [id, "add_subports"]) if kind == ResourceKind::Trunk => {
            trunks::add_subports(state, context, id)
        }
        (&Method::PUT, [id, "remove_subports"]) if kind == ResourceKind::Trunk => {
            trunks::remove_subports(state, context, id)
        }
        _ => Err(no_such_page()),
    }
}

fn create(state: &mut CloudState, context: &Context<'_>, kind: ResourceKind) -> HandlerResult {
    match kind {
        ResourceKind::Network => networks::create(state, context),
        ResourceKind::Subnet => subnets::create(state, context),
        ResourceKind::Port => ports::create(state, context),
        ResourceKind::Router => routers::create(state, context),
        ResourceKind::SecurityGroup => security_groups::create(state, context),
        ResourceKind::SecurityGroupRule => security_group_rules::create(state, context),
        ResourceKind::FloatingIp => floating_ips::create(state, context),
        ResourceKind::Trunk => trunks::create(state, context),
    }
}

fn update(state: &mut CloudState, context: &Context<'_>, kind: ResourceKind, id: &str) -> HandlerResult {
    match kind {
        ResourceKind::Network => networks::update(state, context, id),
        ResourceKind::Subnet => subnets::update(state, context, id),
        ResourceKind::Port => ports::update(state, context, id),
        ResourceKind::Router => routers::update(state, context, id),
        ResourceKind::SecurityGroup => security_groups::update(state, context, id),
        ResourceKind::SecurityGroupRule => Err(no_such_page()),
        ResourceKind::FloatingIp => floating_ips::update(state, context, id),
        ResourceKind::Trunk => trunks::update(state, context, id),
    }
}

fn delete(state: &mut CloudState, context: &Context<'_>, kind: ResourceKind, id: &str) -> HandlerResult {
    resource::find_own(state, context, kind, id, "delete")?;
    match kind {
        ResourceKind::Trunk => trunks::delete(state, id)?,
        ResourceKind::Network => networks::delete(state, id)?,
        ResourceKind::Subnet => subnets::delete(state, id, context)?,
        ResourceKind::Port => ports::delete(state, id, context)?,
        ResourceKind::Router => routers::delete(state, id)?,
        ResourceKind::SecurityGroup => security_groups::delete(state, id, context)?,
        ResourceKind::SecurityGroupRule | ResourceKind::FloatingIp => {
            state.remove(kind, id);
        }
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
