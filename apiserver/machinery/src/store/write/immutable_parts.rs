//! Parts of an object that a write may not change, and the fields that the server maintains.

use serde_json::{Value, json};

use super::create;
use super::update::{Modification, Target};
use crate::object;
use crate::status::ApiResult;
use crate::store::Kind;

/// Reduces an update of the status to the stored object with the new status and the field managers that were sent. All
/// other fields are ignored.
pub(crate) fn keep_status(kind: Kind<'_>, new: &mut Value, old: &Value, target: Target) {
    restore(kind, new, old, target);
}

/// Restores the parts that this write may not change, and sets the fields that the server maintains.
pub(crate) fn settle(kind: Kind<'_>, new: &mut Value, old: &Value, how: Modification<'_>) -> ApiResult<()> {
    if !how.target.is_in_status() {
        restore(kind, new, old, how.target);
    }
    for field in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "namespace",
        "generation",
        "resourceVersion",
    ] {
        let (kept, sent) = (object::metadata_field(old, field), object::metadata_field(new, field));
        match kept {
            // Usually the client sends it unchanged.
            _ if kept == sent => {}
            Some(value) => object::set_meta(new, field, value.clone()),
            None => object::remove_meta(new, field),
        }
    }
    if object::metadata_field(new, "selfLink").is_some() {
        object::remove_meta(new, "selfLink");
    }
    create::prepare_by_kind(kind, new, Some(old), how.target, how.origin)
}

/// Restores the parts that this write may not change.
fn restore(kind: Kind<'_>, new: &mut Value, old: &Value, target: Target) {
    let managers = new.get_mut("metadata").and_then(|meta| meta.get_mut("managedFields")).map(Value::take);
    restore_other_parts(kind, new, old, target);
    match managers {
        Some(managers) => object::set_meta(new, "managedFields", managers),
        None => object::remove_meta(new, "managedFields"),
    }
}

/// Increments the generation if the desired state changes.
pub(crate) fn count_generation(kind: Kind<'_>, new: &mut Value, old: &Value) {
    if kind.resource.generation && is_new_generation(kind, new, old) {
        let generation = object::at(old, "metadata.generation").and_then(Value::as_i64).unwrap_or_default();
        object::set_meta(new, "generation", generation + 1);
    }
}

/// Keeps the written part of `new`, and restores the other parts from `old`.
fn restore_other_parts(kind: Kind<'_>, new: &mut Value, old: &Value, target: Target) {
    match target {
        Target::Status | Target::Approval => {
            // A null status is an absent one, in any write.
            let status = new.get_mut("status").map(Value::take).filter(|status| !status.is_null());
            *new = object::without(old, &["status"]);
            set_or_remove(new, "status", status);
            kind.resource.strategy.settle_part(target.subresource(), new, old);
        }
        Target::Finalizers => {
            let finalizers = object::at(new, "spec.finalizers").cloned();
            *new = object::without(old, &[]);
            set_spec_finalizers(new, finalizers);
        }
        Target::Object => {
            if kind.resource.status_subresource && new.get("status") != old.get("status") {
                set_or_remove(new, "status", old.get("status").cloned());
            }
            if kind.resource.strategy.has_spec_finalizers() {
                set_spec_finalizers(new, object::at(old, "spec.finalizers").cloned());
            }
        }
    }
}

/// Returns true if a change requires a reaction of controllers.
fn is_new_generation(kind: Kind<'_>, new: &Value, old: &Value) -> bool {
    let counts =
        |field: &str| field != "metadata" && !(field == "status" && kind.resource.status_subresource);
    fn fields(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
        object.as_object().into_iter().flatten()
    }
    let counted = |object| fields(object).filter(|(field, _)| counts(field));
    !counted(new).eq(counted(old))
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<Value>) {
    if let Some(root) = object.as_object_mut() {
        match value {
            Some(value) => root.insert(field.to_owned(), value),
            None => root.remove(field),
        };
    }
}

fn set_spec_finalizers(object: &mut Value, finalizers: Option<Value>) {
    let Some(root) = object.as_object_mut() else { return };
    let spec = root.entry("spec").or_insert_with(|| json!({}));
    set_or_remove(spec, "finalizers", finalizers);
}
