//! Guarded writes: each happens only if its guard holds.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use storage_contract::{Key, Revision, StoreError, StoreResult, Unchanged};

use crate::LARGEST_VALUE;
use crate::journal::Record;
use crate::memtable::Shared;

/// One guarded write.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) operation: &'static str,
    pub(crate) key: Key,
    /// `None`: the key must not exist.
    expected: Option<Revision>,
    /// `None`: the key is removed.
    pub(crate) value: Option<Bytes>,
    /// Another key that must be unchanged since it was read.
    unchanged: Option<Unchanged>,
}

impl Change {
    pub(crate) fn create(key: &Key, value: Bytes, unchanged: Option<&Unchanged>) -> StoreResult<Self> {
        let (value, unchanged) = (Some(checked(key, value)?), unchanged.cloned());
        Ok(Self { operation: "create", key: key.clone(), expected: None, value, unchanged })
    }

    pub(crate) fn update(key: &Key, expected: Revision, value: Bytes) -> StoreResult<Self> {
        let value = Some(checked(key, value)?);
        Ok(Self { operation: "update", key: key.clone(), expected: Some(expected), value, unchanged: None })
    }

    pub(crate) fn delete(key: &Key, expected: Revision) -> Self {
        Self { operation: "delete", key: key.clone(), expected: Some(expected), value: None, unchanged: None }
    }
}

fn checked(key: &Key, value: Bytes) -> StoreResult<Bytes> {
    if value.len() > LARGEST_VALUE {
        return Err(StoreError::TooLarge { key: key.clone(), size: value.len(), limit: LARGEST_VALUE });
    }
    Ok(value)
}

/// Results of the changes of a batch, each as if those before it had happened.
pub(crate) struct Evaluated<'s> {
    shared: &'s Shared,
    /// Newest revision before the batch.
    newest: Revision,
    pub(crate) results: Vec<StoreResult<Revision>>,
    pub(crate) records: Vec<Record>,
    /// Index in `records` of the last write to each key.
    last: HashMap<Key, usize>,
}

impl<'s> Evaluated<'s> {
    pub(crate) fn all(shared: &'s Shared, changes: &[Change]) -> Result<Self, redb::Error> {
        let (newest, results) = (shared.state().newest(), Vec::with_capacity(changes.len()));
        let mut evaluated = Self { shared, newest, results, records: Vec::new(), last: HashMap::new() };
        for change in changes {
            let result = evaluated.evaluate(change)?;
            evaluated.results.push(result);
        }
        Ok(evaluated)
    }

    /// Returns the revisions of the last write to `key` and of its creation; the latter is none if the key does not
    /// exist.
    fn found(&self, key: &Key) -> Result<(Revision, Revision), redb::Error> {
        if let Some(staged) = self.last.get(key).and_then(|at| self.records.get(*at)) {
            return Ok(staged.found());
        }
        let snapshot = {
            let state = self.shared.state();
            if let Some(record) = state.last(key) {
                return Ok(record.found());
            }
            Arc::clone(&state.snapshot)
        };
        let (modified, created) = snapshot.current(key.as_bytes())?.unwrap_or_default();
        Ok((Revision::new(modified), Revision::new(created)))
    }

    /// Adds the record of one change, if its guard holds.
    fn evaluate(&mut self, change: &Change) -> Result<StoreResult<Revision>, redb::Error> {
        let (found, created) = self.found(&change.key)?;
        let key = change.key.clone();
        match change.expected {
            None if found != Revision::NONE => return Ok(Err(StoreError::Exists { key, found })),
            // An update that expects no revision does not create.
            Some(expected) if found != expected || found == Revision::NONE => {
                return Ok(Err(StoreError::Conflict { key, expected, found }));
            }
            _ => {}
        }
        if let Some(Unchanged { key, modified: expected }) = &change.unchanged {
            let (key, expected) = (key.clone(), *expected);
            let (found, _) = self.found(&key)?;
            if found != expected {
                return Ok(Err(StoreError::Conflict { key, expected, found }));
            }
        }
        let revision = self.records.last().map_or(self.newest, |record| record.revision).next();
        let created = if found == Revision::NONE { revision } else { created };
        self.last.insert(key.clone(), self.records.len());
        self.records.push(Record { key, revision, created, previous: found, value: change.value.clone() });
        Ok(Ok(revision))
    }
}

impl Record {
    /// Returns the revisions that a guard finds after this record.
    fn found(&self) -> (Revision, Revision) {
        if self.value.is_some() { (self.revision, self.created) } else { (Revision::NONE, Revision::NONE) }
    }
}
