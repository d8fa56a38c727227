//! What was recorded.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a version of an object says of itself. `count` grows by one with every update, and `token`
/// names the one write that made it: two updates from the same version cannot both be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Which of the objects that had this name.
    pub uid: String,
    /// How many writes made it, the creation included.
    pub count: u64,
    /// The write that made it.
    pub token: String,
}

impl Content {
    /// Whether watchers of odd counts see it: half the versions, by a label.
    pub const fn is_odd(&self) -> bool {
        self.count % 2 == 1
    }
}

/// How a write ended, as its writer was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// This was stored at this revision.
    Stored(u64, Content),
    /// The object with this uid is gone.
    Deleted(String),
    /// Nothing was written.
    Refused,
    /// Nobody said.
    Unknown,
}

/// One write. Times are since the beginning of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// The object's name.
    pub key: String,
    /// When it was acknowledged.
    pub ended: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// What a consistent read showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// One object with its revision, or that there is none.
    One(String, Option<(u64, Content)>),
    /// All of them, as of a revision.
    All(u64, BTreeMap<String, (u64, Content)>),
}

/// One read that named no revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// Who read, from where.
    pub reader: String,
    /// When it was asked.
    pub begun: Duration,
    /// When it was answered.
    pub ended: Duration,
    /// What the answer was.
    pub seen: Seen,
}

/// One thing a watcher was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Everything as of a revision: by a list, or by the beginning of a watch.
    State(u64, BTreeMap<String, (u64, Content)>),
    /// An object was added or modified.
    Put(u64, String, Content),
    /// An object is gone, or no longer selected.
    Gone(u64, String, Content),
    /// Everything up to this revision was told.
    Bookmark(u64),
}

/// What a watcher sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Every object.
    All,
    /// Those with an odd count.
    Odd,
}

/// One watcher: all of its streams, each from where the last one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watcher {
    /// Who it is.
    pub name: String,
    /// What it selects.
    pub selection: Selection,
    /// What it was told, in order.
    pub told: Vec<Told>,
}

/// Everything that was recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// By all writers.
    pub writes: Vec<Write>,
    /// By all readers.
    pub reads: Vec<Read>,
    /// The watchers.
    pub watchers: Vec<Watcher>,
    /// The revision of the last write, which every watcher had to be told.
    pub last: u64,
}
