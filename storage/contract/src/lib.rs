//! Contract of the storage backends: the store trait, its types and its conformance suite.
//!
//! A store maps keys to bytes and gives every successful write a fresh, strictly larger [`Revision`], shared by all
//! keys. It has no notion of kinds, JSON or HTTP. The trait here defines what a backend must do, and the suite behind
//! the feature of that name proves it.

mod error;
mod form;
mod key;
mod outage;
mod revision;
mod store;
#[cfg(feature = "suite")]
pub mod suite;

pub use error::{StoreError, StoreResult};
pub use form::Form;
pub use key::{InvalidKey, Key, KeyRange};
pub use outage::Outage;
pub use revision::Revision;
pub use store::{Entry, Event, EventKind, ListOptions, Page, Store, Unchanged, WatchItem, WatchStream};
