//! Change predicate: filters the change events of an object for those that depend on it.

use std::collections::HashMap;
use std::fmt::{self, Debug, Write};
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::sync::{Mutex, PoisonError};

use kube::Resource;

/// Predicate that passes changes of the spec and drops changes of the status.
///
/// It knows only hashes: of the uid of each object, and of its generation, its deletion, its pause and the other part of it
/// that matters. A part such as all conditions would take kilobytes for each object.
#[derive(Debug, Default)]
pub(crate) struct ChangePredicate {
    known: Mutex<HashMap<u64, u64>>,
    hashes: RandomState,
}

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
        let uid = self.hash(&object.meta().uid);
        let state = self.hash(&(object.meta().generation, deleting, paused, part));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(uid, state) != Some(state)
    }

    /// Returns a hash of the text of a value.
    fn hash(&self, value: &impl Debug) -> u64 {
        let mut text = HashedText(self.hashes.build_hasher());
        // No write to it fails.
        let _ = write!(text, "{value:?}");
        text.0.finish()
    }
}

/// Hash of a text that is not kept.
struct HashedText(DefaultHasher);

impl Write for HashedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Machine, MachineSpec};
    use kube::ResourceExt;

    use super::*;

    #[test]
    fn a_change_of_the_spec_or_of_the_named_part_is_new_once() {
        let predicate = ChangePredicate::default();
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        let is_new = |machine: &Machine, part: &[&str]| predicate.is_new_with(machine, &part);
        assert!(is_new(&machine, &["a"]));
        assert!(!is_new(&machine, &["a"]));
        assert!(is_new(&machine, &["a", "b"]), "another part");
        assert!(is_new(&machine, &["ab"]), "another part with the same letters");
        machine.metadata.generation = Some(2);
        assert!(is_new(&machine, &["ab"]), "another spec");
        machine.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
        assert!(is_new(&machine, &["ab"]), "paused");
        assert!(!is_new(&machine, &["ab"]));
        machine.metadata.uid = Some("v".to_owned());
        assert!(is_new(&machine, &["ab"]), "another object");
    }
}
