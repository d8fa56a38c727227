//! Errors of a store call, independent of the backend.

use crate::{Key, Revision};

/// Result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

/// Error of a store call, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A create met an existing key. Nothing was written.
    #[error("{key} already exists at revision {found}")]
    Exists {
        /// The key.
        key: Key,
        /// Its current revision.
        found: Revision,
    },

    /// Another client wrote after the caller's read, or the key is gone ([`Revision::NONE`]). Nothing was written.
    /// Read again, then retry.
    #[error("{key} is at revision {found}, expected {expected}")]
    Conflict {
        /// The key.
        key: Key,
        /// The revision the write was guarded by.
        expected: Revision,
        /// The revision it has.
        found: Revision,
    },

    /// The requested revision precedes the history that is kept.
    #[error("revision {requested} is compacted; the oldest kept is {oldest}")]
    Compacted {
        /// The requested revision.
        requested: Revision,
        /// The oldest revision that can still be read ([`Revision::NONE`] if the backend did not report it).
        oldest: Revision,
    },

    /// The requested revision has not happened yet.
    #[error("revision {requested} is in the future; the current is {current}")]
    Future {
        /// The requested revision.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },

    /// The value is larger than the backend accepts. Nothing was written.
    #[error("{key}: a value of {size} bytes is too large; the limit is {limit}")]
    TooLarge {
        /// The key.
        key: Key,
        /// Size of the value.
        size: usize,
        /// The backend's limit.
        limit: usize,
    },

    /// No answer from the backend: the write may or may not have happened. Resolve it with a read, never with a blind
    /// retry.
    #[error("{operation} {key} has an unknown outcome")]
    Unknown {
        /// Name of the call.
        operation: &'static str,
        /// The key.
        key: Key,
        /// Error of the backend or the network.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The backend answers and does not write: it has no space left, or is configured not to. Nothing was written.
    #[error("storage refuses to {operation}: {reason}")]
    Refused {
        /// Name of the call.
        operation: &'static str,
        /// The backend's message, and what to do if that is known. Nothing in it is secret.
        reason: String,
    },

    /// The backend cannot be reached, or a read was refused; nothing was written.
    #[error("storage is unavailable for {operation}")]
    Unavailable {
        /// Name of the call.
        operation: &'static str,
        /// Error of the backend or the network.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The history of the backend went back: an older copy of its data, or another store, is in its place. Nothing was
    /// written. The backend begins a new history by itself; then read everything again.
    #[error("the history of storage went back: {detail}")]
    Rewound {
        /// The difference that the backend noticed.
        detail: String,
    },

    /// The store has a stored form that this release cannot read. Nothing was written.
    #[error(
        "the store has form {found}, and this release reads forms {} to {}: use the release that committed it, or a newer \
         one",
        crate::Form::OLDEST,
        crate::Form::NEWEST
    )]
    Form {
        /// Form of the store.
        found: u64,
    },

    /// The backend holds impossible data: an operator must look.
    #[error("storage is damaged: {detail}")]
    Corrupt {
        /// The data found, and its location.
        detail: String,
    },
}
