//! A status that a write leaves as it is.
//!
//! Where `status` is a subresource, a write of the object itself does not change it. It is half of many objects, and was
//! decoded, copied, compared, checked and written for nothing. So a patch that says nothing of it starts from the object
//! without, if the kind's own rules do not ask for it, and its JSON is put back where it stood. What would be refused is
//! looked at once more as a whole, so that errors are those of whole objects.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::update::Modification;
use super::{Kind, Target};

/// The field that is left.
pub(super) const STATUS: &str = "status";

/// Its JSON.
pub(super) type Undecoded = Box<RawValue>;

/// Whether nothing of a write depends on the status.
pub(super) fn is_left(kind: Kind<'_>, how: Modification<'_>) -> bool {
    let resource = kind.resource;
    let is_selected_by = |path: &&str| path.split('.').next() == Some(STATUS);
    how.leaves_status
        && how.target == Target::Object
        && resource.status_subresource
        && resource.conversion.is_none()
        && resource.schema.checks_fields_alone()
        && !resource.selectable.iter().any(is_selected_by)
        && kind.stored.strategy.ignores_status()
}

/// Reads the JSON of an object, but for its status.
///
/// # Errors
/// What is wrong with the JSON; also that it is no object.
pub(super) fn parse(json: &[u8]) -> Result<(Value, Option<Undecoded>), String> {
    let json = std::str::from_utf8(json).map_err(|error| error.to_string())?;
    let Parts { rest, status } = serde_json::from_str(json).map_err(|error| error.to_string())?;
    Ok((Value::Object(rest), status))
}

/// Puts a status that was left into its object, whatever that has in its place.
///
/// # Errors
/// What is wrong with its JSON.
pub(super) fn put_back(status: &RawValue, object: &mut Value) -> serde_json::Result<()> {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(STATUS.to_owned(), serde_json::from_str(status.get())?);
    }
    Ok(())
}

/// Takes out what stands in its place: defaults.
pub(super) fn clear(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(STATUS);
    }
}

/// An object in two.
struct Parts {
    rest: Map<String, Value>,
    status: Option<Undecoded>,
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

/// Reads one field after the other.
struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Parts;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Parts, A::Error> {
        let mut parts = Parts { rest: Map::new(), status: None };
        while let Some(name) = fields.next_key::<String>()? {
            if name == STATUS {
                parts.status = Some(fields.next_value()?);
            } else {
                parts.rest.insert(name, fields.next_value()?);
            }
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_read_in_two_and_put_together() {
        for status in [json!({"a": [1.50, "}"], "b": {"status": {}}}), json!(null), json!("s")] {
            let object = json!({"kind": "A", "metadata": {"status": 1}, "status": status, "type": [{}]});
            let (mut rest, left) = parse(object.to_string().as_bytes()).unwrap();
            assert_eq!(rest, json!({"kind": "A", "metadata": {"status": 1}, "type": [{}]}));
            put_back(&left.unwrap(), &mut rest).unwrap();
            assert_eq!(rest, object);
            clear(&mut rest);
            assert!(rest.get(STATUS).is_none());
        }
        let (rest, left) = parse(br#"{"kind": "A"}"#).unwrap();
        assert_eq!((rest, left.is_none()), (json!({"kind": "A"}), true));
        for wrong in ["", "[]", "null", r#"{"status": }"#, r#"{"status": 1} 2"#] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
