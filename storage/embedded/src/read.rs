//! Reads: each in one snapshot of the database.

use bytes::Bytes;
use redb::{Database, ReadOnlyTable, ReadTransaction, ReadableDatabase};
use storage_contract::{Entry, Key, KeyRange, ListOptions, Page, Revision, StoreError, StoreResult};

use crate::layout::{At, COMPACTED, CURRENT, HISTORY, META, REVISION, Written, key, unreadable};

/// The history, opened in one snapshot.
pub(crate) type History = ReadOnlyTable<At<'static>, Written<'static>>;

pub(crate) fn current_revision(database: &Database) -> StoreResult<Revision> {
    let transaction = database.begin_read().map_err(|e| unreadable("current revision", e))?;
    number(&transaction, REVISION)
}

pub(crate) fn compacted(database: &Database) -> StoreResult<Revision> {
    let transaction = database.begin_read().map_err(|e| unreadable("watch", e))?;
    number(&transaction, COMPACTED)
}

pub(crate) fn number(transaction: &ReadTransaction, name: &str) -> StoreResult<Revision> {
    let meta = transaction.open_table(META).map_err(|e| unreadable("read", e))?;
    let found = meta.get(name).map_err(|e| unreadable("read", e))?;
    let found = found.ok_or_else(|| StoreError::Corrupt { detail: format!("{name} is missing") })?;
    Ok(Revision::new(found.value()))
}

pub(crate) fn get(database: &Database, key: &Key) -> StoreResult<Option<Entry>> {
    let transaction = database.begin_read().map_err(|e| unreadable("get", e))?;
    let current = transaction.open_table(CURRENT).map_err(|e| unreadable("get", e))?;
    let Some(found) = current.get(key.as_bytes()).map_err(|e| unreadable("get", e))? else { return Ok(None) };
    let (modified, _) = found.value();
    written(&history(&transaction)?, key.as_bytes(), modified)
}

pub(crate) fn history(transaction: &ReadTransaction) -> StoreResult<History> {
    transaction.open_table(HISTORY).map_err(|e| unreadable("read", e))
}

/// What was written to `bytes` at exactly `revision`; `None` for a deletion.
pub(crate) fn written(history: &History, bytes: &[u8], revision: u64) -> StoreResult<Option<Entry>> {
    let found = history.get((bytes, revision)).map_err(|e| unreadable("read", e))?;
    let found = found.ok_or_else(|| StoreError::Corrupt {
        detail: format!("{} at revision {revision} is missing", String::from_utf8_lossy(bytes)),
    })?;
    let (created, value) = found.value();
    entry(bytes, revision, created, value)
}

/// The last thing written to `bytes` before `revision`, if history still has it and it was no deletion.
pub(crate) fn before(history: &History, bytes: &[u8], revision: u64) -> StoreResult<Option<Entry>> {
    let mut range = history.range((bytes, 0)..(bytes, revision)).map_err(|e| unreadable("read", e))?;
    let Some(last) = range.next_back() else { return Ok(None) };
    let (at, found) = last.map_err(|e| unreadable("read", e))?;
    let (created, value) = found.value();
    entry(bytes, at.value().1, created, value)
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

pub(crate) fn list(database: &Database, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
    let transaction = database.begin_read().map_err(|e| unreadable("list", e))?;
    let newest = number(&transaction, REVISION)?;
    let oldest = number(&transaction, COMPACTED)?;
    let revision = options.revision.unwrap_or(newest);
    if revision > newest {
        return Err(StoreError::Future { requested: revision, current: newest });
    }
    if revision < oldest {
        return Err(StoreError::Compacted { requested: revision, oldest });
    }
    let history = history(&transaction)?;
    let limit = if options.limit == 0 { usize::MAX } else { options.limit };
    let mut page = Page { entries: Vec::new(), revision, remaining: 0 };
    let mut take = |entry: &mut dyn FnMut() -> StoreResult<Option<Entry>>| -> StoreResult<()> {
        if page.entries.len() < limit {
            page.entries.extend(entry()?);
        } else {
            page.remaining += 1;
        }
        Ok(())
    };
    if revision == newest {
        let current = transaction.open_table(CURRENT).map_err(|e| unreadable("list", e))?;
        let found = current.range(range.start.as_slice()..range.end.as_slice());
        for item in found.map_err(|e| unreadable("list", e))? {
            let (bytes, at) = item.map_err(|e| unreadable("list", e))?;
            let (modified, _) = at.value();
            take(&mut || written(&history, bytes.value(), modified))?;
        }
    } else {
        for (bytes, modified) in existing_at(&history, range, revision)? {
            take(&mut || written(&history, &bytes, modified))?;
        }
    }
    Ok(page)
}

/// The keys that existed at `revision`, with the revision each then had.
fn existing_at(history: &History, range: &KeyRange, revision: Revision) -> StoreResult<Vec<(Vec<u8>, u64)>> {
    let found = history.range((range.start.as_slice(), 0)..(range.end.as_slice(), 0));
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
    Ok(newest
        .into_iter()
        .filter(|(_, _, exists)| *exists)
        .map(|(bytes, modified, _)| (bytes, modified))
        .collect())
}
