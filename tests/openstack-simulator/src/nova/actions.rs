//! Handler of `POST /servers/{id}/action`: the body's only key names the action.

use http::StatusCode;
use serde_json::{Value, json};

use super::model::{Server, ServerTask, VmState};
use super::servers::{begin, find, find_mut, record_action};
use super::{bad_request, conflict, refusal, view};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, object, set, text};
use crate::state::CloudState;

/// The last lines that the fake driver's guests print.
const CONSOLE: &str = "FAKE CONSOLE OUTPUT\nANOTHER\nLAST LINE";

/// Executes the action.
pub(super) fn handle(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    find(state, context, id)?;
    let body = context.whole_body();
    let Some((name, details)) = body.into_iter().next() else {
        return Err(bad_request("There is no such action: None"));
    };
    if !matches!(name.as_str(), "lock" | "unlock" | "os-getConsoleOutput") {
        super::servers::check_unlocked(state, context, id)?;
    }
    match name.as_str() {
        "lock" => lock(state, context, id, true),
        "unlock" => lock(state, context, id, false),
        "reboot" => reboot(state, context, id, &object(details)),
        "rebuild" => rebuild(state, context, id, &object(details)),
        "os-start" => power(state, context, id, ServerTask::PowerOn),
        "os-stop" => power(state, context, id, ServerTask::PowerOff),
        "os-resetState" => reset(state, context, id, &object(details)),
        "forceDelete" => super::servers::purge(state, context, id),
        "os-getConsoleOutput" => console(state, context, id, &object(details)),
        _ => Err(bad_request(&format!("There is no such action: {name}"))),
    }
}

