//! Handlers for ports and volumes of a Nova server.

use http::StatusCode;
use serde_json::{Value, json};

use super::actions::check;
use super::model::{Detachment, Server, VmState};
use super::servers::{check_unlocked, find, find_mut, record_action};
use super::{bad_request, not_found};
use crate::cinder;
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::neutron::ResourceKind;
use crate::object::{Object, set, text};
use crate::state::CloudState;

/// `GET /servers/{id}/os-interface`.
pub(super) fn interfaces(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    find(state, context, id)?;
    let ports = state.with(ResourceKind::Port, "device_id", id);
    let views: Vec<Object> = ports
        .into_iter()
        .map(|port| {
            let mut view = Object::new();
            set(&mut view, "net_id", text(port, "network_id"));
            set(&mut view, "port_id", text(port, "id"));
            set(&mut view, "mac_addr", text(port, "mac_address"));
            set(&mut view, "port_state", text(port, "status"));
            set(&mut view, "fixed_ips", port.get("fixed_ips").cloned().unwrap_or_default());
            if context.microversion >= 70 {
                set(&mut view, "tag", Value::Null);
            }
            view
        })
        .collect();
    Ok(Reply::ok(&json!({"interfaceAttachments": views})))
}

/// `GET /servers/{id}/os-volume_attachments`.
pub(super) fn volumes(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let server = find(state, context, id)?;
    let views: Vec<Object> = server
        .attachments
        .iter()
        .map(|held| {
            let mut view = Object::new();
            set(&mut view, "volumeId", held.volume_id.as_str());
            set(&mut view, "serverId", id);
            set(&mut view, "device", held.device.as_str());
            if context.microversion < 89 {
                set(&mut view, "id", held.volume_id.as_str());
            } else {
                set(&mut view, "attachment_id", held.attachment_id.as_str());
                set(&mut view, "bdm_uuid", held.mapping_id.as_str());
            }
            if context.microversion >= 70 {
                set(&mut view, "tag", Value::Null);
            }
            if context.microversion >= 79 {
                set(&mut view, "delete_on_termination", held.delete_on_termination);
            }
            view
        })
        .collect();
    Ok(Reply::ok(&json!({"volumeAttachments": views})))
}

/// Device of the volume that a server boots from.
const ROOT: &str = "/dev/sda";

/// `DELETE /servers/{id}/os-volume_attachments/{volume}`.
pub(super) fn detach(state: &mut CloudState, context: &Context<'_>, id: &str, volume: &str) -> HandlerResult {
    let server = find(state, context, id)?;
    let known = state.volumes.get(volume).filter(|it| it.project_id == context.caller.project_id);
    known.ok_or_else(|| not_found(&format!("Volume {volume} could not be found.")))?;
    check_detachable(server, volume)?;
    check_unlocked(state, context, id)?;
    let states = [VmState::Active, VmState::Stopped, VmState::SoftDeleted];
    check(server, context, "detach_volume", &states, &[])?;
    if !cinder::begin_detaching(state, volume, context.now) {
        let words = format!(
            "Invalid volume: Invalid input received: Invalid volume: Unable to detach volume. Volume status must be \
             'in-use' and attach_status must be 'attached' to detach. (HTTP 400) (Request-ID: {})",
            context.request.request_id
        );
        return Err(bad_request(&words));
    }
    let until = context.after(context.options.volume_time);
    let server = find_mut(state, context, id)?;
    record_action(server, context, "detach_volume", "compute_detach_volume");
    let detachment = Detachment { until, request_id: context.request.request_id.clone() };
    if let Some(held) = server.attachments.iter_mut().find(|held| held.volume_id == volume) {
        held.detachment = Some(detachment);
    }
    state.expect(until);
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// Returns an error for a volume that the server does not have, and for the one that it boots from.
fn check_detachable(server: &Server, volume: &str) -> Result<(), Reply> {
    let held = server.attachments.iter().find(|held| held.volume_id == volume);
    let missing = || not_found(&format!("Instance {} is not attached to volume {volume}", server.id));
    if held.ok_or_else(missing)?.device == ROOT && server.image.is_none() {
        return Err(bad_request("Cannot detach a root device volume"));
    }
    Ok(())
}
