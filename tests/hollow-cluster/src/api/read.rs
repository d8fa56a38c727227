//! Reads: one object, a list, or a watch.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::failure::Failure;
use super::request::{Request, Target};
use super::selector::Selector;
use super::serve::{ApiServer, Body, json_response};
use super::{table, watch};

/// Handles a GET.
pub(crate) fn handle(
    server: &ApiServer,
    request: &Request,
    target: &Target,
) -> Result<Response<Body>, Failure> {
    let store = &server.cluster.store;
    if let Some(name) = &target.name {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let object = store
            .get(target.kind.plural, namespace, name)
            .ok_or_else(|| Failure::not_found(target.kind, name))?;
        if table::is_wanted(request) {
            return Ok(json_response(StatusCode::OK, &table::of(target.kind, &[object], None)));
        }
        return Ok(json_response(StatusCode::OK, &object));
    }
    let selector = Selector::parse(request.parameter("labelSelector"), request.parameter("fieldSelector"))?;
    if ["true", "1"].contains(&request.parameter("watch")) {
        return watch::handle(server, request, target, selector);
    }
    let (objects, revision) = store.list(target.kind.plural, target.namespace.as_deref());
    let mut objects: Vec<_> = objects.into_iter().filter(|object| selector.accepts(object)).collect();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    page(request, &mut objects, &mut metadata);
    if table::is_wanted(request) {
        return Ok(json_response(StatusCode::OK, &table::of(target.kind, &objects, Some(metadata))));
    }
    let items: Vec<&Value> = objects.iter().map(AsRef::as_ref).collect();
    let body = json!({
        "apiVersion": target.kind.api_version(), "kind": format!("{}List", target.kind.kind),
        "metadata": metadata, "items": items,
    });
    Ok(json_response(StatusCode::OK, &body))
}

/// Cuts the list to the requested page. The token of the next page is the number of objects before it.
fn page<T>(request: &Request, objects: &mut Vec<T>, metadata: &mut Value) {
    let start: usize = request.parameter("continue").parse().unwrap_or_default();
    objects.drain(..start.min(objects.len()));
    let limit: usize = request.parameter("limit").parse().unwrap_or_default();
    if limit > 0 && objects.len() > limit {
        crate::json::set(metadata, &["continue"], (start + limit).to_string());
        crate::json::set(metadata, &["remainingItemCount"], objects.len() - limit);
        objects.truncate(limit);
    }
}
