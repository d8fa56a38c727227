//! Access to fields of objects that have not been validated.

use serde_json::Value;

/// Returns the value at a dotted path of fields.
pub(super) fn get<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(root, |value, field| value.as_object()?.get(field))
}

/// Returns the items of the list at a dotted path, with their indices.
pub(super) fn items<'a>(root: &'a Value, path: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    get(root, path).and_then(Value::as_array).into_iter().flatten().enumerate()
}
