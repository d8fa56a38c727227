//! Handlers: turn an authorized request into a call of the generic store, and its result into a response.

mod apply;
mod built_in;
mod create;
mod delete;
pub(crate) mod execution;
mod get;
pub(crate) mod health;
mod idle_release;
pub(crate) mod index;
mod list;
mod list_options;
mod objects;
mod patch;
mod reviews;
mod scale;
mod subresource;
mod update;
mod view;
mod watch;
mod watch_encoder;
mod web_socket;

use std::sync::Arc;

use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::Kind;
use http::Method;

use crate::download_endpoint;
use crate::request::Call;
use crate::request::request_info::{ResourcePath, Subject};
use crate::request::routes::{check_segments, is_addressed_rightly, is_served};
use crate::response::negotiation;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Serves a request that has passed all filters.
pub(crate) async fn serve(server: &Arc<ApiServer>, call: Call) -> ApiResult<HttpResponse> {
    // Authorization was for the path with single slashes; upstream does not merge two slashes, and finds nothing.
    if call.info.path.starts_with("//") || call.info.path.starts_with("/apis//") {
        return Ok(response::not_found());
    }
    match &call.info.subject {
        Subject::Path => path(server, &call).await,
        Subject::Resource(resource) => self::resource(server, &call, resource).await,
    }
}

async fn path(server: &ApiServer, call: &Call) -> ApiResult<HttpResponse> {
    if call.info.path.trim_end_matches('/') == "/version" && call.info.method != Method::GET {
        return Err(ApiError::method_not_allowed_here());
    }
    if let Some(answer) = health::serve(server, &call.info.path, &call.query) {
        return Ok(answer);
    }
    match call.info.path.as_str() {
        "/" => return Ok(index::serve(server, call.proxied)),
        "/metrics" => {
            let (objects, tasks) = (&server.parts.objects, server.parts.supervisor.restarts());
            return Ok(server.telemetry.metrics.serve(objects, &server.flow_control, &tasks));
        }
        _ => {}
    }
    if let Some(answer) = issuer_document(server, call)? {
        return Ok(answer);
    }
    if let Some(answer) = download_endpoint::serve(&server.settings.download_endpoints, call).await? {
        return Ok(answer);
    }
    match server.documents.serve(call).await? {
        Some(answer) => Ok(answer),
        // Unknown versions of these groups have an error of their own.
        None if built_in::has_path(server.registry(), &call.info.path) && !call.proxied => {
            Err(ApiError::no_such_resource())
        }
        None => Ok(response::not_found()),
    }
}

/// Returns a document of the issuer of tokens. The host has an issuer of its own.
fn issuer_document(server: &ApiServer, call: &Call) -> ApiResult<Option<HttpResponse>> {
    let issuer = server.settings.issuer.as_ref().filter(|_| !call.proxied);
    let Some((content_type, document)) = issuer.and_then(|issuer| issuer.get(&call.info.path)) else {
        return Ok(None);
    };
    if call.info.method != Method::GET {
        return Err(ApiError::method_not_allowed_here());
    }
    Ok(Some(response::published(content_type, &document)))
}

async fn resource(server: &Arc<ApiServer>, call: &Call, path: &ResourcePath) -> ApiResult<HttpResponse> {
    let objects = Arc::clone(&server.parts.objects);
    let kind = objects.kind(&path.group, &path.version, &path.resource);
    let is_read = matches!(call.info.verb, "get" | "list" | "watch");
    if let Some(kind) = kind.filter(|kind| !is_read && kind.resource.strategy.is_read_only()) {
        return Err(ApiError::read_only(kind.resource.as_ref()));
    }
    let is_built_in = kind.map_or_else(
        || built_in::has_path(objects.registry(), &call.info.path),
        |kind| !kind.resource.hosted,
    );
    if is_built_in && !call.proxied {
        built_in::check(objects.registry(), &call.info, path)?;
    }
    if let Some(review) = apiserver_machinery::reviews::find(&path.group, &path.version, &path.resource)
        .filter(|_| !call.proxied)
    {
        return Box::pin(reviews::serve(server, call, review, path)).await;
    }
    let Some(kind) = kind else { return Ok(response::not_found()) };
    // Through the host, Kubernetes' own kinds are the host's.
    if call.proxied && !kind.resource.hosted {
        return Ok(response::not_found());
    }
    let deprecation = kind.resource.deprecation.clone();
    let mut answer = match of_kind(server, call, kind, path).await {
        Ok(answer) => answer,
        Err(error) => response::error(&error, negotiation::of_errors(&call.headers, &call.query)),
    };
    // The warning goes with every response except a missing path: the client should move on.
    if let Some(text) = deprecation.filter(|_| !response::is_no_page(&answer)) {
        response::warn_first(&mut answer, &text);
        answer.extensions_mut().insert(response::Deprecated);
    }
    Ok(answer)
}

/// Every handler but the smallest is boxed: the future of a request moves several times, and would be as large as the
/// largest handler.
async fn of_kind(
    server: &Arc<ApiServer>,
    call: &Call,
    kind: Kind<'_>,
    path: &ResourcePath,
) -> ApiResult<HttpResponse> {
    if !path.subresource.is_empty() {
        return Box::pin(subresource::serve(server, call, kind, path)).await;
    }
    if !is_addressed_rightly(kind, path, call.info.verb) {
        return Ok(response::not_found());
    }
    if is_served(kind, path, call.info.verb) {
        check_segments(path, call.info.verb)?;
    }
    match call.info.verb {
        "get" => get::serve(server, call, kind, path).await,
        "list" => Box::pin(list::serve(server, call, kind, path)).await,
        "watch" => Box::pin(watch::serve(server, call, kind, path)).await,
        "create" => Box::pin(create::serve(server, call, kind, path)).await,
        "update" | "patch" if path.name.is_empty() => Err(ApiError::bad_request("name must be provided")),
        "update" => Box::pin(update::serve(server, call, kind, path)).await,
        "patch" => Box::pin(patch::serve(server, call, kind, path)).await,
        "delete" => Box::pin(delete::one(server, call, kind, path)).await,
        "deletecollection" if kind.resource.strategy.deletes_collections() => {
            Box::pin(delete::collection(server, call, kind, path)).await
        }
        other => Err(ApiError::method_not_allowed(kind.resource, other)),
    }
}
