//! Cache of one resource: its items and their recent changes.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use rpds::RedBlackTreeMapSync;
use storage_contract::{KeyRange, Revision};

use crate::history::{Change, History};

/// Items by key, as of one revision. A clone costs a pointer.
#[derive(Debug)]
pub struct Snapshot<T> {
    /// The items in key order.
    pub items: RedBlackTreeMapSync<Arc<str>, Arc<T>>,
    /// Revision up to which the items are complete.
    pub revision: Revision,
}

impl<T> Clone for Snapshot<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), revision: self.revision }
    }
}

impl<T> Snapshot<T> {
    fn empty() -> Self {
        Self { items: RedBlackTreeMapSync::new_sync(), revision: Revision::NONE }
    }

    /// Returns the items whose keys lie in `[start, end)`, in key order.
    pub fn range<'a>(
        &'a self,
        start: &'a str,
        end: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<T>)> {
        self.items.range::<str, _>((std::ops::Bound::Included(start), std::ops::Bound::Excluded(end)))
    }

    /// Returns the item with this key.
    pub fn get(&self, key: &str) -> Option<&Arc<T>> {
        self.items.get(key)
    }
}

#[derive(Debug)]
pub(crate) struct Contents<T> {
    pub(crate) snapshot: Snapshot<T>,
    pub(crate) history: History<T>,
}

/// End of a resource cache's history.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    /// Revision of the last change, or of the list that the history began with.
    pub(crate) revision: Revision,
    /// Number of the list that the history began with.
    pub(crate) epoch: u64,
}

/// One resource's items and their recent changes.
#[derive(Debug)]
pub struct ResourceCache<T> {
    prefix: String,
    range: KeyRange,
    contents: RwLock<Contents<T>>,
}

impl<T> ResourceCache<T> {
    pub(crate) fn new(prefix: &str) -> Self {
        let contents = Contents { snapshot: Snapshot::empty(), history: History::default() };
        Self { prefix: prefix.to_owned(), range: KeyRange::prefix(prefix), contents: RwLock::new(contents) }
    }

    /// Returns the prefix of all of its keys.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.range.contains(key)
    }

    /// Returns the current items.
    pub fn snapshot(&self) -> Snapshot<T> {
        self.read().snapshot.clone()
    }

    /// Returns the items as of `revision`, if the history reaches back that far.
    pub fn snapshot_at(&self, revision: Revision) -> Option<Snapshot<T>> {
        let contents = self.read();
        if revision >= contents.snapshot.revision {
            return Some(contents.snapshot.clone());
        }
        contents.history.snapshot_at(revision, &contents.snapshot)
    }

    /// Evicts changes that are older than the history's retention.
    pub(crate) fn evict_expired(&self, now: Instant) {
        self.write().history.evict(now);
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.read().snapshot.items.size()
    }

    /// Returns the number of changes that are kept for watches to begin or resume with.
    pub fn changes(&self) -> usize {
        self.read().history.len()
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns at most `most` changes after `after`, oldest first, or `None` when the history does not reach back so
    /// far.
    pub(crate) fn changes_after(&self, after: Revision, most: usize) -> Option<VecDeque<Arc<Change<T>>>> {
        self.read().history.after(after, most)
    }

    // A poisoned lock means a panic between two plain assignments, which cannot leave a change half done.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Contents<T>> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Contents<T>> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}
