//! Instance actions of a server, newest first.

use serde_json::{Value, json};

use super::model::{InstanceAction, Server};
use super::{bad_request, not_found, servers, view};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, microseconds, set};
use crate::state::CloudState;

/// Returns the server, even if it is deleted: since 2.21 the history outlives the server.
fn find<'a>(state: &'a CloudState, context: &Context<'_>, id: &str) -> Result<&'a Server, Reply> {
    let remembered = state.servers.get(id).filter(|server| context.caller.owns(&server.project_id));
    match remembered.filter(|_| context.microversion >= 21) {
        Some(server) => Ok(server),
        None => servers::find(state, context, id),
    }
}

fn brief(server: &Server, action: &InstanceAction, context: &Context<'_>) -> Object {
    let mut view = Object::new();
    set(&mut view, "action", action.name.as_str());
    set(&mut view, "instance_uuid", server.id.as_str());
    set(&mut view, "request_id", action.request_id.as_str());
    set(&mut view, "user_id", action.user_id.as_str());
    set(&mut view, "project_id", action.project_id.as_str());
    set(&mut view, "start_time", microseconds(action.started));
    set(&mut view, "message", if action.failed { json!("Error") } else { Value::Null });
    if context.microversion >= 58 {
        set(&mut view, "updated_at", microseconds(action.finished.unwrap_or(action.started)));
    }
    view
}

/// `GET /servers/{id}/os-instance-actions`.
pub(super) fn list(state: &CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let server = find(state, context, id)?;
    let query = &context.request.query;
    let mut actions: Vec<&InstanceAction> = server.actions.iter().rev().collect();
    if context.microversion >= 58 {
        let since = query.get("changes-since").and_then(|time| time.parse::<jiff::Timestamp>().ok());
        actions.retain(|action| since.is_none_or(|since| action.finished.unwrap_or(action.started) >= since));
        if let Some(marker) = query.get("marker") {
            let position = actions.iter().position(|action| action.request_id == marker);
            let position = position.ok_or_else(|| bad_request(&format!("marker [{marker}] not found")))?;
            actions.drain(..=position);
        }
        let limit = query.get("limit").and_then(|limit| limit.parse().ok());
        actions.truncate(limit.unwrap_or(usize::MAX));
    }
    let views: Vec<Object> = actions.iter().map(|action| brief(server, action, context)).collect();
    Ok(Reply::ok(&json!({"instanceActions": views})))
}

/// `GET /servers/{id}/os-instance-actions/{request_id}`.
pub(super) fn get(state: &CloudState, context: &Context<'_>, id: &str, request_id: &str) -> HandlerResult {
    let server = find(state, context, id)?;
    let action = server.actions.iter().find(|action| action.request_id == request_id);
    let action = action.ok_or_else(|| not_found(&format!("Action {request_id} not found")))?;
    let mut body = brief(server, action, context);
    if context.microversion >= 51 || context.caller.admin {
        set(&mut body, "events", json!([event(server, action, context)]));
    }
    Ok(Reply::ok(&json!({"instanceAction": body})))
}

fn event(server: &Server, action: &InstanceAction, context: &Context<'_>) -> Object {
    let mut event = Object::new();
    let finish = action.finished.map(microseconds);
    let result = action.finished.map(|_| if action.failed { "Error" } else { "Success" });
    set(&mut event, "event", action.event.as_str());
    set(&mut event, "start_time", microseconds(action.started));
    set(&mut event, "finish_time", json!(finish));
    set(&mut event, "result", json!(result));
    if context.microversion >= 62 {
        set(&mut event, "hostId", view::host_id(server));
    }
    if context.microversion >= 84 {
        let message = server.fault.as_ref().filter(|_| action.failed).map(|fault| fault.message.as_str());
        set(&mut event, "details", json!(message));
    }
    event
}
