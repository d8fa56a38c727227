//! Handlers for tags and metadata of a Nova server.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::model::ServerTask;
use super::servers::{find, find_mut};
use super::{bad_request, conflict, no_such_page, not_found, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{Object, texts};
use crate::state::CloudState;

/// Nova's own limit of tags per server.
const TAGS: usize = 50;

/// Returns an error for tags that Nova's schema refuses.
pub(super) fn check_tags(tags: &[String]) -> Result<(), Reply> {
    for (position, tag) in tags.iter().enumerate() {
        if tag.contains([',', '/']) {
            return Err(bad_request(&format!(
                "Invalid input for field/attribute {position}. Value: {tag}. '{tag}' does not match '^[^,/]*$'"
            )));
        }
        if tag.chars().count() > 60 {
            return Err(bad_request(&format!(
                "Invalid input for field/attribute {position}. Value: {tag}. '{tag}' is too long"
            )));
        }
    }
    if tags.len() > TAGS {
        return Err(bad_request(
            "Invalid input for field/attribute tags. The number of tags exceeded the limit 50",
        ));
    }
    Ok(())
}

/// Handles everything under `/servers/{id}/tags`.
pub(super) fn tags(state: &mut CloudState, context: &Context<'_>, id: &str, path: &[&str]) -> HandlerResult {
    if context.microversion < 26 {
        return Err(no_such_page());
    }
    let server = find_mut(state, context, id)?;
    match (&context.request.method, path) {
        (&Method::GET, []) => Ok(Reply::ok(&json!({"tags": server.tags}))),
        (&Method::PUT, []) => {
            let tags = texts(&context.whole_body(), "tags");
            check_tags(&tags)?;
            server.tags = tags;
            server.tags.sort();
            server.tags.dedup();
            Ok(Reply::ok(&json!({"tags": server.tags})))
        }
        (&Method::DELETE, []) => {
            server.tags.clear();
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        (&Method::GET, [tag]) if server.tags.iter().any(|held| held == tag) => {
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        (&Method::GET, [tag]) => Err(not_found(&format!("Server {id} has no tag '{tag}'"))),
        (&Method::PUT, [tag]) => {
            if server.tags.iter().any(|held| held == tag) {
                return Ok(Reply::empty(StatusCode::NO_CONTENT));
            }
            server.tags.push((*tag).to_owned());
            check_tags(&server.tags)?;
            Ok(Reply::empty(StatusCode::CREATED))
        }
        (&Method::DELETE, [tag]) if server.tags.iter().any(|held| held == tag) => {
            server.tags.retain(|held| held != tag);
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        (&Method::DELETE, [tag]) => Err(not_found(&format!("Instance {id} has no tag '{tag}'"))),
        _ => Err(no_such_page()),
    }
}

fn pairs(body: &Object, key: &str) -> Result<Vec<(String, String)>, Reply> {
    let invalid =
        || bad_request(&format!("Invalid input for field/attribute {key}. '{key}' is a required property"));
    let requested = body.get(key).and_then(Value::as_object).ok_or_else(invalid)?;
    let pair = |(key, value): (&String, &Value)| match value.as_str() {
        Some(value) => Ok((key.clone(), value.to_owned())),
        None => {
            let message = format!(
                "Invalid input for field/attribute {key}. Value: {value}. {value} is not of type 'string'"
            );
            Err(bad_request(&message))
        }
    };
    requested.iter().map(pair).collect()
}

/// Handles everything under `/servers/{id}/metadata`.
pub(super) fn metadata(
    state: &mut CloudState,
    context: &Context<'_>,
    id: &str,
    path: &[&str],
) -> HandlerResult {
    let server = find(state, context, id)?;
    let limit = state.quota(&server.project_id, "metadata_items");
    let mut metadata = server.metadata.clone();
    let reply = edit(&mut metadata, context, path)?;
    if usize::try_from(limit).is_ok_and(|limit| metadata.len() > limit) {
        let message = format!("Maximum number of metadata items exceeds {limit}");
        return Err(refusal(StatusCode::FORBIDDEN, &message));
    }
    let server = find_mut(state, context, id)?;
    if server.metadata != metadata {
        if server.task() == Some(ServerTask::Delete) {
            let message =
                format!("Cannot 'update metadata' instance {id} while it is in task_state deleting");
            return Err(conflict(&message));
        }
        server.metadata = metadata;
        server.updated = context.now;
    }
    Ok(reply)
}

/// Reads or changes the metadata.
fn edit(metadata: &mut BTreeMap<String, String>, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    let body = context.whole_body();
    let missing = || not_found("Metadata item was not found");
    match (&context.request.method, path) {
        (&Method::GET, []) => {}
        (&Method::GET, [key]) => {
            let value = metadata.get(*key).ok_or_else(missing)?;
            return Ok(Reply::ok(&json!({"meta": {*key: value}})));
        }
        (&Method::POST, []) => metadata.extend(pairs(&body, "metadata")?),
        (&Method::PUT, []) => *metadata = pairs(&body, "metadata")?.into_iter().collect(),
        (&Method::PUT, [key]) => {
            let pairs = pairs(&body, "meta")?;
            if pairs.len() != 1 || pairs.iter().any(|(name, _)| name != key) {
                return Err(bad_request("Request body and URI mismatch"));
            }
            metadata.extend(pairs);
            return Ok(Reply::ok(&json!({"meta": {*key: metadata.get(*key)}})));
        }
        (&Method::DELETE, [key]) => {
            metadata.remove(*key).ok_or_else(missing)?;
            return Ok(Reply::empty(StatusCode::NO_CONTENT));
        }
        _ => return Err(no_such_page()),
    }
    Ok(Reply::ok(&json!({"metadata": metadata})))
}
