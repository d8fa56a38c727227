//! The last step of a change: compare-and-swap.

use serde_json::Value;
use storage_contract::{Key, Revision, StoreError};

use super::base::Base;
use super::update::Modification;
use super::{Kind, ObjectStore, Origin, Stored, is_held, owners};
use crate::object;
use crate::status::{ApiError, ApiResult};

impl ObjectStore {
    /// Stores `new` if nobody was faster; `None` when somebody was, and when only what is stored can tell.
    pub(super) async fn swap(
        &self,
        kind: Kind<'_>,
        key: &Key,
        base: &Base,
        mut new: Value,
        how: Modification<'_>,
    ) -> ApiResult<Option<Stored>> {
        let dry_run = how.options.dry_run;
        if object::is_deleting(&new) && !is_held(kind.resource, &new) {
            return self.finish_deletion(kind, key, base.revision, new, dry_run).await;
        }
        owners::keep_times(&mut new, &base.object);
        if dry_run {
            return Ok(Some(Stored::seen(new)));
        }
        if new == base.object {
            let entry = match &base.entry {
                Some(entry) => entry.clone(),
                None => match self.read(kind, key).await? {
                    Some((_, entry)) if entry.modified == base.revision => entry,
                    _ => return Ok(None),
                },
            };
            // What is not written as it would be written now is written anew.
            if self.is_current(kind, &entry) {
                return Ok(Some(Stored::seen(new)));
            }
        }
        let update = async |new: &Value| {
            let prepared = self.encode(kind, key, new)?;
            let write = self.store.update(key, base.revision, prepared.value.clone());
            ApiResult::Ok(self.send(kind, key, prepared, write).await)
        };
        let mut outcome = update(&new).await?;
        if matches!(outcome, Err(StoreError::TooLarge { .. })) && how.origin == Origin::Sent {
            object::remove_meta(&mut new, "managedFields");
            outcome = update(&new).await?;
        }
        match outcome {
            Ok((revision, json)) => {
                object::set_revision(&mut new, revision);
                Ok(Some(Stored { object: new, json }))
            }
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(unknown @ StoreError::Unknown { .. }) => {
                Ok(self.settle_swap(kind, key, new, &unknown).await?.map(Stored::seen))
            }
            Err(error) => Err(ApiError::storage(&error)),
        }
    }

    /// The last finalizer is gone: so is the object.
    async fn finish_deletion(
        &self,
        kind: Kind<'_>,
        key: &Key,
        revision: Revision,
        new: Value,
        dry_run: bool,
    ) -> ApiResult<Option<Stored>> {
        if dry_run {
            return Ok(Some(Stored::seen(new)));
        }
        match self.store.delete(key, revision).await {
            Ok(_) => Ok(Some(Stored::seen(new))),
            // Gone, by us or somebody else, is what was wanted.
            Err(StoreError::Conflict { .. }) => {
                Ok(self.read(kind, key).await?.is_none().then(|| Stored::seen(new)))
            }
            Err(unknown @ StoreError::Unknown { .. }) => {
                Ok(self.look_after(kind, key, &unknown).await?.is_none().then(|| Stored::seen(new)))
            }
            Err(error) => Err(ApiError::storage(&error)),
        }
    }
}
