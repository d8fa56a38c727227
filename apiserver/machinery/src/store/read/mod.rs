//! Reads: get, list and watch, served from the watch cache.

mod fixed;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod remaining;
pub(crate) mod watch;