/// Locks or unlocks a server. A second lock by its owner has no effect.
fn lock(state: &mut CloudState, context: &Context<'_>, id: &str, locked: bool) -> HandlerResult {
    let server = find_mut(state, context, id)?;
    if !(locked && server.locked) {
        server.locked = locked;
        let (name, event) = if locked { ("lock", "api_lock") } else { ("unlock", "api_unlock") };
        record_action(server, context, name, event);
        if let Some(action) = server.actions.last_mut() {
            action.finished = Some(context.now);
        }
    }
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// Returns an error if the server's state does not allow the action, with Nova's messages in Nova's order.
pub(super) fn check(
    server: &Server,
    context: &Context<'_>,
    action: &str,
    states: &[VmState],
    tasks: &[ServerTask],
) -> Result<(), Reply> {
    let blocked = |what: &str, value: &str| {
        conflict(&format!("Cannot '{action}' instance {} while it is in {what} {value}", server.id))
    };
    if !states.contains(&server.vm_state) {
        return Err(blocked("vm_state", server.vm_state.as_str()));
    }
    if server.task().is_some_and(|task| !tasks.contains(&task)) {
        return Err(blocked("task_state", server.task_state(context.now).unwrap_or_default()));
    }
    Ok(())
}

/// Returns an error for an action on a server that never ran.
fn check_launched(server: &Server, action: &str) -> Result<(), Reply> {
    match server.launched {
        Some(_) => Ok(()),
        None => Err(conflict(&format!("Instance {} is in an invalid state for '{action}'", server.id))),
    }
}

fn reboot(state: &mut CloudState, context: &Context<'_>, id: &str, details: &Object) -> HandlerResult {
    let kind = text(details, "type");
    let task = match kind {
        "SOFT" | "Soft" | "soft" => ServerTask::Reboot,
        "HARD" | "Hard" | "hard" => ServerTask::HardReboot,
        _ => {
            return Err(bad_request(&format!(
                "Invalid input for field/attribute type. Value: {kind}. '{kind}' is not one of \
                 ['HARD', 'Hard', 'hard', 'SOFT', 'Soft', 'soft']"
            )));
        }
    };
    let server = find_mut(state, context, id)?;
    if task == ServerTask::Reboot {
        check(server, context, "reboot", &[VmState::Active], &[])?;
    } else {
        let states = [VmState::Active, VmState::Stopped, VmState::Error];
        check(server, context, "reboot", &states, &[ServerTask::Reboot, ServerTask::HardReboot])?;
    }
    check_launched(server, "reboot")?;
    let soft = context.options.soft_reboot_time.filter(|_| task == ServerTask::Reboot);
    let taken = soft.unwrap_or(context.options.reboot_time);
    begin(server, context, task, taken);
    state.expect(context.after(taken));
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

fn power(state: &mut CloudState, context: &Context<'_>, id: &str, task: ServerTask) -> HandlerResult {
    let server = find_mut(state, context, id)?;
    if server.host.is_none() {
        return Err(conflict(&format!("Instance {id} is not ready")));
    }
    let states: &[VmState] = match task {
        ServerTask::PowerOff => &[VmState::Active, VmState::Error],
        _ => &[VmState::Stopped],
    };
    check(server, context, task.action(), states, &[])?;
    check_launched(server, task.action())?;
    begin(server, context, task, context.options.power_time);
    state.expect(context.after(context.options.power_time));
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

fn rebuild(state: &mut CloudState, context: &Context<'_>, id: &str, details: &Object) -> HandlerResult {
    let image = text(details, "imageRef").to_owned();
    if uuid::Uuid::parse_str(&image).is_err() {
        let message =
            format!("Invalid input for field/attribute imageRef. Value: {image}. '{image}' is not a 'uuid'");
        return Err(bad_request(&message));
    }
    let project = &context.caller.project_id;
    crate::glance::find(state, project, &image)
        .ok_or_else(|| bad_request("Cannot find image for rebuild"))?;
    let server = find_mut(state, context, id)?;
    let states = [VmState::Active, VmState::Stopped, VmState::Error];
    check(server, context, "rebuild", &states, &[])?;
    check_launched(server, "rebuild")?;
    if server.image.is_none() && context.microversion < 93 {
        // Only 2.93 and later can write a new image onto the volume from which a server was booted.
        return Err(bad_request("Unable to rebuild with a different image for a volume-backed server."));
    }
    change(server, details, &image, context.microversion);
    begin(server, context, ServerTask::Rebuild, context.options.rebuild_time);
    state.expect(context.after(context.options.rebuild_time));
    let server = find(state, context, id)?;
    let mut view = view::full(state, server, context);
    set(&mut view, "adminPass", super::create::password());
    if context.microversion >= 57 {
        set(&mut view, "user_data", json!(server.user_data));
    }
    Ok(Reply::json(StatusCode::ACCEPTED, &json!({"server": view})))
}

/// Applies the part of a rebuild that is immediate: everything but the disk.
fn change(server: &mut Server, details: &Object, image: &str, microversion: u32) {
    if server.image.is_some() {
        server.image = Some(image.to_owned());
    }
    if let Some(name) = details.get("name").and_then(Value::as_str) {
        name.clone_into(&mut server.name);
    }
    if let Some(metadata) = details.get("metadata").and_then(Value::as_object) {
        let pairs =
            metadata.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        server.metadata = pairs.collect();
    }
    if let Some(description) = details.get("description").filter(|_| microversion >= 19) {
        server.description = description.as_str().map(str::to_owned);
    }
    if let Some(data) = details.get("user_data").filter(|_| microversion >= 57) {
        server.user_data = data.as_str().map(str::to_owned);
    }
}

/// Sets the state that an admin requests, even during a task.
fn reset(state: &mut CloudState, context: &Context<'_>, id: &str, details: &Object) -> HandlerResult {
    if !context.caller.admin {
        let message = "Policy doesn't allow os_compute_api:os-admin-actions:reset_state to be performed.";
        return Err(refusal(StatusCode::FORBIDDEN, message));
    }
    let requested = match text(details, "state") {
        "active" => VmState::Active,
        "error" => VmState::Error,
        other => {
            return Err(bad_request(&format!(
                "Invalid input for field/attribute state. Value: {other}. '{other}' is not one of \
                 ['active', 'error']"
            )));
        }
    };
    let server = find_mut(state, context, id)?;
    server.vm_state = requested;
    server.pending = None;
    server.fault = None;
    server.updated = context.now;
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

fn console(state: &CloudState, context: &Context<'_>, id: &str, details: &Object) -> HandlerResult {
    let server = find(state, context, id)?;
    if server.host.is_none() || server.launched.is_none() {
        return Err(conflict(&format!("Instance {id} is not ready")));
    }
    let log = if server.console.is_empty() { CONSOLE } else { server.console.as_str() };
    let lines: Vec<&str> = log.lines().collect();
    let requested = details.get("length").and_then(|length| match length {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|length| usize::try_from(length).ok()),
    });
    let skipped = requested.map_or(0, |requested: usize| lines.len().saturating_sub(requested));
    let output = lines.get(skipped..).unwrap_or_default().join("\n");
    Ok(Reply::ok(&json!({"output": output})))
}
