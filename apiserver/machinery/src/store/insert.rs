//! The last step of a create: the object is stored, if there is none of its name and its namespace is as it was.

use bytes::Bytes;
use serde_json::Value;
use storage_contract::{Key, Revision, StoreError, StoreResult, Unchanged};

use super::namespaces::Place;
use super::{Kind, ObjectStore, Origin, Stored};
use crate::object;
use crate::status::{ApiError, ApiResult};

/// Changes of a namespace in a row, each just before the object was stored, before a create gives up. Nobody changes
/// namespaces so often.
const ATTEMPTS: usize = 8;

impl ObjectStore {
    /// Stores a new object; the answer has its revision.
    pub(super) async fn insert(
        &self,
        kind: Kind<'_>,
        key: &Key,
        place: &Place<'_>,
        mut object: Value,
        origin: Origin,
    ) -> ApiResult<Stored> {
        let mut unchanged = place.unchanged.clone();
        for _ in 0..ATTEMPTS {
            let outcome = self.try_insert(kind, key, &mut object, origin, unchanged.as_ref()).await?;
            match outcome {
                Ok((revision, json)) => {
                    object::set_revision(&mut object, revision);
                    return Ok(Stored { object, json });
                }
                Err(StoreError::Exists { .. }) => return Err(self.refuse_second(kind, key, &object).await),
                Err(StoreError::Conflict { .. }) => {
                    let name = object::name(&object);
                    unchanged = self.place_as_stored(kind, place.namespace, name).await?.unchanged;
                }
                Err(unknown @ StoreError::Unknown { .. }) => {
                    return self.settle_create(kind, key, &object, &unknown).await.map(Stored::seen);
                }
                Err(error) => return Err(ApiError::storage(&error)),
            }
        }
        Err(ApiError::unavailable(format!(
            "namespace {:?} changes all the time; nothing was created",
            place.namespace
        )))
    }

    /// An object that a client sent is stored without its owners when it is too large with them.
    async fn try_insert(
        &self,
        kind: Kind<'_>,
        key: &Key,
        object: &mut Value,
        origin: Origin,
        unchanged: Option<&Unchanged>,
    ) -> ApiResult<StoreResult<(Revision, Option<Bytes>)>> {
        let create = async |object: &Value| {
            let prepared = self.encode(kind, key, object)?;
            let value = prepared.value.clone();
            let write = self.store.create_while(key, value, unchanged);
            ApiResult::Ok(self.send(kind, key, prepared, write).await)
        };
        let outcome = create(object).await?;
        if !matches!(outcome, Err(StoreError::TooLarge { .. })) || origin != Origin::Sent {
            return Ok(outcome);
        }
        object::remove_meta(object, "managedFields");
        create(object).await
    }

    /// What to say when there is an object of that name.
    async fn refuse_second(&self, kind: Kind<'_>, key: &Key, object: &Value) -> ApiError {
        match self.read(kind, key).await {
            Ok(Some((existing, _))) => exists(kind, &existing),
            // Gone since; it was there, and nothing was created.
            Ok(None) => ApiError::already_exists(kind.resource, object::name(object), false),
            Err(error) => error,
        }
    }
}

/// The refusal to create what is there.
pub(super) fn exists(kind: Kind<'_>, existing: &Value) -> ApiError {
    ApiError::already_exists(kind.resource, object::name(existing), object::is_deleting(existing))
}
