//! Conversion between objects and the bytes of the store.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use storage_contract::{Entry, Key, Revision, StoreResult};

use super::object_json::ObjectJson;
use super::own_writes::Prepared;
use super::raw_field::RawField;
use crate::encryption::{Encryption, EncryptionError};
use crate::object;
use crate::resource::{Registry, Resource};
use crate::status::{ApiError, ApiResult};
use crate::store::{CachedObject, Kind, ObjectStore, text};

impl ObjectStore {
    /// Converts a stored entry into a cached object, in the request's version.
    pub(crate) fn project(&self, kind: Kind<'_>, entry: &Entry) -> Arc<CachedObject> {
        Arc::new(CachedObject::of_entry(&self.registry, kind.stored, &self.encryption, entry))
            .view(kind.resource)
    }

    /// Reads an object from the store, decoded and defaulted, with its entry.
    pub(crate) async fn read(&self, kind: Kind<'_>, key: &Key) -> ApiResult<Option<(Value, Entry)>> {
        let entry = self.store.get(key).await.map_err(|error| ApiError::storage(&error))?;
        let Some(entry) = entry else { return Ok(None) };
        let object = self.decode(kind, &entry)?;
        Ok(Some((object, entry)))
    }

    /// Decodes an entry, in the request's version.
    pub(crate) fn decode(&self, kind: Kind<'_>, entry: &Entry) -> ApiResult<Value> {
        // A plug-in of a key management system may answer again, and a key that is missing may be added.
        let plain = open(kind.stored, &self.encryption, entry).map_err(|error| match error.may_pass() {
            true => ApiError::unavailable(error.to_string()),
            false => ApiError::internal(error.to_string()),
        })?;
        let object = decode(&self.registry, kind.stored, entry, &plain).map_err(ApiError::internal)?;
        kind.served(object)
    }

    /// Returns true if an entry has the form that a write would give it now: this version, this encryption key.
    pub(crate) fn is_current(&self, kind: Kind<'_>, entry: &Entry) -> bool {
        let plain = open(kind.stored, &self.encryption, entry).map_err(|error| error.to_string());
        let stored = plain.and_then(|plain| parse(entry, &plain));
        self.encryption.is_current(&kind.resource.qualified_plural(), &entry.value)
            && stored.is_ok_and(|stored| text(&stored, "apiVersion") == kind.stored.api_version())
    }

    /// Encodes an object with serialized field managers for the store. The untouched field is included.
    pub(crate) fn encode(
        &self,
        kind: Kind<'_>,
        key: &Key,
        object: &Value,
        untouched: Option<&RawField>,
    ) -> ApiResult<Prepared> {
        let stored = kind.as_stored(object)?;
        let internal = |error: &dyn std::fmt::Display| ApiError::internal(error.to_string());
        let object_json = ObjectJson::of_serialized(&stored, untouched).map_err(|error| internal(&error))?;
        let sealed =
            self.encryption.seal(&kind.resource.qualified_plural(), key.as_str(), object_json.json.clone());
        // A plug-in of a key management system may answer again, and a key that is missing may be added.
        let value = sealed.map_err(|error| match error.is_temporary() {
            true => ApiError::unavailable(error.to_string()),
            false => internal(&error),
        })?;
        Ok(Prepared::new(kind.stored, &stored, object_json, value))
    }

    /// Sends a write, and announces it to the cache.
    pub(crate) async fn send(
        &self,
        key: &Key,
        prepared: Prepared,
        write: impl Future<Output = StoreResult<Revision>> + Send,
    ) -> StoreResult<Revision> {
        let announced = self.own_writes.announce(key, prepared);
        let revision = write.await?;
        announced.written();
        Ok(revision)
    }
}

/// Decrypts the bytes of a stored entry. The error names the key.
pub(crate) fn open(
    resource: &Resource,
    encryption: &Encryption,
    entry: &Entry,
) -> Result<Bytes, EncryptionError> {
    encryption.open(&resource.qualified_plural(), entry.key.as_str(), &entry.value)
}

/// Parses the decrypted bytes. The error names the key.
fn parse(entry: &Entry, plain: &Bytes) -> Result<Value, String> {
    serde_json::from_slice(plain).map_err(|error| format!("{} cannot be decoded: {error}", entry.key))
}

/// Decodes a stored entry, in the version that is stored now, defaulted, with its revision. It may have been written
/// when another version was stored. The error names the key.
pub(crate) fn decode(
    registry: &Registry,
    resource: &Resource,
    entry: &Entry,
    plain: &Bytes,
) -> Result<Value, String> {
    let mut object = parse(entry, plain)?;
    let version = text(&object, "apiVersion");
    if version != resource.api_version() {
        let of_then = |other: &&Arc<Resource>| {
            other.group == resource.group && other.plural == resource.plural && other.api_version() == version
        };
        let then = registry.resources().iter().find(of_then).and_then(|then| then.conversion.as_ref());
        let conversion = then.ok_or_else(|| {
            format!("{} is stored as {version:?}, which is no version of {} here", entry.key, resource.kind)
        })?;
        object = conversion.stored(object).map_err(|error| format!("{}: {error}", entry.key))?;
    }
    resource.schema.fill_in(&mut object);
    object::set_revision(&mut object, entry.modified);
    Ok(object)
}
