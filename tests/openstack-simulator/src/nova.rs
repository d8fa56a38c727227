//! Nova v2.1, microversions 2.1 to 2.93.

use http::{HeaderName, Method, StatusCode};
use serde_json::json;

use crate::context::Context;
use crate::http::{HandlerResult, Reply, Request};
use crate::state::CloudState;

mod actions;
mod attachments;
mod create;
mod flavors;
mod groups;
mod history;
mod keypairs;
mod labels;
mod listing;
pub(crate) mod model;
mod placement;
mod quotas;
mod servers;
mod table;
pub(crate) mod transitions;
mod versions;
mod view;

pub(crate) use table::ServerTable;

/// The largest microversion, as in the Zed release.
const LARGEST: u32 = 93;

/// Returns an error in Nova's format.
fn refusal(status: StatusCode, message: &str) -> Reply {
    let kind = match status.as_u16() {
        400 => "badRequest",
        401 => "unauthorized",
        403 => "forbidden",
        404 => "itemNotFound",
        409 => "conflictingRequest",
        413 => "overLimit",
        _ => "computeFault",
    };
    Reply::json(status, &json!({kind: {"code": status.as_u16(), "message": message}}))
}

fn bad_request(message: &str) -> Reply {
    refusal(StatusCode::BAD_REQUEST, message)
}

fn conflict(message: &str) -> Reply {
    refusal(StatusCode::CONFLICT, message)
}

fn not_found(message: &str) -> Reply {
    refusal(StatusCode::NOT_FOUND, message)
}

/// Returns the minor microversion of the request; 1 by default.
pub(crate) fn microversion(request: &Request) -> Result<u32, Reply> {
    let new = request.header("openstack-api-version").and_then(|value| value.trim().strip_prefix("compute "));
    let requested = new.or_else(|| request.header("x-openstack-nova-api-version")).map(str::trim);
    let Some(requested) = requested else { return Ok(1) };
    if requested == "latest" {
        return Ok(LARGEST);
    }
    let parts =
        requested.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    let Some((major, minor)): Option<(u32, u32)> = parts else {
        let message = format!(
            "API Version String {requested} is of invalid format. Must be of format MajorNum.MinorNum."
        );
        return Err(bad_request(&message));
    };
    if major != 2 || minor == 0 || minor > LARGEST {
        let message = format!(
            "Version {requested} is not supported by the API. Minimum is 2.1 and maximum is 2.{LARGEST}."
        );
        return Err(refusal(StatusCode::NOT_ACCEPTABLE, &message));
    }
    Ok(minor)
}

/// Adds the headers with the microversion of the response.
pub(crate) fn stamp(reply: Reply, microversion: u32, request_id: &str) -> Reply {
    let name = HeaderName::from_static;
    reply
        .with_header(name("openstack-api-version"), &format!("compute 2.{microversion}"))
        .with_header(name("x-openstack-nova-api-version"), &format!("2.{microversion}"))
        .with_header(http::header::VARY, "OpenStack-API-Version, X-OpenStack-Nova-API-Version")
        .with_header(name("x-compute-request-id"), request_id)
}

/// The version documents, which need no token.
pub(crate) fn public(request: &Request) -> Option<Reply> {
    let segments = request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match segments.as_slice() {
        ["compute"] => Some(versions::all(request)),
        ["compute", "v2.1"] => Some(versions::one(request)),
        _ => None,
    }
}

/// Handles a call to Nova.
pub(crate) fn handle(state: &mut CloudState, context: &Context<'_>) -> HandlerResult {
    let segments = context.request.segments();
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let Some(["compute", "v2.1"]) = segments.get(..2) else { return Err(no_such_page()) };
    let path = segments.get(2..).unwrap_or_default();
    // Old clients put their project at the beginning of the path.
    let path = match path {
        [project, rest @ ..] if *project == context.caller.project_id => rest,
        other => other,
    };
    route(state, context, path)
}

fn route(state: &mut CloudState, context: &Context<'_>, path: &[&str]) -> HandlerResult {
    let method = &context.request.method;
    match (method, path) {
        (&Method::GET, ["flavors"]) => flavors::list(state, context, false),
        (&Method::GET, ["flavors", "detail"]) => flavors::list(state, context, true),
        (&Method::GET, ["flavors", id]) => flavors::get(state, context, id),
        (&Method::GET, ["flavors", id, "os-extra_specs"]) => flavors::extra_specs(state, id),
        (&Method::GET, ["os-availability-zone", ..]) => Ok(placement::zones(context)),
        (&Method::GET, ["limits"]) => Ok(quotas::limits(state, context)),
        (&Method::GET, ["os-quota-sets", project, ..]) => quotas::get(state, context, project),
        (&Method::PUT, ["os-quota-sets", project]) => quotas::set(state, context, project),
        (_, ["os-keypairs", rest @ ..]) => keypairs::handle(state, context, rest),
        (_, ["os-server-groups", rest @ ..]) => groups::handle(state, context, rest),
        (&Method::GET, ["servers"]) => listing::list(state, context, false),
        (&Method::GET, ["servers", "detail"]) => listing::list(state, context, true),
        (&Method::POST, ["servers"]) => create::create(state, context),
        (_, ["servers", id, rest @ ..]) => server(state, context, id, rest),
        _ => Err(no_such_page()),
    }
}

fn server(state: &mut CloudState, context: &Context<'_>, id: &str, path: &[&str]) -> HandlerResult {
    match (&context.request.method, path) {
        (&Method::GET, []) => servers::get(state, context, id),
        (&Method::PUT, []) => servers::update(state, context, id),
        (&Method::DELETE, []) => servers::delete(state, context, id),
        (&Method::POST, ["action"]) => actions::handle(state, context, id),
        (&Method::GET, ["os-instance-actions"]) => history::list(state, context, id),
        (&Method::GET, ["os-instance-actions", request]) => history::get(state, context, id, request),
        (_, ["tags", rest @ ..]) => labels::tags(state, context, id, rest),
        (_, ["metadata", rest @ ..]) => labels::metadata(state, context, id, rest),
        (&Method::GET, ["os-interface"]) => attachments::interfaces(state, context, id),
        (&Method::GET, ["os-volume_attachments"]) => attachments::volumes(state, context, id),
        (&Method::DELETE, ["os-volume_attachments", volume]) => {
            attachments::detach(state, context, id, volume)
        }
        _ => Err(no_such_page()),
    }
}

fn no_such_page() -> Reply {
    Reply::html(StatusCode::NOT_FOUND, "The resource could not be found.")
}
