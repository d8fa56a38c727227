//! Removal of empty objects and lists. The stored version rejects most of them, because absent means the same. Older
//! versions accept them.

use serde_json::Value;

/// Drops empty objects and lists at any depth below `value`, including those that become empty by that. Fields whose
/// names are in `meaningful` stay, because empty has a meaning there.
pub(crate) fn drop_all(value: &mut Value, meaningful: &[&str]) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| drop_all(field, meaningful));
            fields.retain(|name, field| meaningful.contains(&name.as_str()) || !is_empty(field));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_all(item, meaningful)),
        _ => {}
    }
}

/// Drops an empty object or list at `path`, and keeps its parent.
pub(crate) fn drop_at(object: &mut Value, path: &str) {
    if crate::fields::get(object, path).is_some_and(is_empty) {
        crate::fields::take(object, path);
    }
}

/// Drops empty objects, lists and texts at `paths`, in this order.
pub(crate) fn drop_each(object: &mut Value, paths: &[&str]) {
    for path in paths {
        let found = crate::fields::get(object, path);
        if found.is_some_and(|value| is_empty(value) || value.as_str() == Some("")) {
            crate::fields::take(object, path);
        }
    }
}

/// Drops a number below 1. In the stored version, the minimum is 1, and 0 means absent.
pub(crate) fn drop_below_one(object: &mut Value, path: &str) {
    if crate::fields::get(object, path).and_then(Value::as_i64).is_some_and(|number| number < 1) {
        crate::fields::take(object, path);
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_become_empty_are_dropped_unless_emptiness_is_significant() {
        let mut value =
            json!({"a": {"b": {}, "c": []}, "taints": [], "d": {"taints": []}, "e": [{"f": {}}], "g": ""});
        drop_all(&mut value, &["taints"]);
        assert_eq!(value, json!({"taints": [], "d": {"taints": []}, "e": [{}], "g": ""}));
    }

    #[test]
    fn a_parent_that_an_earlier_path_emptied_is_dropped_by_a_later_path() {
        let mut value = json!({"a": {"b": "", "c": []}, "d": "x", "e": {}});
        drop_each(&mut value, &["a.b", "a.c", "a", "d"]);
        assert_eq!(value, json!({"d": "x", "e": {}}));
    }

    #[test]
    fn numbers_below_one_are_dropped() {
        let mut value = json!({"a": 0, "b": -3, "c": 1, "d": "0"});
        for path in ["a", "b", "c", "d", "e"] {
            drop_below_one(&mut value, path);
        }
        assert_eq!(value, json!({"c": 1, "d": "0"}));
    }
}
