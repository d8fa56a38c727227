//! Resolution of unknown outcomes: a read finds out whether an unconfirmed write happened.
//!
//! A change is sent again only if it is proved that the first one did not happen. The proof of an update is the key's
//! revision: if the key still has the one that the update started from, the update has not happened, and the same
//! update can be sent again, because of two updates from one revision the store accepts only one. The proof of a
//! deletion is the object's uid: an object that was deleted does not return with its uid. In all other cases the client
//! gets 504.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use storage_contract::{Entry, Key, Revision, StoreError};

use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, ObjectStore};

/// Time that the store has for the read after a write that it did not confirm. The client has waited for the whole
/// deadline of the write already; a store that works again answers at once.
const PATIENCE: Duration = Duration::from_secs(3);

/// Number of times that an unconfirmed write is sent again. The second one is confirmed, unless the store fails again.
const ATTEMPTS: usize = 3;

impl ObjectStore {
    /// Returns the entry of a key after a write that was not confirmed.
    ///
    /// # Errors
    /// 504 with the write's unknown outcome, if the store still does not answer.
    async fn entry_after(&self, key: &Key, unknown: &StoreError) -> ApiResult<Option<Entry>> {
        match tokio::time::timeout(PATIENCE, self.store.get(key)).await {
            Ok(Ok(entry)) => Ok(entry),
            // The error of the read would say that nothing was changed.
            Ok(Err(_)) | Err(_) => Err(ApiError::storage(unknown)),
        }
    }

    /// Returns the object that an unconfirmed create stored. Its uid is the proof.
    ///
    /// # Errors
    /// 504 if there is no such object: it may have been deleted since, or the create may happen still. 500 for an
    /// object that cannot be decoded.
    pub(crate) async fn resolve_create(
        &self,
        kind: Kind<'_>,
        key: &Key,
        object: &Value,
        unknown: &StoreError,
    ) -> ApiResult<Value> {
        if let Some(entry) = self.entry_after(key, unknown).await? {
            let found = self.decode(kind, &entry)?;
            if object::meta(&found, "uid") == object::meta(object, "uid") {
                return Ok(found);
            }
        }
        Err(ApiError::storage(unknown))
    }

    /// Returns the revision of an unconfirmed update from revision `from`, after sending it again if it did not happen.
    ///
    /// # Errors
    /// 504 if the key has another value by now, or none: the update may have happened before that.
    pub(crate) async fn resolve_update(
        &self,
        key: &Key,
        from: Revision,
        value: &Bytes,
        unknown: &StoreError,
    ) -> ApiResult<Revision> {
        for _ in 0..ATTEMPTS {
            match self.entry_after(key, unknown).await? {
                Some(entry) if entry.modified == from => {}
                Some(entry) if entry.value == *value => return Ok(entry.modified),
                _ => break,
            }
            // A conflict is no proof here: the first update may have caused it. The next read decides.
            if let Ok(revision) = self.store.update(key, from, value.clone()).await {
                return Ok(revision);
            }
        }
        Err(ApiError::storage(unknown))
    }

    /// Returns true if the object with this uid is gone after an unconfirmed deletion from revision `from`, which is
    /// sent again if it did not happen. Returns false if it is proved that the deletion did not happen and never will.
    ///
    /// # Errors
    /// 504 if the store confirms none of several attempts; 500 for an object that cannot be decoded.
    pub(crate) async fn resolve_deletion(
        &self,
        kind: Kind<'_>,
        key: &Key,
        from: Revision,
        uid: &str,
        unknown: &StoreError,
    ) -> ApiResult<bool> {
        for _ in 0..ATTEMPTS {
            let Some(entry) = self.entry_after(key, unknown).await? else { return Ok(true) };
            if object::meta(&self.decode(kind, &entry)?, "uid") != uid {
                return Ok(true);
            }
            if entry.modified != from {
                return Ok(false);
            }
            if self.store.delete(key, from).await.is_ok() {
                return Ok(true);
            }
        }
        Err(ApiError::storage(unknown))
    }
}
