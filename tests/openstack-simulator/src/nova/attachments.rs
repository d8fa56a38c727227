//! Handlers for ports and volumes of a Nova server.

use serde_json::{Value, json};

use super::servers::find;
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::neutron::ResourceKind;
use crate::object::{Object, set, text};
use crate::state::CloudState;

/// `GET /servers/{id}/os-interface`.
pub(super) fn interfaces(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    find(state, context, id)?;
    let ports = state.table(ResourceKind::Port).filter(|port| text(port, "device_id") == id);
    let views: Vec<Object> = ports
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
