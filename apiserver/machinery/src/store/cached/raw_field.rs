//! Raw field: the part of an object that a write leaves unchanged, as JSON.
//!
//! Where `status` is a subresource, a write of the object itself does not change it, and a write of the status does not
//! change `spec`. The unchanged field is half of many objects. To decode, copy, compare, validate and encode it is
//! useless work. So a write that does not mention the field starts from the object without it, if the kind's rules do
//! not read it, and its JSON returns to its position. A refused write is tried again on the whole object, so that its
//! errors are those of whole objects.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A field of an object that is still JSON.
#[derive(Debug)]
pub(crate) struct RawField {
    /// Name of the field.
    pub(crate) field: &'static str,
    pub(crate) json: Box<RawValue>,
}

impl RawField {
    /// Puts the field into its object, and replaces any value there.
    ///
    /// # Errors
    /// Returns the error of its JSON.
    pub(crate) fn put_back(&self, object: &mut Value) -> serde_json::Result<()> {
        if let Some(fields) = object.as_object_mut() {
            fields.insert(self.field.to_owned(), serde_json::from_str(self.json.get())?);
        }
        Ok(())
    }

    /// Removes the value at the field's position from its object: defaults.
    pub(crate) fn clear(&self, object: &mut Value) {
        if let Some(fields) = object.as_object_mut() {
            fields.remove(self.field);
        }
    }
}

/// Parses the JSON of an object, but for one field.
///
/// # Errors
/// Returns the error of the JSON, or of a value that is no object.
pub(crate) fn parse(json: &[u8], untouched: &'static str) -> Result<(Value, Option<RawField>), String> {
    let json = std::str::from_utf8(json).map_err(|error| error.to_string())?;
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = AllBut(untouched).deserialize(&mut reader).and_then(|read| reader.end().map(|()| read));
    read.map_err(|error| error.to_string())
}

/// Reads all fields but this one.
struct AllBut(&'static str);

impl<'de> DeserializeSeed<'de> for AllBut {
    type Value = (Value, Option<RawField>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for AllBut {
    type Value = (Value, Option<RawField>);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let (mut object, mut untouched) = (Map::new(), None);
        while let Some(name) = fields.next_key::<String>()? {
            if name == self.0 {
                untouched = Some(RawField { field: self.0, json: fields.next_value()? });
            } else {
                object.insert(name, fields.next_value()?);
            }
        }
        Ok((Value::Object(object), untouched))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_split_at_a_raw_field_and_joined_again() {
        for status in [json!({"a": [1.50, "}"], "b": {"status": {}}}), json!(null), json!("s")] {
            let object = json!({"kind": "A", "metadata": {"status": 1}, "status": status, "type": [{}]});
            let (mut object, untouched) = parse(object.to_string().as_bytes(), "status").unwrap();
            assert_eq!(object, json!({"kind": "A", "metadata": {"status": 1}, "type": [{}]}));
            let untouched = untouched.unwrap();
            untouched.put_back(&mut object).unwrap();
            assert_eq!(object, object);
            untouched.clear(&mut object);
            assert!(object.get("status").is_none());
        }
        let (object, untouched) = parse(br#"{"kind": "A"}"#, "status").unwrap();
        assert_eq!((object, untouched.is_none()), (json!({"kind": "A"}), true));
        for wrong in ["", "[]", "null", r#"{"status": }"#, r#"{"status": 1} 2"#] {
            assert!(parse(wrong.as_bytes(), "status").is_err(), "{wrong}");
        }
    }
}
