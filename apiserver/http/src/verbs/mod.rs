//! From a resolved, permitted request to the generic store and back.

mod create;
mod delete;
mod get;
mod list;
mod objects;
mod patch;
mod subresource;
mod update;
mod view;
mod watch;

use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::Kind;
use http::header::{ETAG, VARY};

use crate::request::Call;
use crate::request_info::{ResourcePath, Subject};
use crate::response::{self, Answer};
use crate::server::ApiServer;
use crate::{health, index};

/// Serves a request that has passed all filters.
pub(crate) async fn serve(server: &Arc<ApiServer>, call: Call) -> ApiResult<Answer> {
    match call.info.subject.clone() {
        Subject::Path => path(server, &call).await,
        Subject::Resource(resource) => self::resource(server, &call, &resource).await,
    }
}

async fn path(server: &ApiServer, call: &Call) -> ApiResult<Answer> {
    let path = call.info.path.as_str();
    if let Some(answer) = health::serve(server, path, &call.query) {
        return Ok(answer);
    }
    if path.trim_end_matches('/') == "/version" {
        return version(server, call);
    }
    if call.info.verb != "get" {
        return Ok(response::not_found());
    }
    match path {
        "/" => return Ok(index::serve(server, call.proxied)),
        "/metrics" => return Ok(server.metrics.serve(server)),
        _ => {}
    }
    match server.documents.serve(call)? {
        Some(answer) => Ok(answer),
        // Versions of the core group are told apart from pages that do not exist.
        None if path.starts_with("/api/") => Err(ApiError::no_such_resource()),
        None => Ok(response::not_found()),
    }
}

/// The version is small and asked for once: no client is told to remember it.
fn version(server: &ApiServer, call: &Call) -> ApiResult<Answer> {
    if call.info.verb != "get" {
        return Err(ApiError::no_such_method());
    }
    let mut answer = server.documents.serve(call)?.unwrap_or_else(response::not_found);
    answer.headers_mut().remove(ETAG);
    answer.headers_mut().remove(VARY);
    Ok(answer)
}

/// Names come from a path, and become part of a key.
fn check_names(path: &ResourcePath) -> ApiResult<()> {
    for (part, name) in [("Namespace", &path.namespace), ("Name", &path.name)] {
        let fault = match name.as_str() {
            ".." => "may not be '..'",
            "." => "may not be '.'",
            name if name.contains('/') => "may not contain '/'",
            name if name.contains('%') => "may not contain '%'",
            _ => continue,
        };
        return Err(ApiError::bad_request(format!("{part} parameter invalid: {name:?}: {fault}")));
    }
    Ok(())
}

async fn resource(server: &Arc<ApiServer>, call: &Call, path: &ResourcePath) -> ApiResult<Answer> {
    let objects = Arc::clone(&server.parts.objects);
    let Some(kind) = objects.kind(&path.group, &path.version, &path.resource) else {
        return Ok(response::not_found());
    };
    // Core kinds are the host's own on its face.
    if call.proxied && !kind.resource.hosted {
        return Ok(response::not_found());
    }
    check_names(path)?;
    if !path.subresource.is_empty() {
        return subresource::serve(server, call, kind, path).await;
    }
    if !is_addressed_rightly(kind, path, call.info.verb) {
        return Ok(response::not_found());
    }
    let on_collection = path_is_collection(&call.info.path, path);
    match call.info.verb {
        "get" => get::serve(server, call, kind, path).await,
        "list" => list::serve(server, call, kind, path).await,
        "watch" => watch::serve(server, call, kind, path).await,
        "create" if on_collection => create::serve(server, call, kind, path).await,
        "create" => Err(ApiError::method_not_allowed(kind.resource, "create")),
        "update" | "patch" if path.name.is_empty() => Err(ApiError::bad_request("name must be provided")),
        "update" => update::serve(server, call, kind, path).await,
        "patch" => patch::serve(server, call, kind, path).await,
        "delete" => delete::one(server, call, kind, path).await,
        "deletecollection" => delete::collection(server, call, kind, path).await,
        other => Err(ApiError::method_not_allowed(kind.resource, other)),
    }
}

/// A namespaced kind is read and written in a namespace; only lists and watches span them all.
fn is_addressed_rightly(kind: Kind<'_>, path: &ResourcePath, verb: &str) -> bool {
    match (kind.resource.namespaced, path.namespace.is_empty()) {
        (true, true) => matches!(verb, "list" | "watch"),
        (false, false) => false,
        _ => true,
    }
}

/// Whether the URL itself names no object (a field selector may have lent its name to the path).
fn path_is_collection(url: &str, path: &ResourcePath) -> bool {
    url.trim_end_matches('/').ends_with(&format!("/{}", path.resource)) || path.name.is_empty()
}
