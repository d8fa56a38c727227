//! Messages that say why an asynchronous task of Cinder failed.

use super::*;

/// First minor version with messages.
const SINCE: u32 = 3;

/// Time for which Cinder keeps a message.
const KEPT: std::time::Duration = std::time::Duration::from_hours(30 * 24);

/// Message about a volume.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Message {
    id: String,
    project_id: String,
    volume_id: String,
    request_id: String,
    at: Timestamp,
}

/// Adds the message about a volume for which no backend has room.
pub(super) fn add(state: &mut CloudState, context: &Context<'_>, volume_id: &str, at: Timestamp) {
    state.volume_messages.push(Message {
        id: new_id(),
        project_id: context.caller.project_id.clone(),
        volume_id: volume_id.to_owned(),
        request_id: context.request.request_id.clone(),
        at,
    });
}

fn view(message: &Message, context: &Context<'_>) -> Value {
    let (base, project, id) = (&context.request.base_url, &message.project_id, &message.id);
    json!({
        "id": id, "event_id": "VOLUME_VOLUME_001_003", "message_level": "ERROR",
        "user_message": "schedule allocate volume:Could not find any available weighted backend.",
        "created_at": microseconds(message.at), "guaranteed_until": microseconds(later(message.at, KEPT)),
        "request_id": message.request_id, "resource_type": "VOLUME", "resource_uuid": message.volume_id,
        "links": [
            {"rel": "self", "href": format!("{base}/volume/v3/{project}/messages/{id}")},
            {"rel": "bookmark", "href": format!("{base}/volume/{project}/messages/{id}")},
        ],
    })
}

/// Handles everything under `/messages`.
pub(super) fn handle(state: &mut CloudState, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    let minor = minor(context.request);
    if minor < SINCE {
        return Err(not_found(&format!("API version 3.{minor} is not supported on this method.")));
    }
    let is_visible =
        |message: &&Message| message.project_id == context.caller.project_id && message.at <= context.now;
    let visible = state.volume_messages.iter().filter(is_visible);
    match (&context.request.method, path) {
        (&Method::GET, []) => {
            let volume = context.request.query.get("resource_uuid");
            let found = visible.filter(|message| volume.is_none_or(|volume| message.volume_id == volume));
            // The newest is first.
            let views: Vec<Value> = found.rev().map(|message| view(message, context)).collect();
            Ok(Reply::ok(&json!({"messages": views})))
        }
        (&Method::GET | &Method::DELETE, [id]) => {
            let found = visible.into_iter().find(|message| message.id == **id);
            let missing = || not_found(&format!("Message {id} could not be found."));
            let found = view(found.ok_or_else(missing)?, context);
            if context.request.method == Method::GET {
                return Ok(Reply::ok(&json!({"message": found})));
            }
            state.volume_messages.retain(|message| message.id != **id);
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        _ => Err(no_such_page()),
    }
}
