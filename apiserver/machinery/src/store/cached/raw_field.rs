//! The part of an object that a write leaves as it is.
//!
//! Where `status` is a subresource, a write of the object itself does not change it, and one of the status does not change
//! `spec`. What is untouched is half of many objects, and was decoded, copied, compared, checked and written for nothing. So a
//! write that says nothing of it starts from the object without, if the kind's own rules do not ask for it, and its JSON
//! is put back where it stood. What would be refused is looked at once more as a whole, so that errors are those of whole
//! objects.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A field of an object that is JSON still.
#[derive(Debug)]
pub(crate) struct RawField {
    /// What it is called.
    pub(crate) field: &'static str,
    pub(crate) json: Box<RawValue>,
}

impl RawField {
    /// Puts it into its object, whatever that has in its place.
    ///
    /// # Errors
    /// What is wrong with its JSON.
    pub(crate) fn put_back(&self, object: &mut Value) -> serde_json::Result<()> {
        if let Some(fields) = object.as_object_mut() {
            fields.insert(self.field.to_owned(), serde_json::from_str(self.json.get())?);
        }
        Ok(())
    }

    /// Takes out of its object what stands in its place: defaults.
    pub(crate) fn clear(&self, object: &mut Value) {
        if let Some(fields) = object.as_object_mut() {
            fields.remove(self.field);
        }
    }
}

/// Reads the JSON of an object, but for one field.
///
/// # Errors
/// What is wrong with the JSON; also that it is no object.
pub(crate) fn parse(json: &[u8], untouched: &'static str) -> Result<(Value, Option<RawField>), String> {
    let json = std::str::from_utf8(json).map_err(|error| error.to_string())?;
    let mut reader = serde_json::Deserializer::from_str(json);
    let read = AllBut(untouched).deserialize(&mut reader).and_then(|read| reader.end().map(|()| read));
    read.map_err(|error| error.to_string())
}

/// Reads all fields but this.
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
    fn an_object_is_read_in_two_and_put_together() {
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
