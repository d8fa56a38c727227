//! Handlers for tags of Neutron resources.

use http::{Method, StatusCode};
use serde_json::json;

use super::resource::find_own;
use super::{ResourceKind, bad_request, no_such_page, refusal};
use crate::context::Context;
use crate::http::{HandlerResult, Reply};
use crate::object::{set, texts, touch};
use crate::state::CloudState;

/// Handles everything under `/{kind}/{id}/tags`.
pub(super) fn handle(
    state: &mut CloudState,
    context: &Context<'_>,
    kind: ResourceKind,
    id: &str,
    path: &[&str],
) -> HandlerResult {
    if kind == ResourceKind::SecurityGroupRule {
        return Err(no_such_page());
    }
    let mut tags = texts(find_own(state, context, kind, id, "update")?, "tags");
    let before = tags.clone();
    let reply = edit(&mut tags, context, path)?;
    tags.sort();
    tags.dedup();
    if let Some(object) = state.find_mut(kind, id).filter(|_| tags != before) {
        set(object, "tags", json!(tags));
        touch(object, context.now);
    }
    Ok(reply)
}

/// Reads or changes the tags.
fn edit(tags: &mut Vec<String>, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    let missing =
        |tag: &str| refusal(StatusCode::NOT_FOUND, "TagNotFound", &format!("Tag {tag} could not be found."));
    match (&context.request.method, path) {
        (&Method::GET, []) => Ok(Reply::ok(&json!({"tags": tags}))),
        (&Method::PUT, []) => {
            *tags = requested(context)?;
            Ok(Reply::ok(&json!({"tags": tags})))
        }
        (&Method::DELETE, []) => {
            tags.clear();
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        (&Method::GET, [tag]) if tags.iter().any(|held| held == tag) => {
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        (&Method::PUT, [tag]) => {
            tags.push((*tag).to_owned());
            Ok(Reply::json(StatusCode::CREATED, &json!(null)))
        }
        (&Method::DELETE, [tag]) if tags.iter().any(|held| held == tag) => {
            tags.retain(|held| held != tag);
            Ok(Reply::empty(StatusCode::NO_CONTENT))
        }
        (&Method::GET | &Method::DELETE, [tag]) => Err(missing(tag)),
        _ => Err(no_such_page()),
    }
}

fn requested(context: &Context<'_>) -> Result<Vec<String>, Reply> {
    let body = context.whole_body();
    if !body.contains_key("tags") {
        return Err(bad_request("HTTPBadRequest", "Invalid tags body."));
    }
    let tags = texts(&body, "tags");
    match tags.iter().find(|tag| tag.chars().count() > 255) {
        Some(tag) => {
            let words = format!("Invalid input for operation: '{tag}' exceeds maximum length of 255.");
            Err(bad_request("InvalidInput", &words))
        }
        None => Ok(tags),
    }
}
