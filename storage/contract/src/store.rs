//! Store trait, and the types of its calls.

use std::pin::Pin;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;

use crate::{Form, Key, KeyRange, Revision, StoreError, StoreResult};

/// Key with its value, as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the key.
    pub key: Key,
    /// Bytes of the value. They are cheap to clone; backends return slices of what they received.
    pub value: Bytes,
    /// The revision of the last write to it.
    pub modified: Revision,
    /// The revision of the write that created it, since it was last absent. For a key that was written again, a
    /// backend may report the last of the writes that happened in the same transaction.
    pub created: Revision,
}

/// Condition of a write: another key that must be unchanged since it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unchanged {
    /// Name of the key.
    pub key: Key,
    /// The revision of the last write to it.
    pub modified: Revision,
}

/// Options of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListOptions {
    /// Maximum number of entries of the page; zero is no limit.
    pub limit: usize,
    /// Revision to read at; `None` is the current one, linearizably.
    pub revision: Option<Revision>,
}

/// Page of a range, all as of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The entries, in key order.
    pub entries: Vec<Entry>,
    /// The store's revision that the page shows: the requested one, or the current one.
    pub revision: Revision,
    /// Number of entries of the range that follow this page.
    pub remaining: u64,
}

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// The key did not exist, and exists now.
    Created,
    /// The key existed, and has a new value.
    Updated,
    /// The key was deleted.
    Deleted,
}

/// Change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Kind of the change.
    pub kind: EventKind,
    /// The key.
    pub key: Key,
    /// The revision of the change.
    pub revision: Revision,
    /// The value after the change; `None` when deleted.
    pub value: Option<Bytes>,
    /// The revision of the write that created the key, since it was last absent. `Revision::NONE` for a deletion that
    /// is reported without the previous entry.
    pub created: Revision,
    /// The entry before the change; `None` for a creation, and where [`Store::follow`] does not report it.
    pub previous: Option<Entry>,
}

/// Item of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchItem {
    /// A change. Changes come in revision order, each once.
    Event(Event),
    /// Every change up to and including this revision has been yielded. It comes every few seconds on an idle watch,
    /// so that a reflector knows how fresh it is. A backend that cannot report it soundly reports it seldom instead.
    Progress(Revision),
}

/// Changes of a range, in order. After an error the stream ends.
pub type WatchStream = Pin<Box<dyn Stream<Item = StoreResult<WatchItem>> + Send>>;

/// Map from keys to bytes with one revision counter, compare-and-swap writes, history and watch.
///
/// Every method is cancel safe in this sense: when its future is dropped, a write has happened whole or not at all.
#[async_trait]
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Writes `value` if `key` does not exist, and returns the write's revision.
    ///
    /// # Errors
    /// `Exists`; `TooLarge`; `Refused`; `Unavailable`; `Unknown`.
    async fn create(&self, key: &Key, value: Bytes) -> StoreResult<Revision> {
        self.create_while(key, value, None).await
    }

    /// Writes `value` if `key` does not exist and another key is `unchanged`: one that the creation depends on, and
    /// that was read before.
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

    /// Returns the current entry, linearizably, or `None`.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>>;

    /// Returns the entries of `range` in key order, all as of one revision.
    ///
    /// # Errors
    /// `Compacted` and `Future` when a revision is requested; `Unavailable`.
    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page>;

    /// Watches every change of `range` with a revision of at least `from`, then those to come. If `from` is in the
    /// future, the stream waits. The backend reconnects and resumes by itself. The stream fails only with `Compacted`
    /// (also as the result of this call), with `Rewound`, or when the store is shut down (`Unavailable`).
    ///
    /// # Errors
    /// `Compacted`; `Unavailable`.
    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream>;

    /// Watches like [`Store::watch`], for a caller that holds the previous entries: where they cost the backend
    /// something, changes come without their `previous` entry.
    ///
    /// # Errors
    /// `Compacted`; `Unavailable`.
    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        self.watch(range, from).await
    }

    /// Compacts history before `revision`: reads and watches from before it answer `Compacted`. Current values stay.
    /// It is no error to compact what is compacted already.
    ///
    /// # Errors
    /// `Future`; `Unavailable`.
    async fn compact(&self, revision: Revision) -> StoreResult<()>;

    /// Returns the revision of the newest write, linearizably. It reads no value.
    ///
    /// # Errors
    /// `Unavailable`.
    async fn current_revision(&self) -> StoreResult<Revision>;

    /// Reports whether watches report progress soundly and soon. Where they do not, a caller that must know that a
    /// watch is complete must read the store instead.
    fn reports_progress(&self) -> bool {
        true
    }

    /// Requests progress from the open watches at once, before its regular interval. It is a hint: a store whose
    /// watches are never behind their progress ignores it.
    fn hasten_progress(&self) {}

    /// Returns the number of the history in this process. It grows as soon as the backend notices that its data were
    /// replaced by an older copy, or by others. All revisions from before are then compacted: nothing that was read may be
    /// used, and all watches end with `Rewound`.
    fn history(&self) -> u64 {
        0
    }

    /// Returns the stored form, as this process knows it. A backend without a record of it has the oldest one.
    fn form(&self) -> Form {
        Form::of(Form::OLDEST)
    }

    /// Returns the form of the store, if this release cannot read it. Then all calls fail.
    fn unreadable_form(&self) -> Option<u64> {
        None
    }

    /// Returns how often a watch of this process has reported a value in a form that no server on this store writes. Another
    /// program, or a server of an old release, has written it. Each watch counts by itself.
    fn stray_writes(&self) -> u64 {
        0
    }

    /// Replaces the stored form, if it is the `expected` one. From then on no write that was begun in another form succeeds.
    ///
    /// # Errors
    /// `Refused`, also by a backend without a record of the form; `Unavailable`.
    async fn change_form(&self, _expected: Form, _new: Form) -> StoreResult<()> {
        let reason = "this store has one form: only programs on etcd change it".to_owned();
        Err(StoreError::Refused { operation: "change the stored form", reason })
    }

    /// Returns true from the moment the backend notices that until it serves the new history. All calls fail with
    /// `Rewound`.
    fn is_rewound(&self) -> bool {
        false
    }
}
