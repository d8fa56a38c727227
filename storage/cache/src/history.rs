//! History of one resource cache: its recent changes, from which watches begin and resume.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use storage_contract::{EventKind, Revision};

use crate::resource_cache::Snapshot;
use crate::watch::AT_ONCE;

/// Age up to which a watch begins without a read of the store: a client that loses its connection is back within that
/// time. Older watches begin from the store's own history, which is as long as clients are promised.
const RETENTION: Duration = Duration::from_secs(75);

/// Bound on memory under a flood of writes. At 3 KiB for each replaced item this is about 12 MiB per resource, and at
/// fifty writes per second it is as long as [`RETENTION`].
const MAX_RECORDS: usize = 4_096;

/// Bound on the bytes of the items that only the history holds, per resource: [`MAX_RECORDS`] items of 4 KiB. So it
/// matters only for larger ones, such as Secrets with the user data of servers.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// Number of changes that are kept although their items are too large: as many as a watcher takes at a time. With fewer, a
/// few large objects would end each watch of the resource.
const MIN_RECORDS: usize = AT_ONCE;

/// Capacity that is never given back, in records.
const MIN_CAPACITY: usize = 1_024;

/// One change of a resource.
#[derive(Debug)]
pub struct Change<T> {
    /// Kind of the change.
    pub kind: EventKind,
    /// Revision of the change.
    pub revision: Revision,
    /// The key.
    pub key: Arc<str>,
    /// The item after the change. For a deletion: the last item, projected at the revision of
    /// the deletion.
    pub item: Arc<T>,
    /// The item before the change.
    pub previous: Option<Arc<T>>,
}

impl<T> Change<T> {
    /// Returns the items of the change that no snapshot after it has: the item before it, and the one that shows a
    /// deletion. Each item is replaced by one change at most.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = &Arc<T>> {
        let deleted = (self.kind == EventKind::Deleted).then_some(&self.item);
        self.previous.iter().chain(deleted)
    }
}

#[derive(Debug)]
struct Record<T> {
    change: Arc<Change<T>>,
    /// Snapshot after the change, if a reader has requested it: a client that reads a list page by page requests it
    /// again.
    after: OnceLock<Snapshot<T>>,
    at: Instant,
    /// Bytes of the items that only this record holds.
    bytes: usize,
}

/// Recent changes, and the snapshots after them that readers have requested.
#[derive(Debug)]
pub(crate) struct History<T> {
    records: VecDeque<Record<T>>,
    /// Everything after this revision is in `records`; none before the first list.
    floor: Option<Revision>,
    /// Bytes of all records.
    bytes: usize,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { records: VecDeque::new(), floor: None, bytes: 0 }
    }
}

impl<T> History<T> {
    /// Returns the number of changes.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Clears the history after a new list at this revision.
    pub(crate) fn reset(&mut self, floor: Revision) {
        *self = Self { floor: Some(floor), ..Self::default() };
    }

