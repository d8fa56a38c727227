//! Memtable: the current state of the store, as a snapshot of the database plus the later writes, which are in the
//! journal and here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use redb::Database;
use storage_contract::{Entry, Key, KeyRange, Revision};

use crate::journal::Record;
use crate::read::Snapshot;

/// State that readers and the writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    // Before the database: its snapshot must not outlive it.
    state: RwLock<State>,
    /// Error that stopped the store.
    failure: OnceLock<String>,
    pub(crate) database: Database,
}

impl Shared {
    pub(crate) fn new(database: Database) -> Result<Self, redb::Error> {
        let snapshot = Arc::new(Snapshot::of(&database)?);
        let active = Layer::after(snapshot.revision);
        let state = State { snapshot, checkpointing: VecDeque::new(), active };
        Ok(Self { state: RwLock::new(state), failure: OnceLock::new(), database })
    }

    /// Stops the store until it is opened again. A stopped store keeps its first error.
    pub(crate) fn fail(&self, why: &str) {
        let why =
            format!("the disk failed (see the log; free space or repair it, then restart capstan): {why}");
        tracing::error!(%why, "embedded store stopped; it refuses every write");
        // The first failure is the cause of the others.
        let _ = self.failure.set(why);
    }

    /// Returns the error that stopped the store, if it is stopped.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Locks the state for reading. The lock is held while memory is read, never during a disk access.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        // No holder of the lock can fail halfway: each change is one assignment.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state_mut(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct State {
    /// Snapshot of the database.
    pub(crate) snapshot: Arc<Snapshot>,
    /// Layers whose checkpoint is in flight, oldest first.
    checkpointing: VecDeque<Arc<Layer>>,
    /// Layer of the writes since.
    active: Layer,
}

/// Writes in the order of their revisions, without a gap.
#[derive(Debug)]
pub(crate) struct Layer {
    after: Revision,
    pub(crate) records: Vec<Arc<Record>>,
    /// Index of the last write to each key.
    last: HashMap<Key, usize>,
}

impl Layer {
    fn after(after: Revision) -> Self {
        Self { after, records: Vec::new(), last: HashMap::new() }
    }

    /// Returns the last revision of the layer.
    fn newest(&self) -> Revision {
        self.records.last().map_or(self.after, |record| record.revision)
    }

    fn add(&mut self, record: Record) {
        self.last.insert(record.key.clone(), self.records.len());
        self.records.push(Arc::new(record));
    }

    fn last(&self, key: &Key) -> Option<&Arc<Record>> {
        self.records.get(*self.last.get(key)?)
    }

    /// Returns the writes from `revision` on.
    fn from(&self, revision: Revision) -> &[Arc<Record>] {
        let skipped = revision.number().saturating_sub(self.after.number() + 1);
        usize::try_from(skipped).ok().and_then(|skipped| self.records.get(skipped..)).unwrap_or_default()
    }
}

impl State {
    /// Returns the revision of the newest write.
    pub(crate) fn newest(&self) -> Revision {
        self.active.newest()
    }

    /// Returns the last write to `key` that the database does not have yet.
    pub(crate) fn last(&self, key: &Key) -> Option<&Arc<Record>> {
        self.active.last(key).or_else(|| self.checkpointing.iter().rev().find_map(|layer| layer.last(key)))
    }

    /// Returns the writes from `revision` on that the database does not have yet.
    pub(crate) fn from(&self, revision: Revision) -> impl Iterator<Item = &Arc<Record>> {
        self.checkpointing
            .iter()
            .map(AsRef::as_ref)
            .chain([&self.active])
            .flat_map(move |layer| layer.from(revision))
    }

    /// Returns the write of `revision`, if the database does not have it yet.
    pub(crate) fn at(&self, revision: Revision) -> Option<&Arc<Record>> {
        self.from(revision).next().filter(|record| record.revision == revision)
    }

    /// Returns the writes in `range` up to `revision` that the database does not have yet.
    pub(crate) fn written(&self, range: &KeyRange, revision: Revision) -> Vec<Arc<Record>> {
        let written =
            self.from(self.snapshot.revision.next()).take_while(|record| record.revision <= revision);
        written.filter(|record| range.contains(record.key.as_bytes())).cloned().collect()
    }

    /// Returns the number of writes whose checkpoint has not begun.
    pub(crate) fn pending(&self) -> usize {
        self.active.records.len()
    }

    /// Adds `records`, which are in the journal.
    pub(crate) fn add(&mut self, records: Vec<Record>) {
        records.into_iter().for_each(|record| self.active.add(record));
    }

    /// Begins a checkpoint of the writes since the last one. Returns `None` if there are none.
    pub(crate) fn begin_checkpoint(&mut self) -> Option<Arc<Layer>> {
        if self.active.records.is_empty() {
            return None;
        }
        let next = Layer::after(self.active.newest());
        let layer = Arc::new(std::mem::replace(&mut self.active, next));
        self.checkpointing.push_back(Arc::clone(&layer));
        Some(layer)
    }

    /// Replaces the snapshot, and returns the old one with the layers that are not needed any more.
    pub(crate) fn replace_snapshot(&mut self, snapshot: Arc<Snapshot>) -> (Arc<Snapshot>, Vec<Arc<Layer>>) {
        let checkpointed =
            self.checkpointing.iter().take_while(|layer| layer.newest() <= snapshot.revision).count();
        (std::mem::replace(&mut self.snapshot, snapshot), self.checkpointing.drain(..checkpointed).collect())
    }
}

impl Record {
    /// Returns the entry after this record; `None` for a deletion.
    pub(crate) fn entry(&self) -> Option<Entry> {
        let value = self.value.clone()?;
        Some(Entry { key: self.key.clone(), value, modified: self.revision, created: self.created })
    }
}
