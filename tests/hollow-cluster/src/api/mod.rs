//! Workload API of a hollow cluster.

pub(crate) mod access;
mod discovery;
pub(crate) mod eviction;
pub(crate) mod failure;
mod faulty;
pub(crate) mod kinds;
mod patch;
mod portforward;
mod read;
pub(crate) mod request;
pub(crate) mod selector;
pub(crate) mod serve;
pub(crate) mod store;
mod table;
mod watch;
mod websocket;
mod write;

use http::{Method, Response};

use failure::Failure;
use request::Request;
use serve::{ApiServer, Body, text_response};

/// Handles a request of a user who may send it.
pub(crate) fn handle(server: &ApiServer, request: &Request) -> Result<Response<Body>, Failure> {
    let cluster = &server.cluster;
    if let Some(response) = discovery::handle(cluster, request) {
        return Ok(response);
    }
    if !cluster.etcd_has_quorum() {
        return Err(Failure::new(
            http::StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            "etcdserver: request timed out",
        ));
    }
    if request.path.starts_with("/livez") || request.path.starts_with("/readyz") || request.path == "/healthz"
    {
        return Ok(text_response("ok"));
    }
    let target = request.target()?;
    match (&request.method, target.subresource.as_deref()) {
        (&Method::GET, None | Some("status")) => read::handle(server, request, &target),
        (&Method::POST, Some("eviction")) if target.kind.plural == "pods" => {
            eviction::handle(cluster, request, &target)
        }
        (_, None | Some("status" | "approval" | "finalize")) => write::handle(cluster, request, &target),
        _ => Err(Failure::no_such_path()),
    }
}
