//! Handlers for one server: get, rename, delete.

use http::StatusCode;
use serde_json::{Value, json};

use super::model::{InstanceAction, Pending, Server, ServerTask, VmState};
use super::{bad_request, conflict, not_found, view};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::set;
use crate::state::CloudState;

fn missing(id: &str) -> Reply {
    not_found(&format!("Instance {id} could not be found."))
}

/// Returns the server, if it exists and belongs to the caller.
pub(super) fn find<'a>(state: &'a CloudState, context: &Context<'_>, id: &str) -> Result<&'a Server, Reply> {
    let server = state.servers.get(id);
    let server = server.filter(|server| server.exists() && context.caller.owns(&server.project_id));
    server.ok_or_else(|| missing(id))
}

/// Returns the server, to change it.
pub(super) fn find_mut<'a>(
    state: &'a mut CloudState,
    context: &Context<'_>,
    id: &str,
) -> Result<&'a mut Server, Reply> {
    let server = state.servers.get_mut(id);
    let server = server.filter(|server| server.exists() && context.caller.owns(&server.project_id));
    server.ok_or_else(|| missing(id))
}

/// `GET /servers/{id}`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let server = find(state, context, id)?;
    if !server.unreachable {
        return Ok(Reply::ok(&json!({"server": view::full(state, server, context)})));
    }
    match context.microversion {
        69.. => Ok(Reply::ok(&json!({"server": view::of_unreachable_cell(server, context)}))),
        _ => Err(not_found(&format!("Instance {id} could not be found."))),
    }
}

/// `PUT /servers/{id}`: changes its name and its description.
pub(super) fn update(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let body = context.body("server").ok_or_else(|| bad_request("Malformed request body"))?;
    let server = find_mut(state, context, id)?;
    if let Some(name) = body.get("name").and_then(Value::as_str) {
        name.clone_into(&mut server.name);
    }
    if let Some(description) = body.get("description") {
        server.description = description.as_str().map(str::to_owned);
    }
    server.updated = context.now;
    let server = find(state, context, id)?;
    let mut view = view::full(state, server, context);
    if context.microversion >= 75 {
        set(&mut view, "user_data", json!(server.user_data));
    }
    Ok(Reply::ok(&json!({"server": view})))
}

/// Records the action of a task in the server's history.
pub(super) fn record(server: &mut Server, context: &Context<'_>, task: ServerTask) {
    record_action(server, context, task.action(), task.event());
}

/// Records a new action in the server's history.
pub(super) fn record_action(server: &mut Server, context: &Context<'_>, name: &str, event: &str) {
    server.actions.push(InstanceAction {
        name: name.to_owned(),
        event: event.to_owned(),
        request_id: context.request.request_id.clone(),
        user_id: context.caller.user_id.clone(),
        project_id: context.caller.project_id.clone(),
        started: context.now,
        finished: None,
        failed: false,
    });
}

/// Starts a task, in place of any other.
pub(super) fn begin(server: &mut Server, context: &Context<'_>, task: ServerTask, time: std::time::Duration) {
    record(server, context, task);
    let until = context.after(time);
    server.pending = Some(Pending { task, began: context.now, until, failure: None });
    server.updated = context.now;
}

/// Returns an error for a user other than an admin if the server is locked.
pub(super) fn check_unlocked(state: &CloudState, context: &Context<'_>, id: &str) -> Result<(), Reply> {
    if find(state, context, id)?.locked && !context.caller.admin {
        return Err(conflict(&format!("Instance {id} is locked")));
    }
    Ok(())
}

/// `DELETE /servers/{id}`. A second call during the deletion succeeds and changes nothing.
pub(super) fn delete(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    check_unlocked(state, context, id)?;
    if !state.keeps_deleted_servers {
        return purge(state, context, id);
    }
    find_mut(state, context, id)?.vm_state = VmState::SoftDeleted;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Deletes a server with all that it uses.
pub(super) fn purge(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let time = context.options.delete_time;
    let server = find_mut(state, context, id)?;
    if server.task() != Some(ServerTask::Delete) {
        begin(server, context, ServerTask::Delete, time);
        state.expect(context.after(time));
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}
