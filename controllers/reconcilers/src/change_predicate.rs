//! What of an object is news to those who depend on it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::{Resource, ResourceExt};

/// Tells changes of what is wanted from changes of what is reported.
#[derive(Debug, Default)]
pub(crate) struct ChangePredicate(Mutex<HashMap<String, State>>);

/// Generation, whether it is being deleted, and whether it is paused.
type State = (Option<i64>, bool, bool);

impl ChangePredicate {
    /// Whether an object's spec, deletion or pause is another than when last asked.
    pub(crate) fn is_new<K: Resource>(&self, object: &K) -> bool {
        let deleting = object.meta().deletion_timestamp.is_some();
        let state = (object.meta().generation, deleting, controllers_runtime::paused(object, None));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(object.uid().unwrap_or_default(), state) != Some(state)
    }
}
