//! Images that users create. Glance fetches their content from a URL; one that contains `missing` has none.

use jiff::Timestamp;

use super::*;
use crate::context::later;
use crate::object::{new_id, object, set};

/// Attribute of an image whose content is being fetched: the stores that do not have it yet.
const IMPORTING: &str = "os_glance_importing_to_stores";

/// Attribute of an image whose content could not be fetched: the stores that were to have it.
const FAILED: &str = "os_glance_failed_import";

/// Name of the only store.
const STORE: &str = "default";

fn refusal(status: StatusCode, words: &str) -> Reply {
    Reply::html(status, words)
}

/// `GET /v2/info/import`.
pub(super) fn methods() -> Reply {
    let methods = json!({
        "description": "Import methods available.", "type": "array", "value": ["glance-direct", "web-download"],
    });
    Reply::ok(&json!({"import-methods": methods}))
}

/// `POST /v2/images`.
pub(super) fn create(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let body = context.request.json().and_then(|body| body.as_object().cloned()).unwrap_or_default();
    let formats = ["container_format", "disk_format"];
    if formats.iter().any(|name| body.get(*name).is_some_and(|format| !format.is_string())) {
        return Err(refusal(StatusCode::BAD_REQUEST, "Provided object does not match schema 'image'"));
    }
    let id = new_id();
    let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut image = object(json!({
        "id": id, "name": null, "tags": [], "disk_format": null, "container_format": null, "visibility": "shared",
        "size": null, "virtual_size": null, "status": "queued", "checksum": null, "protected": false, "min_ram": 0,
        "min_disk": 0, "owner": context.caller.project_id, "os_hidden": false, "os_hash_algo": null,
        "os_hash_value": null, "created_at": now, "updated_at": now, "self": format!("/v2/images/{id}"),
        "file": format!("/v2/images/{id}/file"), "schema": "/v2/schemas/image",
    }));
    image.extend(body);
    let view = Value::Object(image.clone());
    state.images.push(image);
    Ok(Reply::json(StatusCode::CREATED, &view))
}

fn own<'a>(state: &'a mut CloudState, context: &Context<'_>, id: &str) -> Result<&'a mut Object, Reply> {
    let project = &context.caller.project_id;
    let found =
        state.images.iter_mut().find(|image| text(image, "id") == id && text(image, "owner") == project);
    found.ok_or_else(|| refusal(StatusCode::NOT_FOUND, &format!("Failed to find image {id}")))
}

/// `POST /v2/images/{id}/import`.
pub(super) fn import(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let body = context.request.json().unwrap_or_default();
    let method =
        |name: &str| body.pointer(&format!("/method/{name}")).and_then(Value::as_str).unwrap_or_default();
    if method("name") != "web-download" {
        return Err(refusal(StatusCode::BAD_REQUEST, "Unknown import method name"));
    }
    let image = own(state, context, id)?;
    if text(image, "status") != "queued" {
        let words =
            format!("Image status transition from {} to importing is not allowed", text(image, "status"));
        return Err(refusal(StatusCode::CONFLICT, &words));
    }
    image.remove(FAILED);
    if method("uri").contains("missing") {
        set(image, FAILED, STORE);
        return Ok(Reply::empty(StatusCode::ACCEPTED));
    }
    set(image, "status", "importing");
    set(image, IMPORTING, STORE);
    let until = later(context.now, context.options.volume_time);
    state.imports.insert(id.to_owned(), until);
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// `DELETE /v2/images/{id}`.
pub(super) fn delete(state: &mut CloudState, context: &Context<'_>, id: &str) -> HandlerResult {
    let image = own(state, context, id)?;
    if image.get("protected") == Some(&json!(true)) {
        let words = format!("Image {id} is protected and cannot be deleted.");
        return Err(refusal(StatusCode::FORBIDDEN, &words));
    }
    state.images.retain(|image| text(image, "id") != id);
    state.imports.remove(id);
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

/// Completes the imports that are due.
pub(super) fn advance(state: &mut CloudState, now: Timestamp) {
    let due: Vec<String> =
        state.imports.iter().filter(|(_, until)| **until <= now).map(|(id, _)| id.clone()).collect();
    for id in due {
        state.imports.remove(&id);
        if let Some(image) = state.images.iter_mut().find(|image| text(image, "id") == id) {
            set(image, "status", "active");
            set(image, "size", 1024);
            image.remove(IMPORTING);
        }
    }
}
