//! Writes of ours that the cache is about to be told of.
//!
//! Whoever writes has the object decoded and its JSON written already. The cache would decode what comes back from the
//! store and write it again; instead it takes what was written, if the bytes that come back are those that were sent.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use storage_contract::{Key, Revision};

use super::object_json::ObjectJson;
use super::selectable::Selectable;
use crate::resource::Resource;
use crate::store::CachedObject;

/// Writes that are remembered at most. As many as are under way at a time are needed; while the cache is not told
/// anything they would become more and more.
const CAPACITY: usize = 1024;

/// An object as it is about to be stored.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// What the store is given.
    pub(crate) value: Bytes,
    pub(crate) object_json: ObjectJson,
    selectable: Selectable,
}

impl Prepared {
    pub(crate) fn new(resource: &Resource, stored: &Value, object_json: ObjectJson, value: Bytes) -> Self {
        Self { value, object_json, selectable: Selectable::of(resource, stored) }
    }

    /// What the cache shows once the object is stored.
    fn into_cached(self, revision: Revision) -> CachedObject {
        CachedObject::of_json(&self.object_json, revision, self.selectable)
    }
}

/// A write that is under way. It is withdrawn if it fails, and if nobody waits any more for what comes of it.
#[derive(Debug)]
pub(crate) struct Announced<'a> {
    all: &'a OwnWrites,
    key: &'a Key,
    is_written: bool,
}

impl Announced<'_> {
    /// The cache will hear of it.
    pub(crate) fn written(mut self) {
        self.is_written = true;
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        if !self.is_written {
            self.all.0.lock().unwrap_or_else(PoisonError::into_inner).remove(self.key);
        }
    }
}

/// The writes by their keys.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites(Mutex<HashMap<Key, Prepared>>);

impl OwnWrites {
    /// A write is about to be sent.
    pub(crate) fn announce<'a>(&'a self, key: &'a Key, prepared: Prepared) -> Announced<'a> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < CAPACITY || all.contains_key(key) {
            all.insert(key.clone(), prepared);
        }
        Announced { all: self, key, is_written: false }
    }

    /// What the cache shows of an entry that came from the store, if it was written here.
    pub(crate) fn take(&self, key: &Key, value: &Bytes, revision: Revision) -> Option<CachedObject> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(key)?.value != *value {
            return None;
        }
        let prepared = all.remove(key)?;
        drop(all);
        Some(prepared.into_cached(revision))
    }
}
