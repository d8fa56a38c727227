//! Reading and writing the parts of an object that every kind has.

use serde_json::{Map, Value, json};
use storage_contract::Revision;

/// A text field of `metadata`; empty when absent.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// A field of `metadata`.
pub fn metadata_field<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field)
}

/// The value at a dotted path of fields. Unlike a JSON pointer it has nothing to unescape, and so nothing to allocate:
/// a write asks some eighty times.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, field| value.as_object()?.get(field))
}

/// The name.
pub fn name(object: &Value) -> &str {
    meta(object, "name")
}

/// The namespace; empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    meta(object, "namespace")
}

/// Whether its deletion was asked for.
pub fn is_deleting(object: &Value) -> bool {
    at(object, "metadata.deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Its finalizers.
pub fn finalizers(object: &Value) -> Vec<&str> {
    at(object, "metadata.finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// What else holds an object of a kind with finalizers in its `spec`.
pub fn spec_finalizers(object: &Value) -> Vec<&str> {
    at(object, "spec.finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Its labels, or `None` when it has none.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    at(object, "metadata.labels").and_then(Value::as_object)
}

/// A copy without its owners, and without these fields. The owners are as large as the rest.
pub(crate) fn without(object: &Value, fields: &[&str]) -> Value {
    let Some(root) = object.as_object() else { return object.clone() };
    let wanted = root.iter().filter(|(name, _)| !fields.contains(&name.as_str()));
    let copy = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
        _ => (name.clone(), value.clone()),
    };
    Value::Object(wanted.map(copy).collect())
}

/// Its `metadata`, made when absent.
pub fn metadata_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let root = object.as_object_mut()?;
    let metadata = root.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata.as_object_mut()
}

/// Sets a field of `metadata`.
pub fn set_meta(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(meta) = metadata_mut(object) {
        meta.insert(field.to_owned(), value.into());
    }
}

/// Removes a field of `metadata`.
pub fn remove_meta(object: &mut Value, field: &str) {
    if let Some(meta) = metadata_mut(object) {
        meta.remove(field);
    }
}

/// Removes a nested field.
pub fn remove_at(object: &mut Value, path: &[&str]) {
    let Some((field, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |value, name| value.get_mut(*name));
    if let Some(map) = parent.and_then(Value::as_object_mut) {
        map.remove(*field);
    }
}

/// Writes the revision into `metadata.resourceVersion`, where clients see it.
pub fn set_revision(object: &mut Value, revision: Revision) {
    set_meta(object, "resourceVersion", revision.to_string());
}

/// The moment, as `metav1.Time` prints it: RFC 3339, UTC, whole seconds.
pub fn timestamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes every float that counts whole things as the integer it is, as upstream's encoder does: who
/// sends `1.0` reads `1`.
pub fn whole_numbers(value: &mut Value) {
    // Beyond this not every whole number has a float of its own.
    const SURE: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= SURE);
            if let Some(whole) = float.and_then(|float| format!("{float:.0}").parse::<i64>().ok()) {
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(map) => map.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

/// Deepest nesting of an object. Kinds of ours nest some 20 deep; the parser itself stops at 128.
pub const DEEPEST: usize = 100;

/// Deepest nesting of what is said in an object of the owners of its fields, which have a place in the
/// object and are as deep as it is themselves. In a list of objects it is still read.
const DEEPEST_OWNERS: usize = 110;

/// Whether an object is nested deeper than is read.
pub fn is_too_deep(object: &Value) -> bool {
    let Value::Object(root) = object else { return measure(object).0 > DEEPEST };
    root.iter().any(|(field, value)| match value {
        Value::Object(metadata) if field == "metadata" => metadata.iter().any(|(field, value)| {
            let deepest = if field == "managedFields" { DEEPEST_OWNERS } else { DEEPEST };
            measure(value).0 + 2 > deepest
        }),
        _ => measure(value).0 + 1 > DEEPEST,
    })
}

/// How deep a value is nested, and how many values it is made of, itself included.
pub fn measure(value: &Value) -> (usize, usize) {
    fn all<'a>(parts: impl Iterator<Item = &'a Value>) -> (usize, usize) {
        let measured = parts.map(measure);
        measured.fold((1, 1), |(deepest, values), (depth, more)| (deepest.max(1 + depth), values + more))
    }
    match value {
        Value::Array(items) => all(items.iter()),
        Value::Object(map) => all(map.values()),
        _ => (0, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!(1), |inside, _| json!([inside]))
    }

    #[test]
    fn values_are_measured_and_owners_may_be_deeper() {
        for (value, expected) in
            [(json!(1), (0, 1)), (json!({}), (1, 1)), (json!({"a": [1, [2]], "b": 1}), (3, 6))]
        {
            assert_eq!(measure(&value), expected, "{value}");
        }
        assert!(!is_too_deep(&json!({"spec": nested(DEEPEST - 1)})));
        assert!(is_too_deep(&json!({"spec": nested(DEEPEST)})));
        let owned = |depth| json!({"spec": {}, "metadata": {"managedFields": nested(depth)}});
        assert!(!is_too_deep(&owned(DEEPEST_OWNERS - 2)));
        assert!(is_too_deep(&owned(DEEPEST_OWNERS - 1)));
    }

    #[test]
    fn whole_floats_become_integers_and_nothing_else_does() {
        let mut value = json!({"a": [1.0, 1.5, -2.0, 1e300], "b": 9_007_199_254_740_993_i64});
        whole_numbers(&mut value);
        assert_eq!(value.to_string(), r#"{"a":[1,1.5,-2,1e+300],"b":9007199254740993}"#);
    }
}