    /// Adds a change. `bytes` is the size of the items that it [replaces](Change::replaced).
    pub(crate) fn push(&mut self, change: Arc<Change<T>>, bytes: usize, now: Instant) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.records.push_back(Record { change, after: OnceLock::new(), at: now, bytes });
        self.evict(now);
    }

    /// Evicts the changes that are older than [`RETENTION`], or exceed [`MAX_RECORDS`] or [`MAX_BYTES`].
    pub(crate) fn evict(&mut self, now: Instant) {
        while let Some(oldest) = self.records.front() {
            let expired = now.saturating_duration_since(oldest.at) > RETENTION;
            let too_large = self.bytes > MAX_BYTES && self.records.len() > MIN_RECORDS;
            if !expired && !too_large && self.records.len() <= MAX_RECORDS {
                break;
            }
            if let Some(gone) = self.records.pop_front() {
                self.floor = Some(gone.change.revision);
                self.bytes = self.bytes.saturating_sub(gone.bytes);
            }
        }
        // After a flood the buffer would keep its size.
        if self.records.capacity() > 4 * self.records.len() + MIN_CAPACITY {
            self.records.shrink_to(2 * self.records.len());
        }
    }

    /// Returns the items that only the history holds.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = &Arc<T>> {
        self.records.iter().flat_map(|record| record.change.replaced())
    }

    /// Returns at most `most` changes after `after`, oldest first, or `None` when some of them are evicted.
    pub(crate) fn after(&self, after: Revision, most: usize) -> Option<VecDeque<Arc<Change<T>>>> {
        if self.floor.is_none_or(|floor| after < floor) {
            return None;
        }
        let first = self.first_after(after);
        Some(self.records.range(first..).take(most).map(|record| Arc::clone(&record.change)).collect())
    }

    /// Returns the items as of `revision`. It undoes the later changes, at about one microsecond each, from `newest`
    /// or from the first known snapshot after `revision`. The result is kept for as long as the change that it
    /// follows.
    pub(crate) fn snapshot_at(&self, revision: Revision, newest: &Snapshot<T>) -> Option<Snapshot<T>> {
        if self.floor.is_none_or(|floor| revision < floor) {
            return None;
        }
        let first = self.first_after(revision);
        let before = first.checked_sub(1).and_then(|last| self.records.get(last));
        if let Some(known) = before.and_then(|record| record.after.get()) {
            return Some(Snapshot { items: known.items.clone(), revision });
        }
        let mut undone = self.records.range(first..);
        let mut start = newest;
        let known = (first..self.records.len()).find_map(|at| Some((at, self.records.get(at)?.after.get()?)));
        if let Some((last, after)) = known {
            (undone, start) = (self.records.range(first..=last), after);
        }
        let mut items = start.items.clone();
        for Record { change, .. } in undone.rev() {
            match &change.previous {
                Some(previous) => items.insert_mut(Arc::clone(&change.key), Arc::clone(previous)),
                None => drop(items.remove_mut(&*change.key)),
            }
        }
        let snapshot = Snapshot { items, revision };
        if let Some(record) = before {
            // A concurrent reader may have stored the same snapshot.
            let _ = record.after.set(snapshot.clone());
        }
        Some(snapshot)
    }

    fn first_after(&self, revision: Revision) -> usize {
        self.records.partition_point(|record| record.change.revision <= revision)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use rpds::RedBlackTreeMapSync;

    use super::*;

    /// Carries out writes and deletions of a few keys, and returns the items after each.
    fn carried_out(writes: &[(u8, bool)]) -> (History<usize>, Snapshot<usize>, Vec<BTreeMap<String, usize>>) {
        let mut history = History::default();
        history.reset(Revision::new(1));
        let mut snapshot = Snapshot { items: RedBlackTreeMapSync::new_sync(), revision: Revision::new(1) };
        let mut known = vec![BTreeMap::new()];
        for (index, (key, is_deletion)) in writes.iter().enumerate() {
            let revision = Revision::new(snapshot.revision.number() + 1);
            let (key, item): (Arc<str>, _) = (Arc::from(format!("k{}", key % 16)), Arc::new(index));
            let previous = snapshot.items.get(&key).cloned();
            if *is_deletion {
                snapshot.items.remove_mut(&key);
            } else {
                snapshot.items.insert_mut(Arc::clone(&key), Arc::clone(&item));
            }
            snapshot.revision = revision;
            let change = Change { kind: EventKind::Updated, revision, key, item, previous };
            history.push(Arc::new(change), 0, Instant::now());
            known.push(shown(&snapshot));
        }
        (history, snapshot, known)
    }

    fn shown(snapshot: &Snapshot<usize>) -> BTreeMap<String, usize> {
        snapshot.items.iter().map(|(key, item)| (key.to_string(), **item)).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// The revisions are requested in any order, and twice.
        #[test]
        fn a_snapshot_at_each_revision_has_the_items_of_that_revision(
            writes in prop::collection::vec((any::<u8>(), any::<bool>()), 1..500),
            requested in prop::collection::vec(any::<prop::sample::Index>(), 100),
        ) {
            let (history, newest, known) = carried_out(&writes);
            for index in requested.iter().chain(&requested).map(|index| index.index(known.len())) {
                let revision = Revision::new(u64::try_from(index + 1).unwrap());
                let found = history.snapshot_at(revision, &newest).unwrap();
                prop_assert_eq!((&shown(&found), found.revision), (&known[index], revision));
            }
            prop_assert!(history.snapshot_at(Revision::NONE, &newest).is_none());
        }
    }

    #[test]
    fn a_requested_snapshot_is_kept() {
        let (history, newest, _) = carried_out(&[(1, false), (2, false), (3, false)]);
        let is_kept = |history: &History<usize>| -> Vec<bool> {
            history.records.iter().map(|record| record.after.get().is_some()).collect()
        };
        assert_eq!(is_kept(&history), [false; 3]);
        // No change precedes the first revision, and nothing is undone for the last.
        for revision in [1, 3, 4, 9] {
            history.snapshot_at(Revision::new(revision), &newest).unwrap();
        }
        assert_eq!(is_kept(&history), [false, true, true]);
    }

    #[test]
    fn old_changes_are_evicted_without_another_change() {
        let (mut history, newest, known) = carried_out(&[(1, false), (2, false)]);
        history.evict(Instant::now() + RETENTION + Duration::from_secs(1));
        assert_eq!(history.len(), 0);
        assert!(history.after(Revision::new(2), 9).is_none(), "some are evicted");
        assert_eq!(history.after(newest.revision, 9).unwrap().len(), 0);
        assert_eq!(Some(&shown(&history.snapshot_at(newest.revision, &newest).unwrap())), known.last());
    }

    /// Returns a history after as many changes of one key, each of which replaces an item of this size.
    fn with_changes(count: usize, bytes: usize) -> History<usize> {
        let mut history = History::default();
        history.reset(Revision::new(1));
        for revision in (2..).take(count).map(Revision::new) {
            let (key, item, previous) = (Arc::from("k"), Arc::new(1), Some(Arc::new(0)));
            let change = Change { kind: EventKind::Updated, revision, key, item, previous };
            history.push(Arc::new(change), bytes, Instant::now());
        }
        history
    }

    #[test]
    fn large_items_shorten_the_history_to_what_a_watcher_takes_at_a_time() {
        assert_eq!(with_changes(5_000, 4 * 1024).len(), MAX_RECORDS, "most objects are not larger");
        let secrets = with_changes(5_000, 32 * 1024);
        assert_eq!((secrets.len(), secrets.bytes), (512, MAX_BYTES));
        assert!(secrets.after(Revision::new(5_001 - 512), 9).is_some());
        assert!(secrets.after(Revision::new(5_000 - 512), 9).is_none(), "it is evicted");
        assert_eq!(with_changes(5_000, 1024 * 1024).len(), MIN_RECORDS);
    }

    #[test]
    fn the_bytes_of_the_history_leave_with_its_changes() {
        let mut history = with_changes(10, 100);
        assert_eq!(history.bytes, 1000);
        history.evict(Instant::now() + RETENTION + Duration::from_secs(1));
        assert_eq!((history.len(), history.bytes), (0, 0));
        let mut history = with_changes(10, 100);
        history.reset(Revision::new(9));
        assert_eq!(history.bytes, 0);
    }

    #[test]
    fn each_item_that_left_the_snapshot_is_replaced_by_one_change() {
        let mut history = History::default();
        history.reset(Revision::new(1));
        let mut push = |kind, revision, item, previous: Option<usize>| {
            let (key, previous) = (Arc::from("k"), previous.map(Arc::new));
            let change =
                Change { kind, revision: Revision::new(revision), key, item: Arc::new(item), previous };
            history.push(Arc::new(change), 0, Instant::now());
        };
        push(EventKind::Created, 2, 20, None);
        push(EventKind::Updated, 3, 30, Some(20));
        push(EventKind::Deleted, 4, 31, Some(30));
        push(EventKind::Created, 5, 50, None);
        assert_eq!(history.replaced().map(|item| **item).collect::<Vec<_>>(), [20, 30, 31], "50 is current");
    }
}
