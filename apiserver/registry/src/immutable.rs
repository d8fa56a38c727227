//! Fields that may not change.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use serde_json::Value;

/// The topology controller asks so what would become of a template.
const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

/// Whether a dry run is the topology controller's, which compares and changes nothing.
pub(crate) fn is_of_topology(new: &Value) -> bool {
    crate::shape::annotation(new, TOPOLOGY_DRY_RUN).is_some()
}

/// A fault when the field at `path` (dotted, from the root) differs between `new` and `old`.
pub(crate) fn field(new: &Value, old: &Value, path: &str) -> Option<FieldError> {
    let pointer = format!("/{}", path.replace('.', "/"));
    let (now, before) = (new.pointer(&pointer), old.pointer(&pointer));
    (now != before).then(|| fault(FieldPath::new(path), now))
}

/// Faults for every field of `spec` that differs between `new` and `old` once `allow` has made the
/// differences that are permitted disappear from both.
pub(crate) fn spec_fields(
    new: &Value,
    old: &Value,
    allow: impl Fn(&mut Value, &mut Value),
) -> Vec<FieldError> {
    let (now, before) = allowed(new, old, allow);
    let empty = serde_json::Map::new();
    let (now, before) = (now.as_object().unwrap_or(&empty), before.as_object().unwrap_or(&empty));
    let mut names: Vec<&String> = now.keys().chain(before.keys()).collect();
    names.sort();
    names.dedup();
    let changed = names.into_iter().filter(|name| now.get(*name) != before.get(*name));
    changed.map(|name| fault(FieldPath::new("spec").child(name), now.get(name))).collect()
}

/// A fault of the whole `spec` when anything in it differs once `allow` has made the differences that
/// are permitted disappear from both.
pub(crate) fn spec(new: &Value, old: &Value, allow: impl Fn(&mut Value, &mut Value)) -> Option<FieldError> {
    let (now, before) = allowed(new, old, allow);
    (now != before).then(|| FieldError::forbidden(FieldPath::new("spec"), "cannot be modified"))
}

fn allowed(new: &Value, old: &Value, allow: impl Fn(&mut Value, &mut Value)) -> (Value, Value) {
    let part = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    let (mut now, mut before) = (part(new), part(old));
    allow(&mut now, &mut before);
    (now, before)
}

fn fault(path: FieldPath, now: Option<&Value>) -> FieldError {
    let shown = now.cloned().unwrap_or_default();
    FieldError::invalid(path, &shown, "field is immutable")
}

/// Removes a field given by a dotted path below `value`.
pub(crate) fn forget(value: &mut Value, path: &str) {
    let (parents, name) = path.rsplit_once('.').map_or(("", path), |(parents, name)| (parents, name));
    let pointer = if parents.is_empty() { String::new() } else { format!("/{}", parents.replace('.', "/")) };
    if let Some(parent) = value.pointer_mut(&pointer).and_then(Value::as_object_mut) {
        parent.remove(name);
    }
}
