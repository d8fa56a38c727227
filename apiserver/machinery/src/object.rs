//! Accessors of the parts that every object has, such as its metadata.

use serde_json::{Map, Value, json};
use storage_contract::Revision;

/// Returns a text field of `metadata`; empty if absent.
pub fn meta<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|meta| meta.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a field of `metadata`.
pub fn metadata_field<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field)
}

/// Returns the value at a dotted path of fields. Unlike a JSON pointer, the path has nothing to unescape, and so
/// nothing to allocate: a write looks up about eighty paths.
pub fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, field| value.as_object()?.get(field))
}

/// Returns the name.
pub fn name(object: &Value) -> &str {
    meta(object, "name")
}

/// Returns the namespace; empty for cluster-scoped objects.
pub fn namespace(object: &Value) -> &str {
    meta(object, "namespace")
}

/// Returns true if the object is being deleted.
pub fn is_deleting(object: &Value) -> bool {
    at(object, "metadata.deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// Returns the finalizers.
pub fn finalizers(object: &Value) -> Vec<&str> {
    at(object, "metadata.finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Returns the finalizers in `spec`, which some kinds have.
pub fn spec_finalizers(object: &Value) -> Vec<&str> {
    at(object, "spec.finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Returns the labels, or `None` if there are none.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    at(object, "metadata.labels").and_then(Value::as_object)
}

/// Returns a copy without field managers, and without these fields. The field managers are as large as everything else.
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

/// Returns `metadata`, which is created if absent.
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

/// Writes the revision into `metadata.resourceVersion`, where clients read it.
pub fn set_revision(object: &mut Value, revision: Revision) {
    set_meta(object, "resourceVersion", revision.to_string());
}

/// Formats a time like `metav1.Time`: RFC 3339, UTC, whole seconds.
pub fn timestamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Replaces every float with an integer value by that integer, like upstream's encoder: a client that sends `1.0` reads
/// `1`.
pub fn whole_numbers(value: &mut Value) {
    // Above this, a whole number may have no float of its own.
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

/// Deepest nesting of an object. Capstan's kinds nest about 20 levels; the parser itself stops at 128.
pub const DEEPEST: usize = 100;

/// Deepest nesting of the field managers of an object. They are as deep as the object itself, and start deeper in it.
/// In a list of objects they can still be read.
const DEEPEST_OWNERS: usize = 110;

/// Returns true if an object is nested deeper than the server reads.
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

/// Returns the depth of a value, and the number of values in it, itself included.
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
    fn depth_and_size_are_measured_and_managed_fields_may_nest_deeper() {
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
