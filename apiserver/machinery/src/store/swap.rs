//! The last step of a change: compare-and-swap.

use serde_json::Value;
use storage_contract::{Entry, Key, StoreError};

use super::update::Modification;
use super::{Kind, ObjectStore, Origin, is_held, owners};
use crate::object;
use crate::status::{ApiError, ApiResult};

impl ObjectStore {
    /// Stores `new` if nobody was faster; `None` when somebody was.
    pub(super) async fn swap(
        &self,
        kind: Kind<'_>,
        key: &Key,
        entry: Entry,
        old: &Value,
        mut new: Value,
        how: Modification<'_>,
    ) -> ApiResult<Option<Value>> {
        let dry_run = how.options.dry_run;
        if object::is_deleting(&new) && !is_held(kind.resource, &new) {
            return self.finish_deletion(kind, key, entry, new, dry_run).await;
        }
        owners::keep_times(&mut new, old);
        if dry_run || (new == *old && self.is_current(kind, &entry)) {
            return Ok(Some(new));
        }
        let value = self.encode(kind, key, &new)?;
        let mut outcome = self.store.update(key, entry.modified, value).await;
        if matches!(outcome, Err(StoreError::TooLarge { .. })) && how.origin == Origin::Sent {
            object::remove_meta(&mut new, "managedFields");
            outcome = self.store.update(key, entry.modified, self.encode(kind, key, &new)?).await;
        }
        match outcome {
            Ok(revision) => {
                object::set_revision(&mut new, revision);
                Ok(Some(new))
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(StoreError::Unknown { .. }) => self.settle_swap(kind, key, new).await,
            Err(error) => Err(ApiError::storage(&error)),
        }
    }

    /// The store did not say whether the write happened: look. What we wrote, standing there,
    /// says yes; what we started from says try again.
    async fn settle_swap(&self, kind: Kind<'_>, key: &Key, new: Value) -> ApiResult<Option<Value>> {
        let Some((found, _)) = self.read(kind, key).await? else { return Ok(None) };
        let without_revision = |mut object: Value| {
            object::remove_meta(&mut object, "resourceVersion");
            object
        };
        let ours = without_revision(found.clone()) == without_revision(new);
        Ok(ours.then_some(found))
    }

    /// The last finalizer is gone: so is the object.
    async fn finish_deletion(
        &self,
        kind: Kind<'_>,
        key: &Key,
        entry: Entry,
        new: Value,
        dry_run: bool,
    ) -> ApiResult<Option<Value>> {
        if dry_run {
            return Ok(Some(new));
        }
        match self.store.delete(key, entry.modified).await {
            Ok(_) => Ok(Some(new)),
            Err(StoreError::Conflict { .. } | StoreError::Unknown { .. }) => {
                // Gone, by us or somebody else, is what was wanted.
                Ok(self.read(kind, key).await?.is_none().then_some(new))
            }
            Err(error) => Err(ApiError::storage(&error)),
        }
    }
}
