//! Copy of entries into a store. A copy that was interrupted can be repeated.

use bytes::Bytes;
use futures::future::join_all;
use storage_contract::{Entry, Key, KeyRange, ListOptions, Revision, Store, StoreError};

use crate::{BackupError, INCARNATION, ROOT, Scan, is_portable};

/// Writes that are in flight at a time: an etcd takes so many in one transaction.
const AT_A_TIME: usize = 100;

/// Most bytes of values in flight.
const BYTES: usize = 4 * 1024 * 1024;

/// Result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copied {
    /// Entries that the copy wrote.
    pub written: u64,
    /// Entries that the target had already, from an earlier attempt.
    pub present: u64,
}

/// First difference between two stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Only the first store has the key.
    Missing(Key),
    /// Only the second store has the key.
    Additional(Key),
    /// The values of the key differ.
    Value(Key),
}

/// Copies all portable entries into a store. `next` returns one after the other.
///
/// # Errors
/// `Differs`, if the store has another value for a key; the errors of `next` and of the store.
pub async fn copy_in(
    store: &dyn Store,
    mut next: impl AsyncFnMut() -> Result<Option<Entry>, BackupError>,
) -> Result<Copied, BackupError> {
    let mut copied = Copied::default();
    loop {
        let (mut batch, mut bytes, mut is_last) = (Vec::new(), 0, false);
        while batch.len() < AT_A_TIME && bytes < BYTES {
            let Some(entry) = next().await? else {
                is_last = true;
                break;
            };
            if is_portable(entry.key.as_str()) {
                bytes += entry.value.len();
                batch.push(entry);
            }
        }
        for result in join_all(batch.iter().map(|entry| put(store, &entry.key, &entry.value))).await {
            if result? {
                copied.written += 1;
            } else {
                copied.present += 1;
            }
        }
        if is_last {
            return Ok(copied);
        }
    }
}

/// Writes a value unless the key has it already. Returns true if it wrote.
async fn put(store: &dyn Store, key: &Key, value: &Bytes) -> Result<bool, BackupError> {
    let error = match store.create(key, value.clone()).await {
        Ok(_) => return Ok(true),
        Err(error @ (StoreError::Exists { .. } | StoreError::Unknown { .. })) => error,
        Err(error) => return Err(error.into()),
    };
    match store.get(key).await? {
        Some(found) if found.value == *value => Ok(false),
        Some(_) => Err(BackupError::Differs { key: key.clone() }),
        None => Err(error.into()),
    }
}

/// Moves all entries of a store except the record of its incarnation to keys with the prefix `aside`. Returns their
/// number.
///
/// # Errors
/// The store's. A second call continues.
pub async fn move_aside(store: &dyn Store, aside: &str) -> Result<u64, BackupError> {
    let mut range = KeyRange::prefix(ROOT);
    let mut moved = 0;
    loop {
        let page = store.list(&range, &ListOptions { limit: AT_A_TIME, revision: None }).await?;
        let entries = page.entries.iter().filter(|entry| entry.key.as_str() != INCARNATION);
        for result in join_all(entries.map(|entry| move_one(store, entry, aside))).await {
            result?;
            moved += 1;
        }
        match page.entries.last() {
            Some(last) if page.remaining > 0 => range = range.after(last.key.as_bytes()),
            _ => return Ok(moved),
        }
    }
}

async fn move_one(store: &dyn Store, entry: &Entry, aside: &str) -> Result<(), BackupError> {
    let name = entry.key.as_str().strip_prefix(ROOT).unwrap_or_default();
    let target = Key::new(format!("{aside}{name}"));
    let target = target.map_err(|error| StoreError::Corrupt { detail: error.to_string() })?;
    put(store, &target, &entry.value).await?;
    match store.delete(&entry.key, entry.modified).await {
        // An earlier attempt removed it, and its answer was lost.
        Ok(_) | Err(StoreError::Conflict { found: Revision::NONE, .. }) => Ok(()),
        Err(StoreError::Conflict { key, .. }) => Err(BackupError::Differs { key }),
        Err(error) => Err(error.into()),
    }
}

/// Compares the portable entries of two scans, keys and values. Returns the number of equal ones, and the first
/// difference.
///
/// # Errors
/// Those of the stores.
pub async fn compare(
    mut first: impl AsyncFnMut() -> Result<Option<Entry>, BackupError>,
    second: &mut Scan<'_>,
) -> Result<(u64, Option<Difference>), BackupError> {
    let mut equal = 0;
    loop {
        let left = loop {
            match first().await? {
                Some(entry) if !is_portable(entry.key.as_str()) => {}
                other => break other,
            }
        };
        let right = loop {
            match second.next().await? {
                Some(entry) if !is_portable(entry.key.as_str()) => {}
                other => break other,
            }
        };
        let difference = match (left, right) {
            (None, None) => return Ok((equal, None)),
            (Some(left), Some(right)) if left.key == right.key && left.value == right.value => {
                equal += 1;
                continue;
            }
            (Some(left), Some(right)) if left.key == right.key => Difference::Value(left.key),
            (Some(left), Some(right)) if left.key < right.key => Difference::Missing(left.key),
            (Some(left), None) => Difference::Missing(left.key),
            (_, Some(right)) => Difference::Additional(right.key),
        };
        return Ok((equal, Some(difference)));
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing(key) => write!(f, "{key} is missing in the target"),
            Self::Additional(key) => write!(f, "{key} is only in the target"),
            Self::Value(key) => write!(f, "{key} has another value in the target"),
        }
    }
}
