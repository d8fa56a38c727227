//! Transitions of servers that happen after a delay.

use jiff::Timestamp;
use serde_json::json;

use super::model::{Attachment, Detachment, Pending, Server, ServerFault, ServerTask, VmState};
use crate::neutron::{ResourceKind, ports};
use crate::object::{set, text, touch};
use crate::state::CloudState;

/// Completes all tasks due by `now`, and returns the time of the next one.
pub(crate) fn advance(state: &mut CloudState, now: Timestamp) -> Option<Timestamp> {
    let due = state.servers.due(now);
    let task = |id: &String| Some((state.servers.get(id)?.pending.as_ref()?.until, id.clone()));
    let mut tasks: Vec<(Timestamp, String)> = due.iter().filter_map(task).collect();
    tasks.retain(|(until, _)| *until <= now);
    tasks.sort();
    for (_, id) in tasks {
        finish(state, &id);
    }
    for id in &due {
        detach(state, id, now);
        state.servers.forget(id, now);
    }
    state.settle();
    state.servers.next_due()
}

/// Detaches the volumes of a server whose detachment is due by `now`.
fn detach(state: &mut CloudState, id: &str, now: Timestamp) {
    let Some(server) = state.servers.get_mut(id) else { return };
    let begun = |held: &Attachment| Some((held.volume_id.clone(), held.detachment.clone()?));
    let due = server.attachments.iter().filter_map(begun);
    let due: Vec<(String, Detachment)> = due.filter(|(_, begun)| begun.until <= now).collect();
    let mut detached = Vec::new();
    for (volume, Detachment { until, request_id }) in due {
        server.attachments.retain(|held| held.volume_id != volume);
        if let Some(action) = server.actions.iter_mut().find(|action| action.request_id == request_id) {
            action.finished = Some(until);
        }
        detached.push((volume, until));
    }
    for (volume, until) in detached {
        crate::cinder::detach(state, &volume, false, until);
    }
}

fn finish(state: &mut CloudState, id: &str) {
    let Some(server) = state.servers.get_mut(id) else { return };
    let Some(pending) = server.pending.take() else { return };
    server.updated = pending.until;
    close_action(server, &pending);
    match (pending.task, pending.failure) {
        (_, Some(message)) => {
            server.vm_state = VmState::Error;
            server.fault = Some(ServerFault { message, created: pending.until });
        }
        (ServerTask::Build, None) => {
            server.vm_state = VmState::Active;
            server.launched = Some(pending.until);
            set_ports(state, id, "ACTIVE", pending.until);
        }
        (ServerTask::Rebuild, None) => {
            // A server that was shut off is shut off again after its rebuild.
            server.vm_state =
                if server.vm_state == VmState::Stopped { VmState::Stopped } else { VmState::Active };
            server.launched = Some(pending.until);
            server.fault = None;
        }
        (ServerTask::Reboot | ServerTask::HardReboot | ServerTask::PowerOn, None) => {
            server.vm_state = VmState::Active;
            server.fault = None;
        }
        (ServerTask::PowerOff, None) => server.vm_state = VmState::Stopped,
        (ServerTask::Delete, None) => terminate(state, id, pending.until),
    }
}

fn close_action(server: &mut Server, pending: &Pending) {
    let open = |action: &&mut super::model::InstanceAction| action.finished.is_none();
    let name = pending.task.action();
    let action = server.actions.iter_mut().rev().filter(open).find(|action| action.name == name);
    if let Some(action) = action {
        action.finished = Some(pending.until);
        action.failed = pending.failure.is_some();
    }
}

/// Returns the ids of the server's ports.
fn ports_of(state: &CloudState, server: &str) -> Vec<String> {
    let ports = state.with(ResourceKind::Port, "device_id", server).into_iter();
    ports.map(|port| text(port, "id").to_owned()).collect()
}

/// Sets the status of the server's ports.
fn set_ports(state: &mut CloudState, server: &str, status: &str, now: Timestamp) {
    for port in ports_of(state, server) {
        if let Some(port) = state.find_mut(ResourceKind::Port, &port) {
            set(port, "status", status);
            touch(port, now);
        }
    }
}

/// Releases all resources of the server, and keeps a record of the deleted server.
fn terminate(state: &mut CloudState, id: &str, now: Timestamp) {
    let Some(server) = state.servers.get_mut(id) else { return };
    server.vm_state = VmState::Deleted;
    server.terminated = Some(now);
    let own_ports = std::mem::take(&mut server.own_ports);
    let attachments = std::mem::take(&mut server.attachments);
    for port in &own_ports {
        ports::discard(state, port, now);
    }
    for port in ports_of(state, id) {
        if let Some(port) = state.find_mut(ResourceKind::Port, &port) {
            set(port, "device_id", "");
            set(port, "device_owner", "");
            set(port, "status", "DOWN");
            set(port, "binding:host_id", json!(""));
            touch(port, now);
        }
    }
    for attachment in attachments {
        crate::cinder::detach(state, &attachment.volume_id, attachment.delete_on_termination, now);
    }
}
