//! Availability filter: refuses at once requests that cannot be served now. It never answers 404, on which a host's
//! garbage collector would delete objects.

use std::future::Future;

use apiserver_machinery::status::{ApiError, ApiResult};
use http::Version;

use crate::request::connection::Connection;
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, Subject};
use crate::request::routes;
use crate::response::{self, HttpResponse};
use crate::state::ApiServer;

/// Refuses new requests at the end of a shutdown. Health checks and the server's own controllers are still served.
pub(crate) fn refusal_at_the_end(
    server: &ApiServer,
    info: &RequestInfo,
    connection: &Connection,
    version: Version,
) -> Option<HttpResponse> {
    let is_exempt = connection.internal.is_some() || routes::health(&info.path).is_some();
    (server.lifecycle.is_refusing() && !is_exempt).then(|| response::shutting_down(version))
}

/// Refuses a request that needs storage, if storage does not answer or was not read yet.
///
/// # Errors
/// 503 with the time after which to try again.
pub(crate) fn check(server: &ApiServer, info: &RequestInfo, query: &Query, proxied: bool) -> ApiResult<()> {
    let Subject::Resource(path) = &info.subject else {
        let is_early = proxied && is_group_version(&info.path) && !server.parts.objects.is_ready();
        return if is_early { Err(ApiError::starting()) } else { Ok(()) };
    };
    // Reviews need no storage, and an unknown kind is known without it.
    if server.parts.objects.kind(&path.group, &path.version, &path.resource).is_none() {
        return Ok(());
    }
    if !server.parts.objects.is_ready() {
        return Err(ApiError::starting());
    }
    if server.storage.is_given_up() && needs_storage(info, query) {
        return Err(silent());
    }
    Ok(())
}

/// Returns true for `/apis/GROUP/VERSION`, by which a host decides whether its APIService is Available. It must not say
/// so before the objects can be served.
fn is_group_version(path: &str) -> bool {
    let parts = path.trim_end_matches('/').strip_prefix("/apis/").map(|rest| rest.split('/').count());
    parts == Some(2)
}

/// Returns true if a request needs storage. A read that allows an old state is served from the cache in any case.
pub(crate) fn needs_storage(info: &RequestInfo, query: &Query) -> bool {
    !info.is_read_only() || query.text("resourceVersion").is_empty()
}

/// Runs a read that needs storage until storage is given up: a read in flight is then refused like a new one. A write
/// goes on, because it may have happened.
///
/// # Errors
/// 503 once storage is given up.
pub(crate) async fn while_storage_answers<T>(
    server: &ApiServer,
    needs_storage: bool,
    reading: impl Future<Output = ApiResult<T>>,
) -> ApiResult<T> {
    if !needs_storage {
        return reading.await;
    }
    tokio::select! {
        biased;
        read = reading => read,
        () = server.storage.given_up() => Err(silent()),
    }
}

fn silent() -> ApiError {
    ApiError::unavailable("storage does not answer; nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::is_group_version;

    #[test]
    fn only_a_group_version_path_is_an_availability_check() {
        for path in ["/apis/cluster.x-k8s.io/v1beta2", "/apis/cluster.x-k8s.io/v1beta2/"] {
            assert!(is_group_version(path), "{path}");
        }
        for path in ["/apis", "/apis/", "/apis/cluster.x-k8s.io", "/api/v1", "/apis/g/v/machines", "/livez"] {
            assert!(!is_group_version(path), "{path}");
        }
    }
}
