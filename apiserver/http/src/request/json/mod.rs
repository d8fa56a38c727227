//! JSON decoder that reports duplicate fields: other decoders keep the last one silently, and the author may have meant
//! the first.

mod text;

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

/// Maximum number of fields that are reported: upstream's number.
const MOST: usize = 100;

/// Largest text of all reported paths: they consist of the body's keys, which may be as long as the body. Unit: bytes.
const MOST_TEXT: usize = 16 * 1024;

/// Limit below which a float represents every whole number: 2^53.
const WHOLE: f64 = 9_007_199_254_740_992.0;

/// Decodes a text; returns the value with the paths of duplicate fields, each once. Whole numbers become integers,
/// however they are written.
pub(crate) fn parse(body: &[u8]) -> serde_json::Result<(Value, Vec<String>)> {
    decode(body, true)
}

/// Decodes a text with numbers as they are written, for comparisons.
pub(crate) fn parse_exactly(body: &[u8]) -> serde_json::Result<(Value, Vec<String>)> {
    decode(body, false)
}

fn decode(body: &[u8], whole: bool) -> serde_json::Result<(Value, Vec<String>)> {
    let duplicates = RefCell::new(Vec::new());
    let body = text::repaired(body);
    let mut decoder = serde_json::Deserializer::from_str(&body);
    let value =
        Node { location: &Location::Root, duplicates: &duplicates, whole }.deserialize(&mut decoder)?;
    decoder.end()?;
    Ok((value, duplicates.into_inner()))
}

/// Location of a value. It is formatted only for a report.
enum Location<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) => write!(f, "{parent}.{name}"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Decoder of the value at one location.
#[derive(Clone, Copy)]
struct Node<'a> {
    location: &'a Location<'a>,
    duplicates: &'a RefCell<Vec<String>>,
    whole: bool,
}

impl Node<'_> {
    fn report(&self, name: &str) {
        let mut found = self.duplicates.borrow_mut();
        if found.len() >= MOST || found.iter().map(String::len).sum::<usize>() > MOST_TEXT {
            return;
        }
        let path = Location::Field(self.location, name).to_string();
        if !found.contains(&path) {
            found.push(path);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, decoder: D) -> Result<Value, D::Error> {
        decoder.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // As Go encodes it: a whole number without a point.
        if self.whole
            && value.fract() == 0.0
            && value.abs() < WHOLE
            && let Ok(whole) = format!("{value:.0}").parse::<i64>()
        {
            return Ok(Value::from(whole));
        }
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let location = Location::Item(self.location, list.len());
            match items.next_element_seed(Node { location: &location, ..self })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let entry = map.entry(name);
            if matches!(entry, Entry::Occupied(_)) {
                self.report(entry.key());
            }
            let location = Location::Field(self.location, entry.key());
            let value = fields.next_value_seed(Node { location: &location, ..self })?;
            match entry {
                Entry::Vacant(entry) => drop(entry.insert(value)),
                Entry::Occupied(mut entry) => drop(entry.insert(value)),
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_duplicate_key_wins_and_each_field_is_reported_once() {
        let text = br#"{"a":1,"spec":{"x":1,"list":[{"b":1},{"b":2,"b":{"c":1}}],"x":2,"x":3},"a":null}"#;
        let (value, duplicates) = parse(text).unwrap();
        assert_eq!(value, json!({"a": null, "spec": {"x": 3, "list": [{"b": 1}, {"b": {"c": 1}}]}}));
        assert_eq!(duplicates, ["spec.list[1].b", "spec.x", "a"]);
    }

    #[test]
    fn values_and_errors_are_those_of_serde_json() {
        let texts = [
            r#"{"n":[0,-1,18446744073709551615,-9223372036854775808,1.5,1e300],"t":"\u00fc\n","b":[true,false,null]}"#,
            "[]",
            "\"x\"",
            " 1 ",
        ];
        for text in texts {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes()).unwrap(), (expected, Vec::new()), "{text}");
        }
        for text in ["", "{", "{\"a\"}", "{} {}", "[1,]", "nul"] {
            let expected = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert_eq!(parse(text.as_bytes()).unwrap_err().to_string(), expected, "{text}");
        }
        assert!(parse("[".repeat(5000).as_bytes()).is_err());
        assert_eq!(parse(b"1.0").unwrap().0, json!(1));
        assert_eq!(parse_exactly(b"1.0").unwrap().0, json!(1.0));
    }

    #[test]
    fn invalid_unicode_is_replaced() {
        let of = |body: &[u8]| parse(body).unwrap().0;
        assert_eq!(of(br#""a\ud800b""#), json!("a\u{fffd}b"));
        assert_eq!(of(b"\"a\xff\xfe\""), json!("a\u{fffd}\u{fffd}"));
        assert!(parse(b"{\"a\":1}\xff").is_err());
        assert!(parse(br#""\ud80""#).is_err());
    }

    #[test]
    fn reports_are_bounded() {
        let many: Vec<String> = (0..200).map(|index| format!("\"k{index}\":1,\"k{index}\":2")).collect();
        let (_, duplicates) = parse(format!("{{{}}}", many.join(",")).as_bytes()).unwrap();
        assert_eq!(duplicates.len(), MOST);
        let long = "x".repeat(MOST_TEXT);
        let (_, duplicates) =
            parse(format!("{{\"{long}\":{{\"a\":1,\"a\":1,\"b\":1,\"b\":1}}}}").as_bytes()).unwrap();
        assert_eq!(duplicates.len(), 1);
    }
}
