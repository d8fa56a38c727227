//! JSON merge patch, for patches of clients and for those of extension servers.
//!
//! RFC 7386, with one exception, like upstream: if a list replaces anything but an object, the nulls in the objects of
//! the list are dropped.

use serde_json::{Map, Value};

/// Merges a patch into an object.
pub fn merge(fields: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (name, wanted) in patch {
        match (fields.get_mut(name), wanted) {
            (_, Value::Null) => {
                fields.remove(name);
            }
            (Some(Value::Object(present)), Value::Object(patch)) => merge(present, patch),
            (Some(present @ Value::Object(_)), wanted) => *present = wanted.clone(),
            (_, wanted) => {
                fields.insert(name.clone(), without_nulls(wanted));
            }
        }
    }
}

/// Returns the value without the fields that are null. An item that is null stays.
pub fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn patches_are_merged_as_upstream_merges_them() {
        let table = [
            (json!({"a": 1}), json!({"a": null, "b": 2}), json!({"b": 2})),
            (json!({"a": {"b": 1}}), json!({"a": {"c": {"d": null}}}), json!({"a": {"b": 1, "c": {}}})),
            (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
            (json!({"a": [1]}), json!({"a": [{"b": null, "c": [null]}]}), json!({"a": [{"c": [null]}]})),
            (json!({}), json!({"a": [{"b": null}]}), json!({"a": [{}]})),
            (json!({"a": {}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
            (json!({"a": null}), json!({"a": {"b": null}}), json!({"a": {}})),
        ];
        for (mut object, patch, expected) in table {
            merge(object.as_object_mut().unwrap(), patch.as_object().unwrap());
            assert_eq!(object, expected, "{patch}");
        }
    }
}
