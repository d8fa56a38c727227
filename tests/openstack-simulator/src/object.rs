//! Access to JSON objects: Neutron's resources are stored in the format in which they are served.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Resource in the format in which its service serves it.
pub(crate) type Object = Map<String, Value>;

/// Resources of one kind by id. Neutron lists by id, too, which makes its paging stable.
pub(crate) type Table = BTreeMap<String, Object>;

/// Returns the text at `key`; empty if it is absent, null or no text.
pub(crate) fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the flag at `key`; false if it is absent.
pub(crate) fn flag(object: &Object, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the list at `key`; empty if it is absent or null.
pub(crate) fn list<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the texts in the list at `key`.
pub(crate) fn texts(object: &Object, key: &str) -> Vec<String> {
    list(object, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the object in a value; an empty one for any other value.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Object::new(),
    }
}

/// Sets `key` to `value`.
pub(crate) fn set(object: &mut Object, key: &str, value: impl Into<Value>) {
    object.insert(key.to_owned(), value.into());
}

/// Records a change: a new revision, and its time.
pub(crate) fn touch(object: &mut Object, now: Timestamp) {
    let revision = object.get("revision_number").and_then(Value::as_u64).unwrap_or_default();
    set(object, "revision_number", revision + 1);
    set(object, "updated_at", seconds(now));
}

/// Formats a time as `2026-11-21T07:27:53Z`, like Neutron, Glance, and Nova for servers.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time as `2026-11-21T07:27:53.000000`, like Cinder, and Nova for everything but servers.
pub(crate) fn microseconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.000000").to_string()
}

/// Returns a new random id.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
