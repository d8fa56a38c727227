//! Own writes: writes of this process that the watch will report to the cache.
//!
//! A write has encoded the object already. The cache would decode the reported value and encode it again. Instead it
//! takes the JSON of the write, if the reported bytes are those that were sent.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::Value;
use storage_contract::{Key, Revision};

use super::object_json::ObjectJson;
use super::selectable::Selectable;
use crate::resource::Resource;
use crate::store::CachedObject;

/// Maximum number of writes that are recorded. It exceeds the usual number of writes in flight; without a limit they
/// would accumulate while the watch is interrupted.
const CAPACITY: usize = 1024;

/// An object that is ready to be stored.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The bytes for the store.
    pub(crate) value: Bytes,
    pub(crate) object_json: ObjectJson,
    selectable: Selectable,
}

impl Prepared {
    pub(crate) fn new(resource: &Resource, stored: &Value, object_json: ObjectJson, value: Bytes) -> Self {
        Self { value, object_json, selectable: Selectable::of(resource, stored) }
    }

    /// Returns the cached object once the write has its revision.
    fn into_cached(self, revision: Revision) -> CachedObject {
        CachedObject::of_json(&self.object_json, revision, self.selectable)
    }
}

/// A write in flight. It is withdrawn if it fails, or if its request is dropped.
#[derive(Debug)]
pub(crate) struct Announced<'a> {
    all: &'a OwnWrites,
    key: &'a Key,
    is_written: bool,
}

impl Announced<'_> {
    /// Keeps the record: the watch will report the write.
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
    /// Records a write that is about to be sent.
    pub(crate) fn announce<'a>(&'a self, key: &'a Key, prepared: Prepared) -> Announced<'a> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < CAPACITY || all.contains_key(key) {
            all.insert(key.clone(), prepared);
        }
        Announced { all: self, key, is_written: false }
    }

    /// Returns the cached object of an entry that the watch reports, if this process wrote it.
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
