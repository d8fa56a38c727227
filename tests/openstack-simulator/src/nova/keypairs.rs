//! Handlers for Nova key pairs.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::model::KeyPair;
use super::{bad_request, conflict, no_such_page, not_found, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{microseconds, text};
use crate::state::CloudState;

/// Handles everything under `/os-keypairs`.
pub(super) fn handle(state: &mut CloudState, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    match (&context.request.method, path) {
        (&Method::GET, []) => Ok(list(state, context)),
        (&Method::POST, []) => create(state, context),
        (&Method::GET, [name]) => get(state, context, name),
        (&Method::DELETE, [name]) => delete(state, context, name),
        _ => Err(no_such_page()),
    }
}

fn view(pair: &KeyPair, context: &Context<'_>) -> Value {
    let mut view = json!({"name": pair.name, "public_key": pair.public_key, "fingerprint": pair.fingerprint});
    if let Some(fields) = view.as_object_mut().filter(|_| context.microversion >= 2) {
        fields.insert("type".to_owned(), json!(pair.kind));
    }
    view
}

fn find<'a>(state: &'a CloudState, context: &Context<'_>, name: &str) -> Result<&'a KeyPair, Reply> {
    let user = &context.caller.user_id;
    let pair = state.key_pairs.iter().find(|pair| pair.name == name && pair.user_id == *user);
    pair.ok_or_else(|| not_found(&format!("Keypair {name} not found for user {user}")))
}

fn list(state: &CloudState, context: &Context<'_>) -> Reply {
    let pairs = state.key_pairs.iter().filter(|pair| pair.user_id == context.caller.user_id);
    let views: Vec<Value> = pairs.map(|pair| json!({"keypair": view(pair, context)})).collect();
    Reply::ok(&json!({"keypairs": views}))
}

fn get(state: &CloudState, context: &Context<'_>, name: &str) -> HandlerResult {
    let pair = find(state, context, name)?;
    let mut view = view(pair, context);
    if let Some(fields) = view.as_object_mut() {
        let more = [
            ("id", json!(pair.id)),
            ("user_id", json!(pair.user_id)),
            ("created_at", json!(microseconds(pair.created))),
            ("updated_at", Value::Null),
            ("deleted", json!(false)),
            ("deleted_at", Value::Null),
        ];
        fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
    }
    Ok(Reply::ok(&json!({"keypair": view})))
}

/// Returns a fingerprint: not MD5, but as stable and in the same format.
fn fingerprint(key: &str) -> String {
    let mut bytes = [0_u8; 16];
    for (position, byte) in key.bytes().enumerate() {
        if let Some(slot) = bytes.get_mut(position % 16) {
            *slot = slot.rotate_left(3) ^ byte;
        }
    }
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let body = context.body("keypair").ok_or_else(|| bad_request("Malformed request body"))?;
    let name = text(&body, "name").to_owned();
    if name.is_empty() {
        let message = "Invalid input for field/attribute name. Value: . '' is too short";
        return Err(bad_request(message));
    }
    if find(state, context, &name).is_ok() {
        return Err(conflict(&format!("Key pair '{name}' already exists.")));
    }
    let held = state.key_pairs.iter().filter(|pair| pair.user_id == context.caller.user_id).count();
    let limit = state.quota(&context.caller.project_id, "key_pairs");
    if usize::try_from(limit).is_ok_and(|limit| held >= limit) {
        return Err(refusal(StatusCode::FORBIDDEN, "Quota exceeded, too many key pairs."));
    }
    let public_key = text(&body, "public_key").to_owned();
    if !public_key.is_empty() && !public_key.contains(' ') {
        return Err(bad_request("Keypair data is invalid: failed to generate fingerprint"));
    }
    let pair = KeyPair {
        id: u64::try_from(state.key_pairs.len()).unwrap_or_default() + 1,
        user_id: context.caller.user_id.clone(),
        fingerprint: fingerprint(&public_key),
        kind: body.get("type").and_then(Value::as_str).unwrap_or("ssh").to_owned(),
        name,
        public_key,
        created: context.now,
    };
    let mut view = view(&pair, context);
    if let Some(fields) = view.as_object_mut() {
        fields.insert("user_id".to_owned(), json!(pair.user_id));
    }
    state.key_pairs.push(pair);
    // Since 2.2 a create returns 201.
    let status = if context.microversion >= 2 { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &json!({"keypair": view})))
}

fn delete(state: &mut CloudState, context: &Context<'_>, name: &str) -> HandlerResult {
    find(state, context, name)?;
    let user = &context.caller.user_id;
    state.key_pairs.retain(|pair| pair.name != name || pair.user_id != *user);
    let status = if context.microversion >= 2 { StatusCode::NO_CONTENT } else { StatusCode::ACCEPTED };
    Ok(Reply::empty(status))
}
