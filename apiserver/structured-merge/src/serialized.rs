//! Owners of which every set is text.
//!
//! The sets in `managedFields` are half of an object. A write reads them, and most it leaves as they are: as trees they
//! would be made, copied, compared and dropped, and each is the same for all objects that the same programs made. So
//! within a write `fieldsV1` is the JSON of the set, as a string, and a set that was read lately is not read again.
//! Nothing else may see such an object: who sends one on, unpacks it.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::fields_v1;
use crate::managed_fields;
use crate::set::Set;
use crate::set_cache::Known;

/// The field of an entry that has its set.
pub const FIELD: &str = "fieldsV1";

/// Makes text of the sets of an object's owners. What a client has sent as text is no set, nor after this.
pub fn pack(object: &mut Value) {
    each_set(managed_fields::of_mut(object), make_text);
}

/// Makes sets of the text again.
pub fn unpack(object: &mut Value) {
    each_set(managed_fields::of_mut(object), |set| {
        if let Value::String(text) = set {
            *set = serde_json::from_str(text).unwrap_or_default();
        }
    });
}

/// A list of owners that a client sent, with its sets as text.
pub(crate) fn packed(mut list: Value) -> Value {
    each_set(Some(&mut list), make_text);
    list
}

fn make_text(set: &mut Value) {
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

/// Reads a set that is text.
pub(crate) fn set(text: &str) -> Result<Arc<Set>, String> {
    if let Some(known) = READ.get(text) {
        return Ok(known);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let set = Arc::new(fields_v1::read(&value).map_err(|error| error.to_string())?);
    READ.keep(text.into(), Arc::clone(&set), text.len());
    Ok(set)
}

/// A set as text. Where many objects are written by the same programs, each set was written before: to find it takes a
/// tenth of the time.
pub(crate) fn text(set: &Arc<Set>) -> String {
    if let Some(known) = WRITTEN.get(&**set) {
        return String::from(&*known);
    }
    let text = fields_v1::text(set);
    WRITTEN.keep(Arc::clone(set), text.as_str().into(), text.len());
    text
}

/// What the sets of all objects of this process were read as.
static READ: LazyLock<Known<Arc<str>, Arc<Set>>> = LazyLock::new(Known::default);

/// What they were written as.
static WRITTEN: LazyLock<Known<Arc<Set>, Arc<str>>> = LazyLock::new(Known::default);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(set: &Value) -> Value {
        json!({"metadata": {"managedFields": [{"manager": "m", "fieldsV1": set}, {"manager": "n"}, 3], "name": "a"}})
    }

    #[test]
    fn what_is_packed_is_unpacked_as_it_was() {
        let with_set = object(&json!({"f:spec": {"f:b": {}, "f:a\"": {}}}));
        let mut packed = with_set.clone();
        pack(&mut packed);
        assert_eq!(packed, object(&json!(r#"{"f:spec":{"f:a\"":{},"f:b":{}}}"#)));
        unpack(&mut packed);
        assert_eq!(packed, with_set);
        for other in
            [json!({}), json!({"metadata": null}), json!({"metadata": {"managedFields": "a"}}), json!(1)]
        {
            let mut packed = other.clone();
            pack(&mut packed);
            unpack(&mut packed);
            assert_eq!(packed, other);
        }
    }

    #[test]
    fn what_was_sent_as_text_is_no_set() {
        let mut sent = object(&json!("{}"));
        pack(&mut sent);
        assert_eq!(sent, object(&json!([])));
        unpack(&mut sent);
        assert_eq!(sent, object(&json!([])));
    }

    #[test]
    fn text_that_is_no_set_is_refused() {
        assert!(set("{").is_err() && set("[]").is_err() && set(r#"{"k:1":{}}"#).is_err());
        assert_eq!(fields_v1::text(&set(r#"{"f:a":{}}"#).unwrap()), r#"{"f:a":{}}"#);
    }
}
