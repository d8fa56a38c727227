//! Permission of a client to use the objects that a written object newly refers to.

use serde_json::Value;

use crate::admission::{Use, UsedObject};
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, WriteOptions};

/// Checks that the client may use each object that `new` refers to and `old` does not. A reference that stays needs no
/// permission, so that other users can still change the rest of the object.
///
/// # Errors
/// 403 that names the field and the remedy; 503 if the authorizer does not answer.
pub(crate) async fn check(
    kind: Kind<'_>,
    new: &Value,
    old: Option<&Value>,
    options: &WriteOptions,
) -> ApiResult<()> {
    let Some(permissions) = options.permissions.as_deref() else { return Ok(()) };
    if ![Use::Use, Use::ReadSecret].iter().any(|it| it.is_required(permissions)) {
        return Ok(());
    }
    let strategy = &kind.stored.strategy;
    let mut added = strategy.used_objects(kind.as_stored(new)?.as_ref());
    added.retain(|used| used.permission.is_required(permissions));
    if added.is_empty() {
        return Ok(());
    }
    if let Some(old) = old {
        let before = strategy.used_objects(kind.as_stored(old)?.as_ref());
        added.retain(|used| !before.iter().any(|known| known.action() == used.action()));
    }
    for used in &added {
        if let Err(error) = permissions.require(used.action()).await {
            return Err(if error.code == 403 { refusal(kind, new, used, &error) } else { error });
        }
    }
    Ok(())
}

fn refusal(kind: Kind<'_>, new: &Value, used: &UsedObject, error: &ApiError) -> ApiError {
    let why = format!("{}: {}. {}", used.field, error.message, used.remedy);
    ApiError::forbidden(&kind.resource.group, &kind.resource.plural, object::name(new), &why)
}
