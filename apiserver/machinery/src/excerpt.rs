//! Excerpt of an object: some fields, read from its JSON without a tree of the other fields.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use apiserver_schema::completeness::Text;

/// Set of the fields to read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Excerpt {
    /// True if everything below this field is read.
    whole: bool,
    fields: BTreeMap<String, Self>,
}

impl Excerpt {
    /// Adds the path of a field.
    pub(crate) fn add<'a>(&mut self, mut path: impl Iterator<Item = &'a str>) {
        match path.next() {
            None => self.whole = true,
            Some(name) => self.fields.entry(name.to_owned()).or_default().add(path),
        }
    }

    /// Returns true if the excerpt reads a field at this path or below it.
    pub(crate) fn reads<'a>(&self, mut path: impl Iterator<Item = &'a str>) -> bool {
        self.whole
            || path.next().is_none_or(|name| self.fields.get(name).is_some_and(|below| below.reads(path)))
    }

    /// Returns the object with these fields, if it has them.
    ///
    /// # Errors
    /// Returns the error of invalid JSON.
    pub(crate) fn of(&self, json: &[u8]) -> serde_json::Result<Value> {
        let mut deserializer = serde_json::Deserializer::from_slice(json);
        let found = self.deserialize(&mut deserializer)?;
        deserializer.end().map(|()| found)
    }
}

impl<'de> DeserializeSeed<'de> for &Excerpt {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.whole { Value::deserialize(deserializer) } else { deserializer.deserialize_any(self) }
    }
}

/// A value that is no object has none of the fields: it counts as nothing.
impl<'de> Visitor<'de> for &Excerpt {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut found = Map::new();
        while let Some(Text(name)) = fields.next_key()? {
            match self.fields.get(&*name) {
                Some(wanted) => {
                    found.insert(name.into_owned(), fields.next_value_seed(wanted)?);
                }
                None => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(found))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_excerpt_has_only_the_requested_fields() {
        let mut excerpt = Excerpt::default();
        for path in [&["a", "b"][..], &["a", "c", "d"], &["list"], &["quo\"ted"]] {
            excerpt.add(path.iter().copied());
        }
        let table = [
            (
                json!({"a": {"b": 1, "c": {"d": [1, {}], "e": 2}, "f": 3}, "g": 4}),
                json!({"a": {"b": 1, "c": {"d": [1, {}]}}}),
            ),
            (
                json!({"list": [1, {"x": null}], "quo\"ted": null}),
                json!({"list": [1, {"x": null}], "quo\"ted": null}),
            ),
            (json!({"a": "text"}), json!({"a": null})),
            (json!({"a": [{"b": 1}]}), json!({"a": null})),
            (json!([1]), json!(null)),
        ];
        for (object, expected) in table {
            assert_eq!(excerpt.of(object.to_string().as_bytes()).unwrap(), expected, "{object}");
        }
        for broken in ["", "{", "{\"a\": }", "{} x"] {
            assert!(excerpt.of(broken.as_bytes()).is_err(), "{broken}");
        }
    }
}
