//! Errors of backup files and of copies between stores.

use storage_contract::{Key, StoreError};

/// Error of a backup file, or of a copy between stores.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The file cannot be read or written.
    #[error("the backup file cannot be read or written: {0}")]
    Io(#[from] std::io::Error),
    /// The file does not begin as a backup does.
    #[error("this is no backup file of capstan, or its header is damaged: {0}")]
    NotABackup(String),
    /// The file is of a newer release.
    #[error(
        "this backup has format {found}, and this release reads format {known}: use the release that wrote it"
    )]
    Version {
        /// Format of the file.
        found: String,
        /// Format that this release reads.
        known: u32,
    },
    /// The file was sealed with another backup key.
    #[error("this backup was sealed with the backup key {expected}, and the given key is {found}")]
    WrongKey {
        /// Fingerprint of the key that sealed it.
        expected: String,
        /// Fingerprint of the given key.
        found: String,
    },
    /// A frame cannot be opened, or has impossible content.
    #[error("frame {frame} of the backup is damaged: {detail}")]
    Damaged {
        /// Number of the frame, from 0.
        frame: u32,
        /// The problem.
        detail: String,
    },
    /// The file ends before its last frame.
    #[error(
        "the backup ends after {frames} frames, without its last one: the file was cut off, or never completed"
    )]
    CutOff {
        /// Number of complete frames.
        frames: u32,
    },
    /// The cipher or the source of randomness failed.
    #[error("the system's cryptography failed")]
    Crypto,
    /// A field of the header has a line break, or the file needs too many frames.
    #[error("the backup cannot be written: {0}")]
    Unwritable(String),
    /// The target has another value for a key.
    #[error("{key}: the target has another value than the source; is a server still running on it?")]
    Differs {
        /// The key.
        key: Key,
    },
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
