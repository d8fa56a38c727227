//! Authentication filter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_access::{Authenticated, IDENTITY_STALE, Realm, ShownToken, Unauthenticated, User};
use apiserver_machinery::status::{ApiError, ApiResult};
use futures::future::BoxFuture;
use http::HeaderMap;

use super::token_limits;
use crate::request::connection::Connection;
use crate::request::request_info::RequestInfo;
use crate::state::ApiServer;

/// Interval at which the token of a watch is checked again. The watch must end within a minute after its token, as one does
/// after its client certificate.
const TOKEN_CHECK: Duration = Duration::from_secs(30);

pub(crate) async fn authenticate(
    server: &ApiServer,
    connection: &Connection,
    path: &str,
    headers: &mut HeaderMap,
) -> ApiResult<Authenticated> {
    if let Some(user) = &connection.internal {
        return Ok(Authenticated { user: Arc::clone(user), is_proxied: false });
    }
    let started = Instant::now();
    let authenticator = &server.parts.authenticator;
    let mut found = authenticator.authenticate(&connection.peer, connection.address, headers).await;
    // A host decides itself about its anonymous users.
    let is_anonymous = found.as_ref().is_ok_and(|found| !found.is_proxied && found.user.is_anonymous());
    let is_of_another = found.as_ref().is_ok_and(|found| !token_limits::is_for(connection, &found.user));
    if is_of_another || (is_anonymous && !authenticator.admits_anonymous(path)) {
        found = Err(Unauthenticated::Refused);
    }
    server.telemetry.metrics.authenticated(connection, &found, started.elapsed());
    found.map_err(|error| match error {
        Unauthenticated::Refused => ApiError::unauthorized(),
        // Not 401: the token may be valid, and a client that is refused discards it.
        Unauthenticated::ReviewFailed(why) => ApiError::undecided(why.0),
    })
}

/// Returns the token of a watch, which is checked again while the watch is open. `None` for other requests: their responses
/// end in time.
pub(crate) fn token_of_watch(
    server: &ApiServer,
    connection: &Connection,
    info: &RequestInfo,
    headers: &HeaderMap,
) -> Option<ShownToken> {
    let is_checked = info.is_long_running() && connection.internal.is_none();
    is_checked.then(|| server.parts.authenticator.shown_token(&connection.peer, headers)).flatten()
}

/// Completes when the token of a watch is not valid any more: it has expired, or its source refuses it. While the source
/// cannot check the token, the watch goes on. Never completes without a token.
pub(crate) fn token_ends(server: &ApiServer, token: Option<&ShownToken>) -> BoxFuture<'static, ()> {
    let Some(token) = token.cloned() else { return Box::pin(std::future::pending()) };
    let authenticator = Arc::clone(&server.parts.authenticator);
    Box::pin(async move {
        loop {
            tokio::time::sleep(TOKEN_CHECK).await;
            if authenticator.is_valid(&token).await == Ok(false) {
                return;
            }
        }
    })
}

/// Returns the age of the answer by which a user of Keystone is known while Keystone does not answer. Unit: seconds.
pub(crate) fn stale_identity(user: &User) -> Option<&str> {
    // The extra attributes of another realm are not those of Keystone.
    let is_of_keystone = user.realm == Realm::Keystone;
    let age = user.extra.get(IDENTITY_STALE).filter(|_| is_of_keystone)?;
    age.first().map(String::as_str)
}
