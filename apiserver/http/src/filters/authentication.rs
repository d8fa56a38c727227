//! Authentication filter.

use std::sync::Arc;
use std::time::Instant;

use apiserver_access::{Authenticated, Unauthenticated};
use apiserver_machinery::status::{ApiError, ApiResult};
use http::HeaderMap;

use crate::request::connection::Connection;
use crate::state::ApiServer;

pub(crate) async fn authenticate(
    server: &ApiServer,
    connection: &Connection,
    headers: &mut HeaderMap,
) -> ApiResult<Authenticated> {
    if let Some(user) = &connection.internal {
        return Ok(Authenticated { user: Arc::clone(user), is_proxied: false });
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
