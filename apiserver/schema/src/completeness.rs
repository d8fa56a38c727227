//! Completeness check: detects in JSON text, without building a tree, that defaulting would change nothing.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Kind, Schema};

impl Schema {
    /// Returns true if [`Schema::fill_in`] would leave this JSON unchanged. May return false for complete JSON.
    pub fn is_filled_in(&self, json: &str) -> bool {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        Filled(Some(self)).deserialize(&mut deserializer).is_ok() && deserializer.end().is_ok()
    }

    /// Returns the fields of an object that have defaults, with none of them found yet.
    pub fn missing(&self) -> Missing<'_> {
        match &self.kind {
            Kind::Object(object) => Missing::of(&object.defaulted),
            _ => Missing::of(&[]),
        }
    }

    /// Returns the schema of a field of an object.
    pub fn field(&self, name: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Object(object) => object.field(name),
            _ => None,
        }
    }
}

/// Deserialization seed that reads a value to its end. An error means that defaulting or pruning would change it.
#[derive(Debug, Clone, Copy)]
pub struct Filled<'a>(pub Option<&'a Schema>);

impl<'de> DeserializeSeed<'de> for Filled<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            None => IgnoredAny::deserialize(deserializer).map(|_| ()),
            Some(_) => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Filled<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value to which nothing is to be added")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        match self.0 {
            Some(schema) if !schema.nullable => Err(E::custom("a null that may not be one")),
            _ => Ok(()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let schema = match self.0.map(|schema| &schema.kind) {
            Some(Kind::List(list)) => Some(&list.items),
            _ => None,
        };
        while items.next_element_seed(Filled(schema))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Some(Kind::Object(object)) = self.0.map(|schema| &schema.kind) else {
            while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        let mut missing = Missing::of(&object.defaulted);
        while let Some(Text(name)) = fields.next_key()? {
            missing.found(&name);
            fields.next_value_seed(Filled(object.field(&name)))?;
        }
        if missing.is_none() { Ok(()) } else { Err(A::Error::custom("a default is missing")) }
    }
}

/// Fields with defaults that have not been read yet. A field that occurs twice counts once.
#[derive(Debug)]
pub struct Missing<'a>(Vec<&'a str>);

impl<'a> Missing<'a> {
    fn of(defaulted: &'a [String]) -> Self {
        Self(defaulted.iter().map(String::as_str).collect())
    }

    /// Records that a field was read.
    pub fn found(&mut self, name: &str) {
        self.0.retain(|missing| *missing != name);
    }

    /// Returns true if every field with a default was read.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }
}

/// Text that is borrowed from the JSON if nothing in it is escaped.
#[derive(Debug)]
pub struct Text<'de>(pub Cow<'de, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AsIs;
        impl<'de> Visitor<'de> for AsIs {
            type Value = Text<'de>;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("text")
            }
            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(AsIs)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_object_that_needs_defaulting_is_incomplete() {
        let inner = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"}, "b": {"type": "integer"},
            "n": {"type": "string", "nullable": true}}});
        let schema = Schema::compile(&json!({"type": "object", "properties": {
            "one": inner, "many": {"type": "array", "items": inner},
            "free": {"type": "object", "additionalProperties": inner},
            "any": {"x-kubernetes-preserve-unknown-fields": true}}}))
        .unwrap();
        let whole = json!({"a": "y", "b": 1, "n": null});
        let parts = [
            whole.clone(),
            json!({"a": "y"}),
            json!({"b": 1}),
            json!({"a": null}),
            json!({"a": "y", "b": null}),
        ];
        for part in parts {
            let around = [
                json!({"one": part}),
                json!({"many": [whole, part]}),
                json!({"free": {"k\"ey": part}}),
                json!({"any": {"one": part}, "unknown": [part]}),
            ];
            for object in around {
                let mut filled = object.clone();
                schema.fill_in(&mut filled);
                assert_eq!(schema.is_filled_in(&object.to_string()), filled == object, "{object}");
            }
        }
        // A duplicate field does not stand for a missing one.
        assert!(!schema.is_filled_in(r#"{"one": {"b": 1, "b": 2}}"#));
        assert!(schema.is_filled_in(r#"{"one": {"a": "x", "a": "y"}}"#));
        for broken in ["", "{", "{}x", "[1,"] {
            assert!(!schema.is_filled_in(broken), "{broken}");
        }
        assert!(schema.is_filled_in(&Value::Null.to_string()) == schema.nullable);
    }
}
