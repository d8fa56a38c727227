//! Access to fields of JSON trees.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Returns the text at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the list at a JSON pointer; empty if there is none.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the flag at a JSON pointer; false if there is none.
pub(crate) fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the object in a value. Any other value becomes an empty object first.
pub(crate) fn object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            unreachable!("the value was replaced by an object")
        }
    }
}

/// Returns the field at a path. Missing objects on the way are created, the field itself as `null`.
pub(crate) fn entry<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(value, |value, key| object(value).entry(*key).or_insert(Value::Null))
}

/// Sets the field at a path.
pub(crate) fn set(value: &mut Value, path: &[&str], new: impl Into<Value>) {
    *entry(value, path) = new.into();
}

/// Removes the field `key` of the object at a path.
pub(crate) fn remove(value: &mut Value, path: &[&str], key: &str) {
    let found = path.iter().try_fold(value, |value, step| value.get_mut(*step));
    if let Some(fields) = found.and_then(Value::as_object_mut) {
        fields.remove(key);
    }
}

/// Returns the list at a path, to change it. Any other value becomes an empty list first.
pub(crate) fn list_mut<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Vec<Value> {
    let found = entry(value, path);
    if !found.is_array() {
        *found = Value::Array(Vec::new());
    }
    match found {
        Value::Array(items) => items,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            unreachable!("the value was replaced by a list")
        }
    }
}

/// Returns a time as Kubernetes writes it.
pub(crate) fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Returns a time with microseconds, as in a Lease.
pub(crate) fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Returns the present time as Kubernetes writes it.
pub(crate) fn now() -> String {
    time(Timestamp::now())
}
