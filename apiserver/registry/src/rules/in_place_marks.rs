//! Marks of updates in place, which only the controllers write.
//!
//! A client that could write them could let a controller begin an update that no extension server has accepted. The amounts of
//! a quota would then follow the template, while the server stays as it is.

use apiserver_machinery::admission::GrantingWrite;
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::Descriptor;
use serde_json::Value;

use crate::rules::json_fields::annotation;

/// Annotation of an object that an extension server updates in place. Upstream's name. The owner of the Machine writes it with
/// the new spec, and the server makes the change in the cloud.
pub(crate) const UPDATING: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

/// Marks of a Machine. Upstream's names, as those of a MachineSet.
pub(crate) const OF_MACHINES: &[&str] = &[
    UPDATING,
    "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move",
    "runtime.cluster.x-k8s.io/pending-hooks",
];

/// Marks of a MachineSet.
pub(crate) const OF_SETS: &[&str] = &[
    "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset",
    "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets",
    "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move",
];

/// Reason why a client may not write a mark.
const OF_CONTROLLERS: &str = "the controllers of Capstan alone set, change and remove this mark: it belongs to a rollout whose \
    changes an extension server makes in place. Leave it as it is";

/// Checks that no client changes a mark of a stored object. An object that is created with marks keeps them: `clusterctl move`
/// takes them along.
///
/// # Errors
/// 422, which names the annotations.
pub(crate) fn check(write: GrantingWrite<'_>, kind: &Descriptor, marks: &[&str]) -> ApiResult<()> {
    let old = write.old.filter(|_| !write.permissions.is_internal());
    let errors = old.map(|old| changed(write.new, old, marks)).unwrap_or_default();
    if errors.is_empty() {
        return Ok(());
    }
    let Descriptor { group, kind, .. } = kind;
    Err(ApiError::invalid_kind(&format!("{kind}.{group}"), object::name(write.new), &errors))
}

/// Returns an error for each mark that differs.
pub(crate) fn changed(new: &Value, old: &Value, marks: &[&str]) -> Vec<FieldError> {
    let differ = marks.iter().filter(|mark| annotation(new, mark) != annotation(old, mark));
    let path = |mark: &str| FieldPath::new("metadata.annotations").key(mark);
    differ.map(|mark| FieldError::forbidden(path(mark), OF_CONTROLLERS)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_mark_that_differs_is_named() {
        let object = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        let marked = |hooks: &str| object(json!({UPDATING: "", OF_MACHINES[2]: hooks}));
        let (plain, set) = (object(json!({"a": "b"})), marked("UpdateMachine"));
        let other = marked("UpdateMachine,Other");
        let named = |new: &Value, old: &Value| {
            let errors = changed(new, old, OF_MACHINES);
            errors.iter().map(|error| error.field.to_string()).collect::<Vec<_>>()
        };
        let [updating, hooks] =
            [UPDATING, OF_MACHINES[2]].map(|mark| format!("metadata.annotations[{mark}]"));
        assert_eq!(named(&plain, &json!({})), [""; 0]);
        assert_eq!(named(&set, &set), [""; 0]);
        assert_eq!(named(&set, &plain), [updating.clone(), hooks.clone()]);
        assert_eq!(named(&plain, &set), [updating, hooks.clone()]);
        assert_eq!(named(&other, &set), [hooks]);
        assert_eq!(changed(&set, &plain, OF_SETS), [], "they are no marks of a MachineSet");
    }
}
