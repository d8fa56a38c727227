//! The trait itself.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;

use crate::{Key, KeyRange, Revision, StoreResult};

/// One key with its value, as of some revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub key: Key,
    /// Its bytes. Cheap to clone; backends hand out slices of what they received.
    pub value: Bytes,
    /// The revision of the last write to it.
    pub modified: Revision,
    /// The revision of the write that created it, since it was last absent. Of a key that was written again, a backend
    /// may tell the last one of those writes that happened together with that one.
    pub created: Revision,
}

/// A key that has to be as it was read, for a write to another one to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchanged {
    /// Its name.
    pub key: Key,
    /// The revision of the last write to it.
    pub modified: Revision,
}

/// What a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// At most so many entries; zero is no limit.
    pub limit: usize,
    /// As the store was at this revision; `None` is now, linearizably.
    pub revision: Option<Revision>,
}

/// A part of a range, all as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries, in key order.
    pub entries: Vec<Entry>,
    /// The store's revision that the page shows: the one asked for, or the current one.
    pub revision: Revision,
    /// How many entries of the range come after this page.
    pub remaining: u64,
}

/// What happened to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It did not exist and now does.
    Created,
    /// It existed and has a new value.
    Updated,
    /// It is gone.
    Deleted,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The key.
    pub key: Key,
    /// The revision of the change.
    pub revision: Revision,
    /// The value after the change; `None` when deleted.
    pub value: Option<Bytes>,
    /// The revision of the write that created the key, since it was last absent. None where it was deleted and
    /// nothing before is told.
    pub created: Revision,
    /// The entry before the change; `None` when created, and where [`Store::follow`] does not tell it.
    pub previous: Option<Entry>,
}

/// What a watch yields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// A change. Changes come in revision order, each once.
    Event(Event),
    /// Every change up to and including this revision has been yielded. Comes every few seconds
    /// on an idle watch, so that a follower knows how fresh it is; a backend that cannot say so
    /// soundly says it seldom instead.
    Progress(Revision),
}

/// The changes of a range, in order. After an error the stream ends.
pub type WatchStream = Pin<Box<dyn Stream<Item = StoreResult<WatchItem>> + Send>>;

/// A map from keys to bytes with one revision counter, compare-and-swap writes, history and watch.
///
/// Every method is cancel safe in this sense: when its future is dropped, a write has happened
/// whole or not at all.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Writes `value` if `key` does not exist, and returns the write's revision.
    ///
    /// # Errors
    /// `Exists`; `TooLarge`; `Refused`; `Unavailable`; `Unknown`.
    async fn create(&self, key: &Key, value: Bytes) -> StoreResult<Revision> {
        self.create_while(key, value, None).await
    }

    /// The same, if another key is `unchanged`: what the creation depends on, and was read before.
    ///
    /// # Errors
    /// `Exists`; `Conflict`, which names the other key; `TooLarge`; `Refused`; `Unavailable`; `Unknown`.
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision>;

    /// Replaces the value if `key` is at `expected`, and returns the write's revision.
    ///
    /// # Errors
    /// `Conflict` (also when the key is gone); `TooLarge`; `Refused`; `Unavailable`; `Unknown`.
    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision>;

    /// Removes `key` if it is at `expected`, and returns the removal's revision.
    ///
    /// # Errors
    /// `Conflict` (also when the key is gone); `Refused`; `Unavailable`; `Unknown`.
    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision>;

    /// The entry now, linearizably, or `None`.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>>;

    /// The entries of `range` in key order, all as of one revision.
    ///
    /// # Errors
    /// `Compacted` and `Future` when a revision is asked for; `Unavailable`.
    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page>;

    /// Every change of `range` with a revision of at least `from`, then those to come.
    /// A `from` in the future is fine: the stream waits. The backend reconnects and resumes by
    /// itself; the stream errs only with `Compacted` (also as the answer of this call) or
    /// when the store is shut down (`Unavailable`).
    ///
    /// # Errors
    /// `Compacted`; `Unavailable`.
    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream>;

    /// The same for whoever holds what was there before: where it costs the backend something, changes come without
    /// their `previous` entry.
    ///
    /// # Errors
    /// `Compacted`; `Unavailable`.
    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.watch(range, from).await
    }

    /// Forgets history before `revision`: reads and watches from before it answer `Compacted`.
    /// Current values stay. Compacting what is compacted already is no error.
    ///
    /// # Errors
    /// `Future`; `Unavailable`.
    async fn compact(&self, revision: Revision) -> StoreResult<()>;

    /// The revision of the newest write, linearizably. Reads no value.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn current_revision(&self) -> StoreResult<Revision>;

    /// Whether watches say soundly and soon how far they are. Where they do not, whoever needs to
    /// know that a watch has told everything must read the store instead.
    fn reports_progress(&self) -> bool {
        true
    }

    /// Asks that open watches say how far they are at once, and not when it is their time to. A
    /// hint: a store whose watches are never behind what they have said ignores it.
    fn hasten_progress(&self) {}
}
