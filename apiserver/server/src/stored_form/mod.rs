//! Stored form of the values in etcd: servers of two releases agree on it.
//!
//! A server writes the form in the record of the store, and reads the forms around it. The leader commits a newer form when
//! all live replicas can read it. The embedded store has one form in each release.

mod command;
mod decide;
mod embedded;
mod task;

pub(crate) use self::command::{commit, downgrade, migrate, show};
pub use self::task::UnreadableForm;
pub(crate) use self::task::{StoredForm, check};
