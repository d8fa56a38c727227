//! Writes: create, update, patch, delete.

use http::{Method, Response, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::failure::Failure;
use super::patch::{self, PatchType};
use super::request::{Request, Target};
use super::selector::Selector;
use super::serve::{Body, json_response};
use super::store::merge_part;
use crate::cluster::Cluster;
use crate::json::{list, set, text, time};

/// Parses the body, which may be JSON or YAML.
pub(crate) fn body(request: &Request) -> Result<Value, Failure> {
    if request.body.is_empty() {
        return Ok(Value::Null);
    }
    if request.header("content-type").contains("protobuf") {
        let message = "a hollow cluster reads JSON and YAML, not protobuf";
        return Err(Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message));
    }
    let as_text = std::str::from_utf8(&request.body);
    let as_text = as_text.map_err(|error| Failure::bad_request(error.to_string()))?;
    let parsed = serde_json::from_str(as_text).map_err(|error| error.to_string());
    parsed
        .or_else(|_| serde_saphyr::from_str(as_text).map_err(|error| error.to_string()))
        .map_err(|error| Failure::bad_request(format!("the body of the request cannot be parsed: {error}")))
}

/// Handles a request that changes objects.
pub(crate) fn handle(
    cluster: &Cluster,
    request: &Request,
    target: &Target,
) -> Result<Response<Body>, Failure> {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let dry = !request.parameter("dryRun").is_empty();
    if dry {
        return Err(Failure::bad_request("a hollow cluster has no dry runs"));
    }
    match (&request.method, &target.name) {
        (&Method::POST, None) => create(cluster, request, target, namespace),
        (&Method::PUT, Some(name)) => {
            let status = target.subresource.as_deref() == Some("status");
            let object = cluster.store.replace(target.kind, namespace, name, status, body(request)?)?;
            Ok(json_response(StatusCode::OK, &object))
        }
        (&Method::PATCH, Some(name)) => patch(cluster, request, target, namespace, name),
        (&Method::DELETE, Some(name)) => {
            let object = delete(cluster, target, namespace, name, &body(request)?)?;
            Ok(json_response(StatusCode::OK, &object))
        }
        (&Method::DELETE, None) => {
            let selector =
                Selector::parse(request.parameter("labelSelector"), request.parameter("fieldSelector"))?;
            let options = body(request)?;
            let (objects, _) = cluster.store.list(target.kind.plural, target.namespace.as_deref());
            for object in objects.iter().filter(|object| selector.accepts(object)) {
                let namespace = text(object, "/metadata/namespace");
                delete(cluster, target, namespace, text(object, "/metadata/name"), &options)?;
            }
            Ok(json_response(
                StatusCode::OK,
                &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
            ))
        }
        _ => Err(Failure::not_allowed()),
    }
}

fn create(
    cluster: &Cluster,
    request: &Request,
    target: &Target,
    namespace: &str,
) -> Result<Response<Body>, Failure> {
    if target.kind.namespaced && cluster.store.get("namespaces", "", namespace).is_none() {
        return Err(Failure::not_found(super::kinds::named("namespaces"), namespace));
    }
    let mut value = body(request)?;
    let own = text(&value, "/metadata/namespace");
    if target.kind.namespaced && !own.is_empty() && own != namespace {
        return Err(Failure::bad_request(format!(
            "the namespace of the provided object does not match the namespace sent on the request: {own:?}"
        )));
    }
    match target.kind.plural {
        "namespaces" => set(&mut value, &["status", "phase"], "Active"),
        "pods" => set(&mut value, &["status"], json!({"phase": "Pending"})),
        _ => {}
    }
    let object = cluster.store.create(target.kind, namespace, value)?;
    Ok(json_response(StatusCode::CREATED, &object))
}

fn patch(
    cluster: &Cluster,
    request: &Request,
    target: &Target,
    namespace: &str,
    name: &str,
) -> Result<Response<Body>, Failure> {
    let kind = PatchType::of(request.header("content-type")).ok_or_else(|| {
        let message = "the body of the request was in an unknown format";
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    })?;
    let status = target.subresource.as_deref() == Some("status");
    let change = body(request)?;
    let missing = cluster.store.get(target.kind.plural, namespace, name).is_none();
    if kind == PatchType::Apply && missing && !status {
        let mut value = change;
        set(&mut value, &["metadata", "name"], name);
        let object = cluster.store.create(target.kind, namespace, value)?;
        return Ok(json_response(StatusCode::CREATED, &object));
    }
    let object = cluster.store.update(target.kind, namespace, name, |value| {
        let mut new = value.clone();
        patch::apply(kind, &mut new, &change)?;
        merge_part(target.kind, name, status, value, new)
    })?;
    Ok(json_response(StatusCode::OK, &object))
}

/// Deletes an object. Pods of a live node get their grace, and objects with finalizers wait for them.
pub(crate) fn delete(
    cluster: &Cluster,
    target: &Target,
    namespace: &str,
    name: &str,
    options: &Value,
) -> Result<Value, Failure> {
    let store = &cluster.store;
    let kind = target.kind;
    let object = store.get(kind.plural, namespace, name).ok_or_else(|| Failure::not_found(kind, name))?;
    let wanted = text(options, "/preconditions/uid");
    if !wanted.is_empty() && wanted != text(&object, "/metadata/uid") {
        return Err(Failure::conflict(
            kind,
            name,
            "the UID in the precondition does not match the UID in record",
        ));
    }
    let immediately = options.get("gracePeriodSeconds").and_then(Value::as_i64) == Some(0);
    let node = text(&object, "/spec/nodeName");
    let graceful = kind.plural == "pods" && !node.is_empty() && !immediately;
    if graceful || !list(&object, "/metadata/finalizers").is_empty() {
        let asked = options.get("gracePeriodSeconds").and_then(Value::as_i64);
        let own = object.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
        let grace = if graceful { asked.or(own).unwrap_or(30) } else { 0 };
        let end = Timestamp::now().checked_add(SignedDuration::from_secs(grace)).unwrap_or(Timestamp::MAX);
        let marked = store.update(kind, namespace, name, |value| {
            if value.pointer("/metadata/deletionTimestamp").is_none() {
                set(value, &["metadata", "deletionTimestamp"], time(end));
                if graceful {
                    set(value, &["metadata", "deletionGracePeriodSeconds"], grace);
                }
            }
            Ok(())
        })?;
        return Ok(Value::clone(&marked));
    }
    store.remove(kind.plural, namespace, name);
    if kind.plural == "namespaces" {
        cluster.empty_namespace(name);
    }
    Ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": name, "kind": kind.plural, "uid": text(&object, "/metadata/uid")},
    }))
}
