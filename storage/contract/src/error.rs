//! Why a store call failed, in the words of the store and not of its backend.

use crate::{Key, Revision};

/// The result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

/// Why a store call failed, as the caller can act on it.
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

    /// Somebody wrote between our read and our write, or the key is gone ([`Revision::NONE`]).
    /// Nothing was written. Read again, then retry.
    #[error("{key} is at revision {found}, expected {expected}")]
    Conflict {
        /// The key.
        key: Key,
        /// The revision the write was guarded by.
        expected: Revision,
        /// The revision it has.
        found: Revision,
    },

    /// The revision asked for lies before the history that is kept.
    #[error("revision {requested} is compacted; the oldest kept is {oldest}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision that can still be read ([`Revision::NONE`] if the backend did not say).
        oldest: Revision,
    },

    /// The revision asked for has not happened yet.
    #[error("revision {requested} is in the future; the current is {current}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest there is.
        current: Revision,
    },

    /// The value is larger than the backend takes. Nothing was written.
    #[error("{key}: a value of {size} bytes is too large; the limit is {limit}")]
    TooLarge {
        /// The key.
        key: Key,
        /// Size of the value.
        size: usize,
        /// The backend's limit.
        limit: usize,
    },

    /// No answer from the backend: the write may or may not have happened.
    /// Answer it by reading, never by a blind retry.
    #[error("{operation} {key} has an unknown outcome")]
    Unknown {
        /// Which call.
        operation: &'static str,
        /// The key.
        key: Key,
        /// What the backend or the network said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The backend is there and does not write: it has no space left, or was told not to. Nothing was written.
    #[error("storage refuses to {operation}: {reason}")]
    Refused {
        /// Which call.
        operation: &'static str,
        /// What the backend said, and what to do if that is known. Nothing in it is secret.
        reason: String,
    },

    /// The backend cannot be reached, or a read was refused; nothing was written.
    #[error("storage is unavailable for {operation}")]
    Unavailable {
        /// Which call.
        operation: &'static str,
        /// What the backend or the network said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The backend holds something that cannot be: a person must look.
    #[error("storage is damaged: {detail}")]
    Corrupt {
        /// What was found, and where.
        detail: String,
    },
}
