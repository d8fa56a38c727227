//! Violations that the checker finds.

use std::fmt;

/// An observation that no single history explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A watcher did not receive a change that other watchers received, or that was acknowledged.
    LostEvent {
        /// The watcher; empty if no watcher received the change.
        watcher: String,
        /// Revision of the change.
        revision: u64,
    },
    /// A watcher received a change twice, or a change that did not happen.
    DuplicateEvent {
        /// The watcher.
        watcher: String,
        /// Revision of the change.
        revision: u64,
    },
    /// A watcher received an earlier change after a later one.
    OutOfOrder {
        /// The watcher.
        watcher: String,
        /// Revision of the earlier change.
        revision: u64,
        /// Revision of the later change.
        after: u64,
    },
    /// Two clients received different changes of one revision.
    Disagreement {
        /// The revision.
        revision: u64,
        /// Both changes.
        detail: String,
    },
    /// Two writes were both acknowledged although both were made from the same version.
    LostUpdate {
        /// The object.
        key: String,
        /// The revision of the later one.
        revision: u64,
        /// The two versions that contradict each other.
        detail: String,
    },
    /// A read returned a state from before a write or read that ended before it began.
    StaleRead {
        /// The reader.
        reader: String,
        /// Revision that the result should have contained.
        floor: u64,
        /// The result.
        detail: String,
    },
    /// A read or the initial state of a watch returned a state that never existed.
    WrongState {
        /// The reader or watcher.
        reader: String,
        /// Revision of the state.
        revision: u64,
        /// The part that is wrong.
        detail: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostEvent { watcher, revision } if watcher.is_empty() => {
                write!(f, "no watcher received revision {revision}")
            }
            Self::LostEvent { watcher, revision } => {
                write!(f, "{watcher} did not receive revision {revision}")
            }
            Self::DuplicateEvent { watcher, revision } => {
                write!(f, "{watcher} received revision {revision} twice or without a cause")
            }
            Self::OutOfOrder { watcher, revision, after } => {
                write!(f, "{watcher} received revision {revision} after {after}")
            }
            Self::Disagreement { revision, detail } => write!(f, "revision {revision}: {detail}"),
            Self::LostUpdate { key, revision, detail } => {
                write!(f, "{key}: an update was lost at revision {revision}: {detail}")
            }
            Self::StaleRead { reader, floor, detail } => {
                write!(f, "{reader} read a state older than revision {floor}: {detail}")
            }
            Self::WrongState { reader, revision, detail } => {
                write!(f, "{reader} received a state that never existed, as of revision {revision}: {detail}")
            }
        }
    }
}
