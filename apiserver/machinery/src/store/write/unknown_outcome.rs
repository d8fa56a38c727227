//! A write whose outcome the store did not tell.

use std::time::Duration;

use serde_json::Value;
use storage_contract::{Key, StoreError};

use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, ObjectStore};

/// How long the store has to tell what became of a write that it did not confirm. The writer has waited for the
/// write's whole deadline already; a store that comes back answers at once.
const PATIENCE: Duration = Duration::from_secs(3);

impl ObjectStore {
    /// The object as it is stored after a write that was not confirmed.
    ///
    /// # Errors
    /// 504 saying that the write's outcome is `unknown`, when the store still does not answer; 500 for what cannot be
    /// read.
    pub(crate) async fn look_after(
        &self,
        kind: Kind<'_>,
        key: &Key,
        unknown: &StoreError,
    ) -> ApiResult<Option<Value>> {
        match tokio::time::timeout(PATIENCE, self.read(kind, key)).await {
            Ok(Ok(found)) => Ok(found.map(|(object, _)| object)),
            Ok(Err(error)) if error.code == 500 => Err(error),
            // Not what the read says, which is that nothing was changed.
            Ok(Err(_)) | Err(_) => Err(ApiError::storage(unknown)),
        }
    }

    /// Whether a create happened. Our uid on the object says yes.
    pub(crate) async fn settle_create(
        &self,
        kind: Kind<'_>,
        key: &Key,
        object: &Value,
        unknown: &StoreError,
    ) -> ApiResult<Value> {
        match self.look_after(kind, key, unknown).await? {
            Some(found) if object::meta(&found, "uid") == object::meta(object, "uid") => Ok(found),
            Some(_) => Err(ApiError::already_exists(kind.resource, object::name(object), false)),
            None => Err(ApiError::unavailable("storage did not take the object; nothing was created")),
        }
    }

    /// Whether a change happened. What we wrote, standing there, says yes; what we started from says try again.
    pub(crate) async fn settle_swap(
        &self,
        kind: Kind<'_>,
        key: &Key,
        new: Value,
        unknown: &StoreError,
    ) -> ApiResult<Option<Value>> {
        let Some(found) = self.look_after(kind, key, unknown).await? else { return Ok(None) };
        let without_revision = |mut object: Value| {
            object::remove_meta(&mut object, "resourceVersion");
            object
        };
        let ours = without_revision(found.clone()) == without_revision(new);
        Ok(ours.then_some(found))
    }
}
