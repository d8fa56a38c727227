//! Glance v2: images.

mod uploads;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::context::Context;
use crate::http::{HandlerResult, Query, Reply, Request};
use crate::object::{Object, list, text};
use crate::state::CloudState;

/// Query parameters that are not attribute filters.
const LIST_OPTIONS: [&str; 9] =
    ["limit", "marker", "sort", "sort_key", "sort_dir", "tag", "member_status", "size_min", "size_max"];

/// Page size of a call without a limit.
const PAGE: usize = 25;

/// Returns the image, if the project may use it.
pub(crate) fn find<'a>(state: &'a CloudState, project: &str, id: &str) -> Option<&'a Object> {
    state.images.iter().find(|image| text(image, "id") == id && is_visible(image, project))
}

fn is_visible(image: &Object, project: &str) -> bool {
    matches!(text(image, "visibility"), "public" | "community") || text(image, "owner") == project
}

/// The version documents, which need no token.
pub(crate) fn public(request: &Request) -> Option<Reply> {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let status = match segments.as_slice() {
        ["image"] => StatusCode::MULTIPLE_CHOICES,
        ["image", "versions"] => StatusCode::OK,
        _ => return None,
    };
    let link = json!([{"rel": "self", "href": format!("{}/image/v2/", request.base_url)}]);
    let version = |minor: u8| {
        let status = if minor == 15 { "CURRENT" } else { "SUPPORTED" };
        json!({"id": format!("v2.{minor}"), "status": status, "links": link})
    };
    Some(Reply::json(status, &json!({"versions": [version(15), version(13), version(2), version(0)]})))
}

/// Handles a call to Glance.
pub(crate) fn handle(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    uploads::advance(state, context.now);
    let segments = context.request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let project = &context.caller.project_id;
    match (&context.request.method, segments.as_slice()) {
        (&Method::GET, ["image", "v2", "images"]) => images(state, project, &context.request.query),
        (&Method::GET, ["image", "v2", "images", id]) => match find(state, project, id) {
            Some(image) => Ok(Reply::ok(&Value::Object(image.clone()))),
            None => Err(Reply::html(StatusCode::NOT_FOUND, &format!("No image found with ID {id}"))),
        },
        (&Method::GET, ["image", "v2", "info", "import"]) => Ok(uploads::methods()),
        (&Method::POST, ["image", "v2", "images"]) => uploads::create(state, context),
        (&Method::POST, ["image", "v2", "images", id, "import"]) => uploads::import(state, context, id),
        (&Method::DELETE, ["image", "v2", "images", id]) => uploads::delete(state, context, id),
        _ => Err(Reply::html(StatusCode::NOT_FOUND, "The resource could not be found.")),
    }
}

/// Returns the values of a filter: `in:a,b` allows several, and quotes protect commas.
fn alternatives(filter: &str) -> Vec<&str> {
    match filter.strip_prefix("in:") {
        Some(list) => list.split(',').map(|value| value.trim_matches('"')).collect(),
        None => vec![filter],
    }
}

fn matches(image: &Object, query: &Query) -> bool {
    let tags = list(image, "tags");
    let tagged = query.all("tag").all(|tag| tags.iter().any(|held| held.as_str() == Some(tag)));
    let plain = query.keys().into_iter().filter(|key| !LIST_OPTIONS.contains(key)).all(|key| {
        let held = match image.get(key) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => return false,
        };
        query.all(key).all(|filter| alternatives(filter).contains(&held.as_str()))
    });
    tagged && plain
}

fn sort(images: &mut [&Object], query: &Query) {
    let sort = query.get("sort").unwrap_or_default();
    let (mut key, mut direction) =
        sort.split(',').next().unwrap_or_default().split_once(':').unwrap_or((sort, ""));
    if key.is_empty() {
        key = query.get("sort_key").unwrap_or("created_at");
        direction = query.get("sort_dir").unwrap_or_default();
    }
    images.sort_by(|one, other| {
        let order = text(one, key).cmp(text(other, key)).then_with(|| text(one, "id").cmp(text(other, "id")));
        if direction == "asc" { order } else { order.reverse() }
    });
}

fn images(state: &CloudState, project: &str, query: &Query) -> HandlerResult {
    let bad_request = |words: &str| Reply::html(StatusCode::BAD_REQUEST, words);
    let mut found: Vec<&Object> =
        state.images.iter().filter(|image| is_visible(image, project) && matches(image, query)).collect();
    sort(&mut found, query);
    if let Some(marker) = query.get("marker") {
        let position = found.iter().position(|image| text(image, "id") == marker);
        let position = position.ok_or_else(|| bad_request(&format!("No image found with ID {marker}")))?;
        found.drain(..=position);
    }
    let limit = match query.get("limit") {
        Some(limit) => limit.parse().map_err(|_| bad_request("limit param must be an integer"))?,
        None => PAGE,
    };
    let more = found.len() > limit;
    found.truncate(limit);
    let mut body = json!({"images": found, "schema": "/v2/schemas/images", "first": "/v2/images"});
    if let (Some(body), Some(last)) = (body.as_object_mut(), found.last().filter(|_| more)) {
        let next = format!("/v2/images?{}", query.with_marker(text(last, "id")));
        body.insert("next".to_owned(), json!(next));
    }
    Ok(Reply::ok(&body))
}
