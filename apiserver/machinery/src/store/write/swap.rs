//! Last step of an update: compare-and-swap.

use serde_json::Value;
use storage_contract::{Key, Revision, StoreError};

use super::current_object::CurrentObject;
use super::field_managers;
use super::outcome::PendingWrite;
use super::update::Modification;
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::cached::raw_field::RawField;
use crate::store::{Kind, ObjectStore, Origin, WrittenObject, is_held};

impl ObjectStore {
    /// Stores `new` unless another client wrote first. Returns `None` then, or if only the stored object can decide.
    pub(crate) async fn swap(
        &self,
        kind: Kind<'_>,
        key: &Key,
        mut current: CurrentObject,
        mut new: Value,
        how: Modification<'_>,
    ) -> ApiResult<Option<WrittenObject>> {
        let dry_run = how.options.dry_run;
        if object::is_deleting(&new) && !is_held(kind.resource, &new) {
            current.make_whole(&mut new)?;
            return self.finish_deletion(kind, key, current.revision, new, dry_run).await;
        }
        field_managers::keep_times(&mut new, &current.object);
        if dry_run {
            return Ok(Some(WrittenObject::of_serialized(new)));
        }
        if new == current.object {
            let entry = match &current.entry {
                Some(entry) => entry.clone(),
                None => match self.read(kind, key).await? {
                    Some((_, entry)) if entry.modified == current.revision => entry,
                    _ => return Ok(None),
                },
            };
            // An unchanged object is written if its stored form is not the present one.
            if self.is_current(kind, &entry) {
                current.make_whole(&mut new)?;
                return Ok(Some(WrittenObject::of_serialized(new)));
            }
        }
        let (revision, untouched) = (current.revision, current.untouched.take());
        drop(current);
        let update = async |new: Value, untouched: Option<RawField>| {
            let prepared = self.encode(kind, key, &new, untouched.as_ref())?;
            let pending = PendingWrite::new(kind, new, &prepared.object_json);
            let value = prepared.value.clone();
            let write = self.store.update(key, revision, value.clone());
            ApiResult::Ok((self.send(key, prepared, write).await, pending, value))
        };
        let (mut outcome, mut pending, mut value) = update(new, untouched).await?;
        if matches!(outcome, Err(StoreError::TooLarge { .. })) && how.origin == Origin::Sent {
            let mut smaller = pending.into_value()?;
            object::remove_meta(&mut smaller, "managedFields");
            (outcome, pending, value) = update(smaller, None).await?;
        }
        match outcome {
            Ok(revision) => Ok(Some(pending.at(revision))),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(unknown @ StoreError::Unknown { .. }) => {
                Ok(Some(pending.at(self.resolve_update(key, revision, &value, &unknown).await?)))
            }
            Err(error) => Err(ApiError::storage(&error)),
        }
    }

    /// Removes the object: its last finalizer is gone.
    async fn finish_deletion(
        &self,
        kind: Kind<'_>,
        key: &Key,
        revision: Revision,
        new: Value,
        dry_run: bool,
    ) -> ApiResult<Option<WrittenObject>> {
        if dry_run {
            return Ok(Some(WrittenObject::of_serialized(new)));
        }
        match self.store.delete(key, revision).await {
            Ok(_) => Ok(Some(WrittenObject::of_serialized(new))),
            // It is gone, through this write or another one, as requested.
            Err(StoreError::Conflict { .. }) => {
                Ok(self.read(kind, key).await?.is_none().then(|| WrittenObject::of_serialized(new)))
            }
            Err(unknown @ StoreError::Unknown { .. }) => {
                let uid = object::meta(&new, "uid");
                let is_gone = self.resolve_deletion(kind, key, revision, uid, &unknown).await?;
                Ok(is_gone.then(|| WrittenObject::of_serialized(new)))
            }
            Err(error) => Err(ApiError::storage(&error)),
        }
    }
}
