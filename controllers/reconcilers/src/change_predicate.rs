//! Change predicate: filters the change events of an object for those that depend on it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use kube::{Resource, ResourceExt};

/// Predicate that passes changes of the spec and drops changes of the status.
#[derive(Debug, Default)]
pub(crate) struct ChangePredicate(Mutex<HashMap<String, State>>);

/// Generation, deletion and pause of an object, and the other part of it that matters.
type State = (Option<i64>, bool, bool, String);

impl ChangePredicate {
    /// Returns true if spec, deletion or pause of an object differ from those of the last call.
    pub(crate) fn is_new<K: Resource>(&self, object: &K) -> bool {
        self.is_new_with(object, &())
    }

    /// Returns true if spec, deletion or pause of an object, or another `part` of it, differ from those of the last
    /// call.
    pub(crate) fn is_new_with<K: Resource>(&self, object: &K, part: &impl Debug) -> bool {
        let deleting = object.meta().deletion_timestamp.is_some();
        let paused = controllers_runtime::paused(object, None);
        let state = (object.meta().generation, deleting, paused, format!("{part:?}"));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(object.uid().unwrap_or_default(), state.clone()) != Some(state)
    }
}
