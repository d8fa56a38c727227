//! Serialized managed fields, in which every set is text.
//!
//! The sets in `managedFields` are half of an object. A write reads them, and leaves most of them unchanged. As trees
//! they would be built, copied, compared and dropped, and each is the same for all objects that the same programs
//! created. So within a write `fieldsV1` is the JSON of the set, as a string, and a set that was read lately is not
//! parsed again. No other code may see such an object: it is deserialized before it is sent.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::fields_v1;
use crate::managed_fields;
use crate::set::Set;
use crate::set_cache::SetCache;

/// Field of an entry with its set.
pub const FIELD: &str = "fieldsV1";

/// Serializes the sets of an object's managed fields. A set that a client has sent as text is invalid, and stays
/// invalid.
pub fn serialize_sets(object: &mut Value) {
    each_set(managed_fields::of_mut(object), serialize_set);
}

/// Deserializes the sets of an object's managed fields.
pub fn parse_sets(object: &mut Value) {
    each_set(managed_fields::of_mut(object), |set| {
        if let Value::String(text) = set {
            *set = serde_json::from_str(text).unwrap_or_default();
        }
    });
}

/// Returns the managed fields that a client sent, with serialized sets.
pub(crate) fn serialized(mut list: Value) -> Value {
    each_set(Some(&mut list), serialize_set);
    list
}

fn serialize_set(set: &mut Value) {
    match set {
        Value::Object(_) => *set = Value::String(set.to_string()),
        Value::String(_) => *set = Value::Array(Vec::new()),
        _ => {}
    }
}

fn each_set(list: Option<&mut Value>, change: impl FnMut(&mut Value)) {
    let entries = list.and_then(Value::as_array_mut);
    entries.into_iter().flatten().filter_map(|entry| entry.get_mut(FIELD)).for_each(change);
}

/// Reads a serialized set.
pub(crate) fn set(text: &str) -> Result<Arc<Set>, String> {
    if let Some(cached) = SETS.get(text) {
        return Ok(cached);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let set = Arc::new(fields_v1::read(&value).map_err(|error| error.to_string())?);
    SETS.insert(text.into(), Arc::clone(&set), text.len());
    Ok(set)
}

/// Serializes a set. Where the same programs write many objects, each set was written before: a lookup takes a tenth
/// of the time.
pub(crate) fn text(set: &Arc<Set>) -> String {
    if let Some(cached) = TEXTS.get(&**set) {
        return String::from(&*cached);
    }
    let text = fields_v1::text(set);
    TEXTS.insert(Arc::clone(set), text.as_str().into(), text.len());
    text
}

/// Cache of the sets of this process by their text.
static SETS: LazyLock<SetCache<Arc<str>, Arc<Set>>> = LazyLock::new(SetCache::default);

/// Cache of the text of sets.
static TEXTS: LazyLock<SetCache<Arc<Set>, Arc<str>>> = LazyLock::new(SetCache::default);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(set: &Value) -> Value {
        json!({"metadata": {"managedFields": [{"manager": "m", "fieldsV1": set}, {"manager": "n"}, 3], "name": "a"}})
    }

    #[test]
    fn a_serialized_object_is_deserialized_unchanged() {
        let with_set = object(&json!({"f:spec": {"f:b": {}, "f:a\"": {}}}));
        let mut serialized = with_set.clone();
        serialize_sets(&mut serialized);
        assert_eq!(serialized, object(&json!(r#"{"f:spec":{"f:a\"":{},"f:b":{}}}"#)));
        parse_sets(&mut serialized);
        assert_eq!(serialized, with_set);
        for other in
            [json!({}), json!({"metadata": null}), json!({"metadata": {"managedFields": "a"}}), json!(1)]
        {
            let mut serialized = other.clone();
            serialize_sets(&mut serialized);
            parse_sets(&mut serialized);
            assert_eq!(serialized, other);
        }
    }

    #[test]
    fn a_set_that_is_sent_as_a_string_is_invalid() {
        let mut sent = object(&json!("{}"));
        serialize_sets(&mut sent);
        assert_eq!(sent, object(&json!([])));
        parse_sets(&mut sent);
        assert_eq!(sent, object(&json!([])));
    }

    #[test]
    fn a_string_that_is_no_set_is_refused() {
        assert!(set("{").is_err() && set("[]").is_err() && set(r#"{"k:1":{}}"#).is_err());
        assert_eq!(fields_v1::text(&set(r#"{"f:a":{}}"#).unwrap()), r#"{"f:a":{}}"#);
    }
}
