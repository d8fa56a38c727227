//! Authentication filter.

use std::sync::Arc;
use std::time::Instant;

use apiserver_access::{Unauthenticated, User};
use apiserver_machinery::status::{ApiError, ApiResult};
use http::HeaderMap;

use crate::request::connection::Connection;
use crate::state::ApiServer;

pub(crate) async fn authenticate(
    server: &ApiServer,
    connection: &Connection,
    headers: &mut HeaderMap,
) -> ApiResult<Arc<User>> {
    if let Some(user) = &connection.internal {
        return Ok(Arc::clone(user));
    }
    let started = Instant::now();
    let found = server.parts.authenticator.authenticate(&connection.peer, headers).await;
    server.telemetry.metrics.authenticated(connection, &found, started.elapsed());
    found.map_err(|error| match error {
        Unauthenticated::Refused => ApiError::unauthorized(),
        // Not 401: the token may be valid, and a client that is refused discards it.
        Unauthenticated::ReviewFailed(why) => ApiError::unavailable(why.0),
    })
}
