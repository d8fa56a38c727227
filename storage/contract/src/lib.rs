//! The promises every storage backend makes.
//!
//! A store maps keys to bytes and gives every successful write a fresh, strictly
//! larger [`Revision`], shared by all keys. It knows nothing of kinds, JSON or HTTP.
//! What a backend must do is said by the trait here and proved by the suite
//! behind the feature of that name.

mod error;
mod key;
mod outage;
mod revision;
mod store;
#[cfg(feature = "suite")]
pub mod suite;

pub use error::{StoreError, StoreResult};
pub use key::{InvalidKey, Key, KeyRange};
pub use outage::Outage;
pub use revision::Revision;
pub use store::{Entry, Event, EventKind, ListOptions, Page, Store, Unchanged, WatchItem, WatchStream};
