//! Stored form of the values in etcd: servers of two releases agree on it.
//!
//! A server writes the form in the record of the store, and reads the forms around it. The leader commits a newer form when
//! all live replicas can read it.

mod command;
mod decide;
mod task;

pub(crate) use self::command::{commit, downgrade, migrate, show};
pub use self::task::UnreadableForm;
pub(crate) use self::task::{StoredForm, check};
