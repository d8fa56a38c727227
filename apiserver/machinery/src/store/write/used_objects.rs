//! Permission of a client to use the objects that a written object newly refers to.

use serde_json::Value;

use crate::admission::{Use, UsedObject};
use crate::object;
use crate::related::ObjectReader;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, WriteOptions};

/// Checks that the client may use each object that `new` refers to and `old` does not, also through objects that the
/// controllers make. A reference that stays needs no permission, so that other users can still change the rest of the
/// object.
///
/// # Errors
/// 403 that names the field and the remedy; 503 if the authorizer or the store does not answer.
pub(crate) async fn check(
    kind: Kind<'_>,
    new: &Value,
    old: Option<&Value>,
    options: &WriteOptions,
    others: &dyn ObjectReader,
) -> ApiResult<()> {
    let Some(permissions) = options.permissions.as_deref() else { return Ok(()) };
    if ![Use::Use, Use::ReadSecret].iter().any(|it| it.is_required(permissions)) {
        return Ok(());
    }
    let strategy = &kind.stored.strategy;
    let goes_on = strategy.uses_through_others() && !permissions.is_internal();
    let stored = kind.as_stored(new)?;
    let mut added = strategy.used_objects(&stored);
    added.retain(|used| used.permission.is_required(permissions));
    if added.is_empty() && !goes_on {
        return Ok(());
    }
    let stored_old = old.map(|old| kind.as_stored(old)).transpose()?;
    if let Some(old) = stored_old.as_deref() {
        let before = strategy.used_objects(old);
        added.retain(|used| !before.iter().any(|known| known.action() == used.action()));
    }
    if goes_on {
        let further = strategy.used_through_others(&stored, stored_old.as_deref(), others).await?;
        added.extend(further.into_iter().filter(|used| used.permission.is_required(permissions)));
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
