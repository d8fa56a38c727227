//! Not too much at once.

use apiserver_access::User;
use apiserver_machinery::status::{ApiError, ApiResult};
use tokio::sync::SemaphorePermit;

use crate::request_info::RequestInfo;
use crate::server::ApiServer;

/// A place among the requests in flight, for as long as it is held. Watches last and are not
/// counted; `system:masters` must be able to mend what is overloaded.
pub(crate) fn admit<'a>(
    server: &'a ApiServer,
    info: &RequestInfo,
    user: &User,
) -> ApiResult<Option<SemaphorePermit<'a>>> {
    if info.is_long_running() || user.is_in("system:masters") {
        return Ok(None);
    }
    let places = if info.is_read_only() { &server.read_only } else { &server.mutating };
    places.try_acquire().map(Some).map_err(|_| ApiError::too_many_requests())
}
