//! Limit on who may name a realm in a review. An answer about a user of the host, or of another issuer, is an answer of
//! the authorizers of those users.

use apiserver_access::{REALM, Realm};
use apiserver_machinery::admission::{Action, Permissions};
use apiserver_machinery::reviews::{AUTHENTICATION, Review, VERSION};
use apiserver_machinery::status::{ApiError, ApiResult};

use crate::filters::authorization::UserPermissions;
use crate::request::Call;
use crate::state::ApiServer;

/// Resource whose reviews find out the realm of a user. Of the default roles, `cluster-admin` and
/// `system:auth-delegator` permit it; a role that permits reviews of access alone does not.
const TOKENS: &str = "tokenreviews";

/// Checks that the caller may review a user of this realm. The default realm needs no permission beyond that of the review.
///
/// # Errors
/// 403, or 503 if an authorizer cannot decide.
pub(super) async fn check(server: &ApiServer, call: &Call, review: &Review, realm: &Realm) -> ApiResult<()> {
    if *realm == Realm::default() {
        return Ok(());
    }
    let action = Action {
        verb: "create",
        group: AUTHENTICATION,
        version: VERSION,
        resource: TOKENS,
        ..Action::default()
    };
    UserPermissions::new(server, call).require(action).await.map_err(|error| {
        if error.code != 403 {
            return error;
        }
        let why = format!(
            "User {:?} may not name the realm {:?} in spec.extra[{REALM}]: it needs the permission to create \
             {TOKENS}.{AUTHENTICATION}, which ClusterRole system:auth-delegator has",
            call.user.name,
            realm.name()
        );
        ApiError::forbidden(review.group, review.plural, "", &why)
    })
}
