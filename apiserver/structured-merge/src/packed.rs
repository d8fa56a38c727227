//! Owners of which every set is text.
//!
//! The sets in `managedFields` are half of an object. A write reads them, and most it leaves as they are: as trees they
//! would be made, copied, compared and dropped, and each is the same for all objects that the same programs made. So
//! within a write `fieldsV1` is the JSON of the set, as a string, and a set that was read lately is not read again.
//! Nothing else may see such an object: who sends one on, unpacks it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use serde_json::Value;

use crate::fields_v1;
use crate::managed_fields;
use crate::set::Set;

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

/// A set that is longer is read each time. Unit: bytes.
const LONGEST: usize = 8 * 1024;

/// Sets that are known at most. Programs that write have a few each; where every object has another, to know them is of
/// no use.
const MOST: usize = 256;

/// Sets that were read lately, by their text.
static KNOWN: LazyLock<RwLock<HashMap<Box<str>, Arc<Set>>>> = LazyLock::new(RwLock::default);

/// Reads a set that is text.
pub(crate) fn set(text: &str) -> Result<Arc<Set>, String> {
    if let Some(known) = KNOWN.read().unwrap_or_else(PoisonError::into_inner).get(text) {
        return Ok(Arc::clone(known));
    }
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let set = Arc::new(fields_v1::read(&value).map_err(|error| error.to_string())?);
    if text.len() <= LONGEST {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(text.into(), Arc::clone(&set));
    }
    Ok(set)
}

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
    fn of_many_sets_some_are_known() {
        let text = |number: usize| format!(r#"{{"f:known-{number}":{{}}}}"#);
        for number in 0..3 * MOST {
            let read = set(&text(number)).unwrap();
            assert_eq!(fields_v1::text(&read), text(number));
            assert!(Arc::ptr_eq(&read, &set(&text(number)).unwrap()));
        }
        assert!(KNOWN.read().unwrap().len() <= MOST);
        assert!(set("{").is_err() && set("[]").is_err());
    }
}
