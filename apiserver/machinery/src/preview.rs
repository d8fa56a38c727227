//! Preview of a change: its effects on other objects, as warnings for the client of a dry run.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use crate::admission::Permissions;

/// Future of the warnings of a preview, without the syntax of the header.
pub type Warnings = Pin<Box<dyn Future<Output = Vec<String>> + Send>>;

/// Change that a dry run checks, in the stored version of the kind.
#[derive(Debug)]
pub struct PreviewedChange {
    /// The stored object.
    pub old: Value,
    /// The object as it would be stored: with the defaults, and after all checks.
    pub new: Value,
    /// Permissions of the client.
    pub permissions: Arc<dyn Permissions>,
}

/// Preview of the changes of a kind.
pub trait Preview: Send + Sync + Debug + 'static {
    /// Returns the warnings about the effects of a change: none if it has no effects, or if the client may not know
    /// them. It reports its own errors as warnings, too.
    ///
    /// The store runs the future as a task of its own, and ends it after a time limit.
    fn warnings(&self, change: PreviewedChange) -> Warnings;
}
