//! What cannot be.

use std::fmt;

/// One thing that no single history explains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A watcher was not told of a change that others were told of, or that was acknowledged.
    LostEvent {
        /// Who was not told; empty for everybody.
        watcher: String,
        /// What.
        revision: u64,
    },
    /// A watcher was told twice, or of what did not happen.
    DoubledEvent {
        /// Who.
        watcher: String,
        /// Of what.
        revision: u64,
    },
    /// A watcher was told of an earlier change after a later one.
    OutOfOrder {
        /// Who.
        watcher: String,
        /// The earlier one.
        revision: u64,
        /// The later one.
        after: u64,
    },
    /// Two were told different things of one revision.
    Disagreement {
        /// Of which.
        revision: u64,
        /// What they were told.
        detail: String,
    },
    /// Two writes were both acknowledged although both were made from the same version.
    LostUpdate {
        /// The object.
        key: String,
        /// The revision of the later one.
        revision: u64,
        /// How it is known.
        detail: String,
    },
    /// A read showed a state from before something that was acknowledged before it began.
    StaleRead {
        /// Who read.
        reader: String,
        /// What should have been in it.
        floor: u64,
        /// What it showed.
        detail: String,
    },
    /// A read or the beginning of a watch showed a state that never was.
    WrongState {
        /// Whose.
        reader: String,
        /// As of when.
        revision: u64,
        /// What is wrong with it.
        detail: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostEvent { watcher, revision } if watcher.is_empty() => {
                write!(f, "nobody was told of revision {revision}")
            }
            Self::LostEvent { watcher, revision } => {
                write!(f, "{watcher} was not told of revision {revision}")
            }
            Self::DoubledEvent { watcher, revision } => {
                write!(f, "{watcher} was told of revision {revision}, twice or without a cause")
            }
            Self::OutOfOrder { watcher, revision, after } => {
                write!(f, "{watcher} was told of revision {revision} after {after}")
            }
            Self::Disagreement { revision, detail } => write!(f, "of revision {revision}: {detail}"),
            Self::LostUpdate { key, revision, detail } => {
                write!(f, "{key}: an update was lost at revision {revision}: {detail}")
            }
            Self::StaleRead { reader, floor, detail } => {
                write!(f, "{reader} read something older than revision {floor}: {detail}")
            }
            Self::WrongState { reader, revision, detail } => {
                write!(f, "{reader} was shown what never was, as of revision {revision}: {detail}")
            }
        }
    }
}
