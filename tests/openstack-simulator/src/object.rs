//! Reading and stamping JSON objects: Neutron's resources are kept in the shape they are served in.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

/// A resource in the shape its service serves it.
pub(crate) type Object = Map<String, Value>;

/// Resources of one kind by id. Neutron lists by id too, which makes its paging stable.
pub(crate) type Table = BTreeMap<String, Object>;

/// The text at `key`; empty if absent, null or no text.
pub(crate) fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The flag at `key`; false if absent.
pub(crate) fn flag(object: &Object, key: &str) -> bool {
    object.get(key).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at `key`; empty if absent or null.
pub(crate) fn list<'a>(object: &'a Object, key: &str) -> &'a [Value] {
    object.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The texts in the list at `key`.
pub(crate) fn texts(object: &Object, key: &str) -> Vec<String> {
    list(object, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The object inside a value; an empty one for any other value.
pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Object::new(),
    }
}

/// Puts `value` at `key`.
pub(crate) fn set(object: &mut Object, key: &str, value: impl Into<Value>) {
    object.insert(key.to_owned(), value.into());
}

/// Notes a change: a new revision, and the time of it.
pub(crate) fn touch(object: &mut Object, now: Timestamp) {
    let revision = object.get("revision_number").and_then(Value::as_u64).unwrap_or_default();
    set(object, "revision_number", revision + 1);
    set(object, "updated_at", seconds(now));
}

/// `2026-11-21T07:27:53Z`: Neutron's and Glance's times, and Nova's of servers.
pub(crate) fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-11-21T07:27:53.000000`: Cinder's times, and Nova's of everything but servers.
pub(crate) fn microseconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.000000").to_string()
}

/// A new random id.
pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}
