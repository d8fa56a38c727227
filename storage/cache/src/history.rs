//! The recent changes of a section.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use storage_contract::{EventKind, Revision};

use crate::section::Snapshot;

/// How far back a watch can always resume: longer than the five minutes clients are promised.
const KEPT: Duration = Duration::from_secs(6 * 60);

/// Bound on memory under a flood of writes: at 2 KiB an item this is some 200 MiB a section.
pub(crate) const MOST: usize = 100_000;

/// One change of a section.
#[derive(Debug)]
pub struct Change<T> {
    /// What happened.
    pub kind: EventKind,
    /// When.
    pub revision: Revision,
    /// The key.
    pub key: Arc<str>,
    /// The item after the change. For a deletion: the last item, projected at the revision of
    /// the deletion.
    pub item: Arc<T>,
    /// The item before the change.
    pub previous: Option<Arc<T>>,
}

#[derive(Debug)]
struct Record<T> {
    change: Arc<Change<T>>,
    after: Snapshot<T>,
    at: Instant,
}

/// Changes with the snapshot that each left behind.
#[derive(Debug)]
pub(crate) struct History<T> {
    records: VecDeque<Record<T>>,
    /// Everything after this revision is in `records`.
    floor: Revision,
    /// The items as they were at `floor`.
    base: Option<Snapshot<T>>,
}

impl<T> Default for History<T> {
    fn default() -> Self {
        Self { records: VecDeque::new(), floor: Revision::NONE, base: None }
    }
}

impl<T> History<T> {
    /// How many changes there are.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// Starts over: the section was listed anew.
    pub(crate) fn reset(&mut self, base: Snapshot<T>) {
        self.records.clear();
        self.floor = base.revision;
        self.base = Some(base);
    }

    pub(crate) fn push(&mut self, change: Arc<Change<T>>, after: Snapshot<T>, now: Instant) {
        self.records.push_back(Record { change, after, at: now });
        while let Some(oldest) = self.records.front() {
            let expired = now.saturating_duration_since(oldest.at) > KEPT;
            if !expired && self.records.len() <= MOST {
                break;
            }
            if let Some(gone) = self.records.pop_front() {
                self.floor = gone.change.revision;
                self.base = Some(gone.after);
            }
        }
    }

    /// The changes after `after`, oldest first, `most` of them; `None` when some are forgotten.
    pub(crate) fn after(&self, after: Revision, most: usize) -> Option<VecDeque<Arc<Change<T>>>> {
        if after < self.floor || self.base.is_none() {
            return None;
        }
        let first = self.records.partition_point(|record| record.change.revision <= after);
        Some(self.records.range(first..).take(most).map(|record| Arc::clone(&record.change)).collect())
    }

    pub(crate) fn snapshot_at(&self, revision: Revision) -> Option<Snapshot<T>> {
        let next = self.records.partition_point(|record| record.change.revision <= revision);
        match next.checked_sub(1).and_then(|index| self.records.get(index)) {
            Some(record) => Some(record.after.clone()),
            None => self.base.clone().filter(|base| base.revision <= revision),
        }
    }
}
