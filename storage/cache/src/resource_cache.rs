//! Cache of one resource: its items and their recent changes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use rpds::RedBlackTreeMapSync;
use storage_contract::{KeyRange, Revision};

use crate::Projection;
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

/// Memory of one resource's items, without the nodes of their map, and without what items share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheSize {
    /// Bytes of the current items and their keys.
    pub items: usize,
    /// Bytes of replaced items, which the history holds until they expire.
    pub history: usize,
    /// Bytes of what all of them keep only for a repeated request, see [`Projection::trim`].
    pub repeats: usize,
}

/// One resource's items and their recent changes.
#[derive(Debug)]
pub struct ResourceCache<T> {
    prefix: String,
    range: KeyRange,
    contents: RwLock<Contents<T>>,
    /// Size as of the last round of the reflector.
    size: Mutex<CacheSize>,
}

impl<T> ResourceCache<T> {
    pub(crate) fn new(prefix: &str) -> Self {
        let contents = Contents { snapshot: Snapshot::empty(), history: History::default() };
        let (contents, size) = (RwLock::new(contents), Mutex::default());
        Self { prefix: prefix.to_owned(), range: KeyRange::prefix(prefix), contents, size }
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

    /// Returns the memory of the items, as it was at most 15 seconds ago. Zero before the first list.
    pub fn size(&self) -> CacheSize {
        *self.size.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Returns the items that only the history holds.
    fn replaced(&self) -> Vec<Arc<T>> {
        self.read().history.replaced().cloned().collect()
    }

    // A poisoned lock means a panic between two plain assignments, which cannot leave a change half done.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Contents<T>> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Contents<T>> {
        self.contents.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: 'static> ResourceCache<T> {
    /// Trims all items, and measures them. Of a replaced item, what it keeps for a repeated request is often larger than the
    /// item itself, and few watchers still need it.
    pub(crate) fn trim(&self, projection: &dyn Projection<T>) {
        let mut repeats = 0;
        let mut trimmed = |item: &T| {
            projection.trim(item);
            let size = projection.size(item);
            repeats += size.repeats;
            size.item
        };
        let items: usize = self.snapshot().items.iter().map(|(key, item)| key.len() + trimmed(item)).sum();
        let history: usize = self.replaced().iter().map(|item| trimmed(item)).sum();
        let size = CacheSize { items, history, repeats };
        *self.size.lock().unwrap_or_else(PoisonError::into_inner) = size;
    }
}

#[cfg(test)]
mod tests {
    use storage_contract::{Entry, EventKind};

    use super::*;
    use crate::ItemSize;

    /// Bytes of an item, and the number of its trims.
    type Item = Mutex<(usize, usize)>;

    fn item(bytes: usize) -> Arc<Item> {
        Arc::new(Mutex::new((bytes, 0)))
    }

    #[derive(Debug)]
    struct Measured;

    impl Projection<Item> for Measured {
        fn project(&self, _: usize, _: &Entry) -> Item {
            Mutex::default()
        }

        fn deleted(&self, _: &Item, _: Revision) -> Item {
            Mutex::default()
        }

        fn trim(&self, item: &Item) {
            item.lock().unwrap().1 += 1;
        }

        fn size(&self, item: &Item) -> ItemSize {
            ItemSize { item: item.lock().unwrap().0, repeats: 1000 }
        }
    }

    #[test]
    fn each_item_is_trimmed_once_and_counted_where_it_is_held() {
        let cache = ResourceCache::new("/a/");
        let items = [item(1), item(2), item(4), item(8)];
        let [replaced, current, last, deleted] = items.each_ref().map(Arc::clone);
        let mut contents = cache.write();
        contents.snapshot.items.insert_mut(Arc::from("/a/x"), Arc::clone(&current));
        contents.history.reset(Revision::new(1));
        for (kind, revision, item, previous) in
            [(EventKind::Updated, 2, current, replaced), (EventKind::Deleted, 3, deleted, last)]
        {
            let (key, previous) = (Arc::from("/a/x"), Some(previous));
            let change = Change { kind, revision: Revision::new(revision), key, item, previous };
            contents.history.push(Arc::new(change), 0, Instant::now());
        }
        drop(contents);
        assert_eq!(cache.size(), CacheSize::default());
        cache.trim(&Measured);
        assert_eq!(cache.size(), CacheSize { items: 4 + 2, history: 1 + 4 + 8, repeats: 4000 });
        assert!(items.iter().all(|item| item.lock().unwrap().1 == 1), "{items:?}");
    }
}
