//! Protected objects in the conditions of owners that are being deleted. Pure.

use apiserver_types::protection::{PROTECTED, is_protected};
use controllers_runtime::ReconcileError;
use kube::{Resource, ResourceExt};

use crate::aggregate::{NAMES, list_names};

/// Describes the protected ones among the objects that an owner deletes. `None` if there are none.
pub(crate) fn note<K: Resource>(objects: &[K]) -> Option<String> {
    let protected = objects.iter().filter(|object| is_protected(object.meta()));
    note_of(protected.map(ResourceExt::name_any))
}

/// Describes protected objects of these names. `None` if there are none.
pub(crate) fn note_of(names: impl IntoIterator<Item = String>) -> Option<String> {
    let names: Vec<String> = names.into_iter().collect();
    let list = list_names(names.iter().map(String::as_str), NAMES);
    (!names.is_empty()).then(|| {
        format!("Not deleted because of the annotation or label {PROTECTED}: {list}. Remove it to go on")
    })
}

/// Returns true if the server has refused a deletion, e.g. because the object is protected. Other deletions can succeed.
pub(crate) fn is_refusal(error: &ReconcileError) -> bool {
    matches!(error, ReconcileError::Api(kube::Error::Api(status)) if status.code == 403)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Machine, MachineSpec};

    use super::*;

    #[test]
    fn protected_objects_are_named_with_the_annotation() {
        let plain = Machine::new("a", MachineSpec::default());
        let mut protected = Machine::new("b", MachineSpec::default());
        protected.annotations_mut().insert(PROTECTED.to_owned(), "true".to_owned());
        assert_eq!(note(std::slice::from_ref(&plain)), None);
        let expected =
            "Not deleted because of the annotation or label capstan.dev/protected: b. Remove it to go on";
        assert_eq!(note(&[plain, protected]).as_deref(), Some(expected));
    }
}
