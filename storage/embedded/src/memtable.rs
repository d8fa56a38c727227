//! What the store is now: a snapshot of the database, and the writes since, which are in the journal and here.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use redb::Database;
use storage_contract::{Entry, Key, KeyRange, Revision};

use crate::journal::Record;
use crate::read::Base;

/// What readers and the writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    // Before the database: its snapshot must not outlive it.
    state: RwLock<State>,
    /// Why nothing is written any more.
    failure: OnceLock<String>,
    pub(crate) database: Database,
}

impl Shared {
    pub(crate) fn new(database: Database) -> Result<Self, redb::Error> {
        let base = Arc::new(Base::of(&database)?);
        let active = Layer::after(base.revision);
        let state = State { base, settling: VecDeque::new(), active };
        Ok(Self { state: RwLock::new(state), failure: OnceLock::new(), database })
    }

    /// Stops the store for good, unless it is.
    pub(crate) fn fail(&self, why: &str) {
        let why = format!("the disk failed (see the log; free or mend it, then restart capstan): {why}");
        tracing::error!(%why, "the store writes nothing any more");
        // The first failure is what the others come from.
        let _ = self.failure.set(why);
    }

    /// Why it was stopped, if it was.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// The state as it is. It is held for as long as memory is looked at, never while a disk is.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        // Nobody who has it can fail halfway: each change of it is one assignment.
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn change(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct State {
    /// The database.
    pub(crate) base: Arc<Base>,
    /// What is on its way there, oldest first.
    settling: VecDeque<Arc<Layer>>,
    /// What was written since.
    active: Layer,
}

/// Writes in the order of their revisions, without a gap.
#[derive(Debug)]
pub(crate) struct Layer {
    after: Revision,
    pub(crate) records: Vec<Arc<Record>>,
    /// Where the last write to each key is.
    last: HashMap<Key, usize>,
}

impl Layer {
    fn after(after: Revision) -> Self {
        Self { after, records: Vec::new(), last: HashMap::new() }
    }

    /// The last revision in it.
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

    /// The writes from `revision` on.
    fn from(&self, revision: Revision) -> &[Arc<Record>] {
        let skipped = revision.number().saturating_sub(self.after.number() + 1);
        usize::try_from(skipped).ok().and_then(|skipped| self.records.get(skipped..)).unwrap_or_default()
    }
}

impl State {
    /// The revision of the newest write.
    pub(crate) fn newest(&self) -> Revision {
        self.active.newest()
    }

    /// The last write to `key` that the database does not have yet.
    pub(crate) fn last(&self, key: &Key) -> Option<&Arc<Record>> {
        self.active.last(key).or_else(|| self.settling.iter().rev().find_map(|layer| layer.last(key)))
    }

    /// The writes from `revision` on, as far as the database does not have them yet.
    pub(crate) fn from(&self, revision: Revision) -> impl Iterator<Item = &Arc<Record>> {
        self.settling
            .iter()
            .map(AsRef::as_ref)
            .chain([&self.active])
            .flat_map(move |layer| layer.from(revision))
    }

    /// The write of `revision`, if the database does not have it yet.
    pub(crate) fn at(&self, revision: Revision) -> Option<&Arc<Record>> {
        self.from(revision).next().filter(|record| record.revision == revision)
    }

    /// What was written in `range` up to `revision`, and the database does not have yet.
    pub(crate) fn written(&self, range: &KeyRange, revision: Revision) -> Vec<Arc<Record>> {
        let written = self.from(self.base.revision.next()).take_while(|record| record.revision <= revision);
        written.filter(|record| range.contains(record.key.as_bytes())).cloned().collect()
    }

    /// How many writes are not on their way to the database.
    pub(crate) fn unsettled(&self) -> usize {
        self.active.records.len()
    }

    /// Shows `records`, which are in the journal.
    pub(crate) fn add(&mut self, records: Vec<Record>) {
        records.into_iter().for_each(|record| self.active.add(record));
    }

    /// Sends on its way to the database what was written since it was last; none if nothing was.
    pub(crate) fn settle(&mut self) -> Option<Arc<Layer>> {
        if self.active.records.is_empty() {
            return None;
        }
        let next = Layer::after(self.active.newest());
        let layer = Arc::new(std::mem::replace(&mut self.active, next));
        self.settling.push_back(Arc::clone(&layer));
        Some(layer)
    }

    /// Takes over what the database has become, and returns what is not needed any more.
    pub(crate) fn rebase(&mut self, base: Arc<Base>) -> (Arc<Base>, Vec<Arc<Layer>>) {
        let settled = self.settling.iter().take_while(|layer| layer.newest() <= base.revision).count();
        (std::mem::replace(&mut self.base, base), self.settling.drain(..settled).collect())
    }
}

impl Record {
    /// What the key was after this; `None` if it was gone.
    pub(crate) fn entry(&self) -> Option<Entry> {
        let value = self.value.clone()?;
        Some(Entry { key: self.key.clone(), value, modified: self.revision, created: self.created })
    }
}
