//! Last step of a create: stores the object, if its name is free and its namespace is unchanged.

use serde_json::Value;
use storage_contract::{Key, Revision, StoreError, StoreResult, Unchanged};

use super::namespaces::NamespaceState;
use super::outcome::PendingWrite;
use crate::object;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, ObjectStore, Origin, WrittenObject};

/// Number of changes of a namespace in a row, each just before the object is stored, before a create fails. No client
/// changes namespaces so often.
const ATTEMPTS: usize = 8;

impl ObjectStore {
    /// Stores a new object; returns it with its revision.
    pub(crate) async fn insert(
        &self,
        kind: Kind<'_>,
        key: &Key,
        namespace: &NamespaceState<'_>,
        mut object: Value,
        origin: Origin,
    ) -> ApiResult<WrittenObject> {
        let mut unchanged = namespace.unchanged.clone();
        for _ in 0..ATTEMPTS {
            let (outcome, pending) = self.try_insert(kind, key, object, origin, unchanged.as_ref()).await?;
            match outcome {
                Ok(revision) => return Ok(pending.at(revision)),
                Err(StoreError::Exists { .. }) => {
                    return Err(self.already_exists(kind, key, &pending.into_value()?).await);
                }
                Err(StoreError::Conflict { .. }) => {
                    object = pending.into_value()?;
                    let name = object::name(&object);
                    unchanged = self.stored_namespace_state(kind, namespace.name, name).await?.unchanged;
                }
                Err(unknown @ StoreError::Unknown { .. }) => {
                    let created = self.resolve_create(kind, key, &pending.into_value()?, &unknown).await;
                    return created.map(WrittenObject::Tree);
                }
                Err(error) => return Err(ApiError::storage(&error)),
            }
        }
        Err(ApiError::unavailable(format!(
            "namespace {:?} changes all the time; nothing was created",
            namespace.name
        )))
    }

    /// Encodes and stores the object. If it is too large with its field managers, an object that a client sent is
    /// stored without them.
    async fn try_insert(
        &self,
        kind: Kind<'_>,
        key: &Key,
        object: Value,
        origin: Origin,
        unchanged: Option<&Unchanged>,
    ) -> ApiResult<(StoreResult<Revision>, PendingWrite)> {
        let create = async |object: Value| {
            let prepared = self.encode(kind, key, &object, None)?;
            let pending = PendingWrite::new(kind, object, &prepared.object_json);
            let write = self.store.create_while(key, prepared.value.clone(), unchanged);
            ApiResult::Ok((self.send(key, prepared, write).await, pending))
        };
        let (outcome, pending) = create(object).await?;
        if !matches!(outcome, Err(StoreError::TooLarge { .. })) || origin != Origin::Sent {
            return Ok((outcome, pending));
        }
        let mut smaller = pending.into_value()?;
        object::remove_meta(&mut smaller, "managedFields");
        create(smaller).await
    }

    /// Returns the error of a create whose name is taken.
    async fn already_exists(&self, kind: Kind<'_>, key: &Key, object: &Value) -> ApiError {
        match self.read(kind, key).await {
            Ok(Some((existing, _))) => exists(kind, &existing),
            // It is gone by now, but nothing was created.
            Ok(None) => ApiError::already_exists(kind.resource, object::name(object), false),
            Err(error) => error,
        }
    }
}

/// Returns the error of a create whose name is taken by `existing`.
pub(crate) fn exists(kind: Kind<'_>, existing: &Value) -> ApiError {
    ApiError::already_exists(kind.resource, object::name(existing), object::is_deleting(existing))
}
