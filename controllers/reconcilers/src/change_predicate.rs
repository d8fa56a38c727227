//! Change predicate: filters the change events of an object for those that depend on it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use kube::{Resource, ResourceExt};

/// Predicate that passes changes of the spec and drops changes of the status.
#[derive(Debug, Default)]
pub(crate) struct ChangePredicate(Mutex<HashMap<String, State>>);

/// Generation, deletion and pause of an object.
type State = (Option<i64>, bool, bool);

impl ChangePredicate {
    /// Returns true if spec, deletion or pause of an object differ from those of the last call.
    pub(crate) fn is_new<K: Resource>(&self, object: &K) -> bool {
        let deleting = object.meta().deletion_timestamp.is_some();
        let state = (object.meta().generation, deleting, controllers_runtime::paused(object, None));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(object.uid().unwrap_or_default(), state) != Some(state)
    }
}
