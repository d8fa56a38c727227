//! What cannot be served now is refused at once: with an answer that says so, never with 404, on
//! which a host's garbage collector would delete things.

use std::future::Future;

use apiserver_machinery::status::{ApiError, ApiResult};
use http::Version;

use crate::request::connection::Connection;
use crate::request::query::Query;
use crate::request::request_info::{RequestInfo, Subject};
use crate::request::routes;
use crate::response::{self, Answer};
use crate::state::ApiServer;

/// Refuses what comes in when the server is about to end. Health goes on being told, and our own
/// controllers put things in order.
pub(crate) fn refusal_at_the_end(
    server: &ApiServer,
    info: &RequestInfo,
    connection: &Connection,
    version: Version,
) -> Option<Answer> {
    let is_exempt = connection.internal.is_some() || routes::health(&info.path).is_some();
    (server.lifecycle.is_refusing() && !is_exempt).then(|| response::shutting_down(version))
}

/// Refuses what storage would have to answer, when it does not, or has not yet been read.
///
/// # Errors
/// 503 with the time after which to try again.
pub(crate) fn check(server: &ApiServer, info: &RequestInfo, query: &Query) -> ApiResult<()> {
    let Subject::Resource(path) = &info.subject else { return Ok(()) };
    // Reviews are answered without storage, and that there is no such kind is known without it.
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

/// Whether storage has to answer. What may be old is served from the cache, whatever storage does.
pub(crate) fn needs_storage(info: &RequestInfo, query: &Query) -> bool {
    !info.is_read_only() || query.text("resourceVersion").is_empty()
}

/// Has a read wait for storage only for as long as that is of use: one that began before storage was
/// silent is refused as one is that comes later. A change goes on, since it may have been made.
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
