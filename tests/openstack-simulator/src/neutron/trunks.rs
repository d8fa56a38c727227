//! Handlers for Neutron trunks.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resource::{apply, changes, check_quota, draft, find, find_own, reply};
use super::{ResourceKind, bad_request, conflict};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, list, set, text, touch};
use crate::state::CloudState;

/// `device_owner` of a port that a trunk carries.
const CARRIED: &str = "trunk:subport";

/// Returns the defaults of a trunk.
fn defaults() -> Value {
    json!({"name": "", "description": "", "admin_state_up": true, "port_id": "", "sub_ports": []})
}

/// Returns the trunk of a parent port.
pub(super) fn of_parent<'a>(state: &'a CloudState, port: &str) -> Option<&'a Object> {
    state.with(ResourceKind::Trunk, "port_id", port).into_iter().next()
}

/// Returns the trunk that carries a port.
fn carrier<'a>(state: &'a CloudState, port: &str) -> Option<&'a Object> {
    let carries = |trunk: &&Object| list(trunk, "sub_ports").iter().any(|subport| port_of(subport) == port);
    state.table(ResourceKind::Trunk).find(carries)
}

fn port_of(subport: &Value) -> &str {
    subport.get("port_id").and_then(Value::as_str).unwrap_or_default()
}

/// `POST /trunks`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let mut trunk = draft(context, ResourceKind::Trunk, defaults(), &["port_id"])?;
    let port = text(&trunk, "port_id").to_owned();
    find(state, context, ResourceKind::Port, &port)?;
    if let Some(known) = of_parent(state, &port) {
        let words = format!("Port {port} is in use by another trunk {}.", text(known, "id"));
        return Err(conflict("ParentPortInUse", &words));
    }
    check_quota(state, ResourceKind::Trunk, text(&trunk, "project_id"))?;
    set(&mut trunk, "status", "DOWN");
    let id = text(&trunk, "id").to_owned();
    state.insert(ResourceKind::Trunk, trunk);
    reply(state, ResourceKind::Trunk, &id, StatusCode::CREATED)
}

/// `PUT /trunks/{id}`.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let changes =
        changes(state, context, ResourceKind::Trunk, id, &["name", "description", "admin_state_up"])?;
    apply(state, context, ResourceKind::Trunk, id, changes)
}

/// `PUT /trunks/{id}/add_subports`. The body has no outer key.
pub(super) fn add_subports(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let trunk = find_own(state, context, ResourceKind::Trunk, id, "update")?;
    let mut held = list(trunk, "sub_ports").to_vec();
    for subport in list(&context.whole_body(), "sub_ports") {
        let port = port_of(subport).to_owned();
        find(state, context, ResourceKind::Port, &port)?;
        if let Some(other) = carrier(state, &port).or_else(|| of_parent(state, &port)) {
            let words = format!("Port {port} is in use by another trunk {}.", text(other, "id"));
            return Err(conflict("PortInUse", &words));
        }
        held.push(subport.clone());
        if let Some(port) = state.find_mut(ResourceKind::Port, &port) {
            set(port, "device_owner", CARRIED);
            set(port, "device_id", id);
            touch(port, context.now);
        }
    }
    write(state, context, id, held)
}

/// Adds a port to a trunk, as a CNI plugin does. Returns false if one of them does not exist.
pub(crate) fn carry(state: &mut CloudState, id: &str, port: &str, now: Timestamp) -> bool {
    let held = state.find(ResourceKind::Trunk, id).map(|trunk| list(trunk, "sub_ports").to_vec());
    let (Some(mut held), Some(found)) = (held, state.find_mut(ResourceKind::Port, port)) else {
        return false;
    };
    set(found, "device_owner", CARRIED);
    set(found, "device_id", id);
    touch(found, now);
    held.push(json!({"port_id": port, "segmentation_type": "vlan", "segmentation_id": held.len() + 1}));
    if let Some(trunk) = state.find_mut(ResourceKind::Trunk, id) {
        set(trunk, "sub_ports", held);
        touch(trunk, now);
    }
    true
}

/// `PUT /trunks/{id}/remove_subports`. The body has no outer key.
pub(super) fn remove_subports(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let trunk = find_own(state, context, ResourceKind::Trunk, id, "update")?;
    let mut held = list(trunk, "sub_ports").to_vec();
    for subport in list(&context.whole_body(), "sub_ports") {
        let port = port_of(subport);
        let Some(position) = held.iter().position(|known| port_of(known) == port) else {
            let words = format!("SubPort on trunk {id} with parent port {port} could not be found.");
            return Err(super::refusal(StatusCode::NOT_FOUND, "SubPortNotFound", &words));
        };
        held.remove(position);
        if let Some(port) = state.find_mut(ResourceKind::Port, port) {
            set(port, "device_owner", "");
            set(port, "device_id", "");
            touch(port, context.now);
        }
    }
    write(state, context, id, held)
}

fn write(state: &mut CloudState, context: &Context<'_>, id: &str, subports: Vec<Value>) -> HandlerResult {
    let trunk = state.find_mut(ResourceKind::Trunk, id).ok_or_else(|| ResourceKind::Trunk.missing(id))?;
    set(trunk, "sub_ports", subports);
    touch(trunk, context.now);
    Ok(Reply::ok(&Value::Object(trunk.clone())))
}

/// Deletes the trunk, unless a server uses its parent port.
pub(super) fn delete(state: &mut CloudState, id: &str) -> Result<(), Reply> {
    let parent = state.find(ResourceKind::Trunk, id).map(|trunk| text(trunk, "port_id").to_owned());
    let port = parent.and_then(|parent| state.find(ResourceKind::Port, &parent));
    if port.is_some_and(|port| !text(port, "device_id").is_empty()) {
        return Err(conflict("TrunkInUse", &format!("Trunk {id} is currently in use.")));
    }
    let Some(trunk) = state.remove(ResourceKind::Trunk, id) else {
        return Err(bad_request("HTTPBadRequest", ""));
    };
    for subport in list(&trunk, "sub_ports") {
        if let Some(port) = state.find_mut(ResourceKind::Port, port_of(subport)) {
            set(port, "device_owner", "");
            set(port, "device_id", "");
        }
    }
    Ok(())
}
