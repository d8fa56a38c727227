//! Backup of a store: the file, and the copy of all values from one store to another.
//!
//! A backup file has all keys of a store as of one revision, with their values as the store returns them: sealed values
//! stay sealed. Its parts:
//!
//! 1. The header: lines of text that a person can read ([`Header`]).
//! 2. Frames. Each has at most 64 KiB, and is sealed with AES-256-GCM. The key is derived from the backup key and the
//!    random salt of the file. The nonce has the salt, the number of the frame, and whether it is the last one. The
//!    digest of the header is authenticated with each frame. So no frame can be changed, moved, left out or put into
//!    another file.
//! 3. The last frame: the number of the entries, their size, and the SHA-256 of all of them.
//!
//! This crate knows nothing of kinds or JSON. Readers of values check them.

mod copy;
mod error;
mod frame;
mod header;
mod key;
mod reader;
mod record;
mod scan;
mod writer;

pub use copy::{Copied, Difference, compare, copy_in, move_aside};
pub use error::BackupError;
pub use header::Header;
pub use key::BackupKey;
pub use reader::{Reader, check_complete};
pub use record::Summary;
pub use scan::Scan;
pub use writer::Writer;

/// Prefix of all keys of a store.
pub const ROOT: &str = "/capstan/";

/// Key of the record of the store's incarnation. Each store has its own.
const INCARNATION: &str = "/capstan/meta/store";

/// Key of the record with which servers agree on compactions. It is a revision of one store.
const COMPACTION: &str = "/capstan/compaction";

/// Key of the record of the last restore. It describes one store.
pub const RESTORED: &str = "/capstan/meta/restored";

/// Prefix of the locks of requests in flight.
const LOCKS: &str = "/capstan/locks/";

/// Returns true if a restore writes this key. It leaves out those that describe one store and the servers on it.
pub fn is_portable(key: &str) -> bool {
    let is_of_one_store = [INCARNATION, COMPACTION, RESTORED].contains(&key);
    key.starts_with(ROOT) && !is_of_one_store && !key.starts_with(LOCKS)
}
