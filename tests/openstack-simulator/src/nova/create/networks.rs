//! Networks of a new server.

use http::StatusCode;
use serde_json::{Value, json};

use super::super::model::Server;
use super::super::{bad_request, conflict, refusal};
use crate::context::Context;
use crate::http::Reply;
use crate::neutron::{Recipient, ResourceKind, allocate_one, ports};
use crate::object::{Object, flag, list, text};
use crate::state::CloudState;

/// One network interface of a new server.
pub(super) enum Nic {
    /// An existing port.
    Port(String),
    /// A network in which Nova creates a port, with an optional address.
    Network { id: String, address: Option<String> },
}

/// Port that Nova would create. Its hardware address is not known before.
const NEW: Recipient<'static> = Recipient { mac_address: "", device_owner: "compute:nova" };

/// Returns the interfaces that the body requests, with the checks that Nova makes before it responds.
pub(super) fn requested(state: &CloudState, context: &Context<'_>, body: &Object) -> Result<Vec<Nic>, Reply> {
    let nics = match body.get("networks") {
        Some(Value::Array(networks)) if !networks.is_empty() => {
            networks.iter().map(|network| nic(state, context, network)).collect::<Result<Vec<_>, _>>()?
        }
        Some(Value::String(word)) if word == "none" => Vec::new(),
        Some(_) | None => only_network(state, context)?,
    };
    let new = nics.iter().filter(|nic| matches!(nic, Nic::Network { .. })).count();
    let project = &context.caller.project_id;
    let held = state.network.count(ResourceKind::Port, project);
    let limit = state.quota(project, "port");
    if new > 0 && usize::try_from(limit).is_ok_and(|limit| held + new > limit) {
        return Err(refusal(StatusCode::FORBIDDEN, "Maximum number of ports exceeded"));
    }
    Ok(nics)
}

/// Returns the project's network, if there is exactly one; it is the default.
fn only_network(state: &CloudState, context: &Context<'_>) -> Result<Vec<Nic>, Reply> {
    let own = state.table(ResourceKind::Network).filter(|network| {
        text(network, "project_id") == context.caller.project_id || flag(network, "shared")
    });
    let own: Vec<&Object> = own.filter(|network| !flag(network, "router:external")).collect();
    if own.len() > 1 {
        return Err(conflict("Multiple possible networks found, use a Network ID to be more specific."));
    }
    Ok(own.iter().map(|network| Nic::Network { id: text(network, "id").to_owned(), address: None }).collect())
}

fn nic(state: &CloudState, context: &Context<'_>, network: &Value) -> Result<Nic, Reply> {
    let field = |key: &str| network.get(key).and_then(Value::as_str);
    if let Some(id) = field("port") {
        let port =
            state.find(ResourceKind::Port, id).filter(|port| context.caller.owns(text(port, "project_id")));
        let port = port.ok_or_else(|| bad_request(&format!("Port id {id} could not be found.")))?;
        if !text(port, "device_id").is_empty() {
            return Err(conflict(&format!("Port {id} is still in use.")));
        }
        if list(port, "fixed_ips").is_empty() {
            return Err(bad_request(&format!("Port {id} requires a FixedIP in order to be used.")));
        }
        return Ok(Nic::Port(id.to_owned()));
    }
    let id = field("uuid").unwrap_or_default();
    let missing = || bad_request(&format!("Network {id} could not be found."));
    let network = state.find(ResourceKind::Network, id).ok_or_else(missing)?;
    let own = context.caller.owns(text(network, "project_id")) || flag(network, "shared");
    if !own && !flag(network, "router:external") {
        return Err(missing());
    }
    if !own {
        let message = format!("It is not allowed to create an interface on external network {id}");
        return Err(refusal(StatusCode::FORBIDDEN, &message));
    }
    if state.with(ResourceKind::Subnet, "network_id", id).is_empty() {
        return Err(bad_request(&format!("Network {id} requires a subnet in order to boot instances on.")));
    }
    let address = field("fixed_ip").map(str::to_owned);
    if let Some(address) = &address {
        let fixed_ip = json!({"ip_address": address});
        allocate_one(state, id, &fixed_ip, &NEW).map_err(|_| {
            bad_request(&format!("Fixed IP address {address} is already in use on instance None."))
        })?;
    }
    Ok(Nic::Network { id: id.to_owned(), address })
}

/// Creates the missing ports, and attaches all of them to the server.
pub(super) fn connect(
    state: &mut CloudState,
    context: &Context<'_>,
    server: &mut Server,
    nics: &[Nic],
    groups: &[(String, String)],
) -> Result<(), Reply> {
    let groups: Vec<&str> = groups.iter().map(|(_, id)| id.as_str()).collect();
    for nic in nics {
        let port = match nic {
            Nic::Port(id) => id.clone(),
            Nic::Network { id, address } => {
                let fixed_ips = address.as_ref().map(|address| json!([{"ip_address": address}]));
                let attributes = json!({"fixed_ips": fixed_ips, "security_groups": groups});
                let made = ports::make(state, context, id, &server.project_id, attributes)?;
                server.own_ports.insert(made.clone());
                made
            }
        };
        ports::bind(state, &port, &server.id, &server.zone, context.now);
    }
    Ok(())
}
