//! Reads, each from a snapshot at one revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase};
use storage_contract::{Entry, Key, KeyRange, ListOptions, Page, Revision, StoreError, StoreResult};

use crate::journal::Record;
use crate::layout::{At, COMPACTED, CURRENT, HISTORY, LOG, META, REVISION, Written, key, unreadable};
use crate::memtable::Shared;

/// Snapshot of the database at one revision.
pub(crate) struct Snapshot {
    /// Revision of the last write in it.
    pub(crate) revision: Revision,
    /// Revision before which history is compacted.
    pub(crate) compacted: Revision,
    current: ReadOnlyTable<&'static [u8], (u64, u64)>,
    history: ReadOnlyTable<At<'static>, Written<'static>>,
    pub(crate) log: ReadOnlyTable<u64, &'static [u8]>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("revision", &self.revision)
            .field("compacted", &self.compacted)
            .finish()
    }
}

impl Snapshot {
    /// Opens a snapshot of the current database.
    pub(crate) fn of(database: &Database) -> Result<Self, redb::Error> {
        let transaction = database.begin_read()?;
        Ok(Self {
            revision: number(&transaction, REVISION)?,
            compacted: number(&transaction, COMPACTED)?,
            current: transaction.open_table(CURRENT)?,
            history: transaction.open_table(HISTORY)?,
            log: transaction.open_table(LOG)?,
        })
    }

    /// Returns the revisions of the last write to a key and of its creation, if it exists.
    pub(crate) fn current(&self, key: &[u8]) -> Result<Option<(u64, u64)>, redb::Error> {
        Ok(self.current.get(key)?.map(|found| found.value()))
    }

    fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        match self.current(key.as_bytes()).map_err(|e| unreadable("get", e))? {
            Some((modified, _)) => self.written(key.as_bytes(), modified),
            None => Ok(None),
        }
    }

    /// Returns the entry written to `bytes` at exactly `revision`; `None` for a deletion.
    pub(crate) fn written(&self, bytes: &[u8], revision: u64) -> StoreResult<Option<Entry>> {
        let found = self.history.get((bytes, revision)).map_err(|e| unreadable("read", e))?;
        let found = found.ok_or_else(|| StoreError::Corrupt {
            detail: format!("{} at revision {revision} is missing", String::from_utf8_lossy(bytes)),
        })?;
        let (created, value) = found.value();
        entry(bytes, revision, created, value)
    }

    /// Returns the last entry written to `bytes` before `revision`, if history still has it and it was no deletion.
    pub(crate) fn before(&self, bytes: &[u8], revision: u64) -> StoreResult<Option<Entry>> {
        let mut range =
            self.history.range((bytes, 0)..(bytes, revision)).map_err(|e| unreadable("read", e))?;
        let Some(last) = range.next_back() else { return Ok(None) };
        let (at, found) = last.map_err(|e| unreadable("read", e))?;
        let (created, value) = found.value();
        entry(bytes, at.value().1, created, value)
    }

    /// Returns the keys of `range` that existed at `revision`, each with the revision that it had then.
    fn existing(&self, range: &KeyRange, revision: Revision) -> StoreResult<Vec<(Vec<u8>, u64)>> {
        if revision < self.revision {
            return self.existing_at(range, revision);
        }
        let found = self.current.range(range.start.as_slice()..range.end.as_slice());
        let mut existing = Vec::new();
        for item in found.map_err(|e| unreadable("list", e))? {
            let (bytes, at) = item.map_err(|e| unreadable("list", e))?;
            existing.push((bytes.value().to_vec(), at.value().0));
        }
        Ok(existing)
    }

    fn existing_at(&self, range: &KeyRange, revision: Revision) -> StoreResult<Vec<(Vec<u8>, u64)>> {
        let found = self.history.range((range.start.as_slice(), 0)..(range.end.as_slice(), 0));
        let mut newest: Vec<(Vec<u8>, u64, bool)> = Vec::new();
        for item in found.map_err(|e| unreadable("list", e))? {
            let (at, what) = item.map_err(|e| unreadable("list", e))?;
            let (bytes, modified) = at.value();
            if modified > revision.number() {
                continue;
            }
            let exists = what.value().1.is_some();
            match newest.last_mut() {
                Some(last) if last.0 == bytes => *last = (bytes.to_vec(), modified, exists),
                _ => newest.push((bytes.to_vec(), modified, exists)),
            }
        }
        let existing = newest.into_iter().filter(|(_, _, exists)| *exists);
        Ok(existing.map(|(bytes, modified, _)| (bytes, modified)).collect())
    }
}

fn number(transaction: &ReadTransaction, name: &str) -> Result<Revision, redb::Error> {
    let found = transaction.open_table(META)?.get(name)?;
    let found = found.ok_or_else(|| redb::Error::Corrupted(format!("{name} is missing")))?;
    Ok(Revision::new(found.value()))
}

fn entry(bytes: &[u8], revision: u64, created: u64, value: Option<&[u8]>) -> StoreResult<Option<Entry>> {
    let Some(value) = value else { return Ok(None) };
    Ok(Some(Entry {
        key: key(bytes)?,
        value: Bytes::copy_from_slice(value),
        modified: Revision::new(revision),
        created: Revision::new(created),
    }))
}

pub(crate) fn get(shared: &Shared, key: &Key) -> StoreResult<Option<Entry>> {
    let snapshot = {
        let state = shared.state();
        if let Some(record) = state.last(key) {
            return Ok(record.entry());
        }
        Arc::clone(&state.snapshot)
    };
    snapshot.get(key)
}

pub(crate) fn list(shared: &Shared, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
    let (snapshot, recent, revision) = {
        let state = shared.state();
        let (newest, oldest) = (state.newest(), state.snapshot.compacted);
        let revision = options.revision.unwrap_or(newest);
        if revision > newest {
            return Err(StoreError::Future { requested: revision, current: newest });
        }
        if revision < oldest {
            return Err(StoreError::Compacted { requested: revision, oldest });
        }
        (Arc::clone(&state.snapshot), state.written(range, revision), revision)
    };
    let checkpointed = snapshot.existing(range, revision)?.into_iter();
    let mut found: BTreeMap<Vec<u8>, Found> =
        checkpointed.map(|(key, modified)| (key, Found::Checkpointed(modified))).collect();
    for record in recent {
        let key = record.key.as_bytes();
        match record.value {
            Some(_) => found.insert(key.to_vec(), Found::Recent(Arc::clone(&record))),
            None => found.remove(key),
        };
    }
    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    let remaining = u64::try_from(found.len().saturating_sub(limit)).unwrap_or(u64::MAX);
    let entries = found.iter().take(limit).filter_map(|(key, found)| found.read(&snapshot, key).transpose());
    Ok(Page { entries: entries.collect::<StoreResult<_>>()?, revision, remaining })
}

/// Key found by a list, before its value is read.
enum Found {
    /// In the database, written at this revision.
    Checkpointed(u64),
    /// Written since.
    Recent(Arc<Record>),
}

impl Found {
    fn read(&self, snapshot: &Snapshot, key: &[u8]) -> StoreResult<Option<Entry>> {
        match self {
            Self::Recent(record) => Ok(record.entry()),
            Self::Checkpointed(modified) => snapshot.written(key, *modified),
        }
    }
}
