//! Records of a run: the observations of all clients.

use std::collections::BTreeMap;
use std::time::Duration;

/// Content of one version of an object. `count` grows by one with every update, and `token` names the write
/// that created the version: two updates from the same version cannot both be correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// Uid of the object, which tells apart objects of the same name.
    pub uid: String,
    /// Number of writes of the object, with the creation.
    pub count: u64,
    /// Token of the write that created the version.
    pub token: String,
}

impl Content {
    /// Returns true if watchers of odd counts select it: half the versions, by a label.
    pub const fn is_odd(&self) -> bool {
        self.count % 2 == 1
    }
}

/// Outcome of a write, as reported to its writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    /// This content was stored at this revision.
    Stored(u64, Content),
    /// The object with this uid was deleted.
    Deleted(String),
    /// Nothing was written.
    Refused,
    /// There was no response, or it was a server error.
    Unknown,
}

/// One write. Times count from the beginning of the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteRecord {
    /// The object's name.
    pub key: String,
    /// Time at which it was acknowledged.
    pub ended: Duration,
    /// Its outcome.
    pub outcome: WriteOutcome,
}

/// Result of a consistent read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadResult {
    /// One object with its revision, or `None` if it does not exist.
    One(String, Option<(u64, Content)>),
    /// All objects, as of a revision.
    All(u64, BTreeMap<String, (u64, Content)>),
}

/// One read without a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRecord {
    /// Name of the reader and its server.
    pub reader: String,
    /// Time of the request.
    pub begun: Duration,
    /// Time of the response.
    pub ended: Duration,
    /// Result of the read.
    pub result: ReadResult,
}

/// One delivery to a watcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// All objects as of a revision: from a list, or from the initial events of a watch.
    State(u64, BTreeMap<String, (u64, Content)>),
    /// An object was added or modified.
    Put(u64, String, Content),
    /// An object was deleted, or is no longer selected.
    Gone(u64, String, Content),
    /// All changes up to this revision were delivered.
    Bookmark(u64),
}

/// Selection of a watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// Every object.
    All,
    /// Objects with an odd count.
    Odd,
}

/// One watcher: all of its streams, each of which continues where the last one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watcher {
    /// Name of the watcher.
    pub name: String,
    /// Selection of the watcher.
    pub selection: Selection,
    /// Deliveries, in order.
    pub deliveries: Vec<Delivery>,
}

/// All records of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// Writes of all writers.
    pub writes: Vec<WriteRecord>,
    /// Reads of all readers.
    pub reads: Vec<ReadRecord>,
    /// The watchers.
    pub watchers: Vec<Watcher>,
    /// Revision of the last write, which every watcher must receive.
    pub last: u64,
}
