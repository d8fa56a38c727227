//! What cannot be served now is refused at once: with an answer that says so, never with 404, on
//! which a host's garbage collector would delete things.

use apiserver_machinery::status::{ApiError, ApiResult};
use http::Version;

use crate::connection::Connection;
use crate::health;
use crate::query::Query;
use crate::request_info::{RequestInfo, Subject};
use crate::response::{self, Answer};
use crate::server::ApiServer;

/// Refuses what comes in when the server is about to end. Health goes on being told, and our own
/// controllers put things in order.
pub(crate) fn refusal_at_the_end(
    server: &ApiServer,
    info: &RequestInfo,
    connection: &Connection,
    version: Version,
) -> Option<Answer> {
    let is_exempt = connection.internal.is_some() || health::is_health(&info.path);
    (server.lifecycle.is_refusing() && !is_exempt).then(|| response::shutting_down(version))
}

/// Refuses what storage would have to answer, when it does not, or has not yet been read.
///
/// # Errors
/// 503 with the time after which to try again.
pub(crate) fn check(server: &ApiServer, info: &RequestInfo, query: &Query) -> ApiResult<()> {
    if info.subject == Subject::Path {
        return Ok(());
    }
    if !server.parts.objects.is_ready() {
        return Err(ApiError::starting());
    }
    // From the cache these are served whatever storage does.
    let from_memory = info.is_read_only() && !query.text("resourceVersion").is_empty();
    if server.storage.is_given_up() && !from_memory {
        return Err(ApiError::unavailable("storage does not answer; nothing was changed"));
    }
    Ok(())
}
