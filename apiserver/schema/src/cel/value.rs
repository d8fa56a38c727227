//! Conversion of JSON values to CEL values: typed by their schema, with escaped names.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Duration, NaiveDate};
use kube_cel::cel::Value as Cel;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use serde_json::{Number, Value};

use crate::{Kind, Schema};

/// Reserved words of CEL. No name can be one of them.
pub const RESERVED_WORDS: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

impl Schema {
    /// Converts a value to CEL.
    pub(super) fn to_cel(&self, value: &Value) -> Cel {
        match (&self.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                let entries = map.iter().map(|(name, field)| match object.properties.get(name) {
                    Some(schema) => (escaped(name), schema.to_cel(field)),
                    // Keys of a map are data, not names.
                    None => object.additional.as_ref().map_or_else(
                        || (escaped(name), untyped(field)),
                        |free| (name.clone(), free.to_cel(field)),
                    ),
                });
                to_map(entries)
            }
            (Kind::List(list), Value::Array(items)) => {
                Cel::List(Arc::new(items.iter().map(|item| list.items.to_cel(item)).collect()))
            }
            (Kind::Number(_), Value::Number(number)) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
            (Kind::Text(schema), Value::String(text)) => {
                let typed = schema.format.and_then(|format| of_format(format.name(), text));
                typed.unwrap_or_else(|| to_text(text))
            }
            _ => untyped(value),
        }
    }
}

/// Returns the old value as an optional, for a rule that is also evaluated without an old value.
pub(super) fn optional(old: Option<Cel>) -> Cel {
    Cel::Opaque(Arc::new(old.map_or_else(OptionalValue::none, OptionalValue::of)))
}

/// Converts a value that has no schema. The names of its fields are data, so they are not escaped. All numbers are
/// doubles, as in kube-apiserver.
pub(super) fn plain(value: &Value) -> Cel {
    match value {
        Value::Number(number) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(map) => to_map(map.iter().map(|(name, field)| (name.clone(), plain(field)))),
        scalar => untyped(scalar),
    }
}

/// Converts an object that has no schema, as kube-apiserver's policies see it: its names are data, so they are not
/// escaped, and whole numbers are integers.
pub(super) fn unstructured(value: &Value) -> Cel {
    match value {
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(unstructured).collect())),
        Value::Object(map) => to_map(map.iter().map(|(name, field)| (name.clone(), unstructured(field)))),
        scalar => untyped(scalar),
    }
}

/// Converts a result to JSON, maps with text keys included. Returns `None` for the types that JSON lacks.
pub(super) fn to_json_of_any(value: &Cel) -> Option<Value> {
    match value {
        Cel::List(items) => Some(Value::Array(items.iter().map(to_json_of_any).collect::<Option<_>>()?)),
        Cel::Map(map) => {
            let entry = |(key, value): (&Key, &Cel)| match key {
                Key::String(key) => Some((key.as_str().to_owned(), to_json_of_any(value)?)),
                _ => None,
            };
            map.map.iter().map(entry).collect::<Option<serde_json::Map<_, _>>>().map(Value::Object)
        }
        other => to_json(other),
    }
}

/// Converts a result to JSON, or returns `None` for a map and for the types that JSON lacks.
pub(super) fn to_json(value: &Cel) -> Option<Value> {
    Some(match value {
        Cel::Null => Value::Null,
        Cel::Bool(value) => Value::Bool(*value),
        Cel::Int(value) => Value::from(*value),
        Cel::UInt(value) => Value::from(*value),
        Cel::Float(value) => Value::from(*value),
        Cel::String(text) => Value::from(text.as_str()),
        Cel::List(items) => Value::Array(items.iter().map(to_json).collect::<Option<_>>()?),
        _ => return None,
    })
}

fn untyped(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => to_number(number),
        Value::String(text) => to_text(text),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(untyped).collect())),
        Value::Object(map) => to_map(map.iter().map(|(name, field)| (escaped(name), untyped(field)))),
    }
}

fn to_number(number: &Number) -> Cel {
    number.as_i64().map_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN)), Cel::Int)
}

fn to_text(text: &str) -> Cel {
    Cel::String(Arc::new(text.to_owned()))
}

fn to_map(entries: impl Iterator<Item = (String, Cel)>) -> Cel {
    let map: HashMap<Key, Cel> = entries.map(|(name, value)| (Key::String(Arc::new(name)), value)).collect();
    Cel::Map(Map { map: Arc::new(map) })
}

/// Converts a text with a format to the type of the format.
fn of_format(format: &str, text: &str) -> Option<Cel> {
    match format {
        "date-time" | "datetime" => DateTime::parse_from_rfc3339(text).ok().map(Cel::Timestamp),
        "date" => {
            let day = text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?;
            Some(Cel::Timestamp(day.and_utc().fixed_offset()))
        }
        "duration" => go_duration(text).map(|nanoseconds| Cel::Duration(Duration::nanoseconds(nanoseconds))),
        "byte" => STANDARD.decode(text).ok().map(|bytes| Cel::Bytes(Arc::new(bytes))),
        _ => None,
    }
}

/// Parses a duration in Go's form (`1h30m`) to nanoseconds.
pub(crate) fn go_duration(text: &str) -> Option<i64> {
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1.0),
        ("us", 1e3),
        ("µs", 1e3),
        ("μs", 1e3),
        ("ms", 1e6),
        ("s", 1e9),
        ("m", 6e10),
        ("h", 3.6e12),
    ];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at_checked(digits)?;
        // `ms` before `m`: the longest matching unit.
        let fitting = UNITS.iter().filter(|(unit, _)| tail.starts_with(unit));
        let (unit, factor) = fitting.max_by_key(|(unit, _)| unit.len())?;
        total += number.parse::<f64>().ok()? * factor;
        rest = tail.strip_prefix(unit)?;
    }
    // Whole nanoseconds, through text, because no other conversion from a float is checked.
    format!("{:.0}", sign * total).parse().ok()
}

/// Returns a field's name in the form that CEL can spell.
pub(super) fn escaped(name: &str) -> String {
    if RESERVED_WORDS.contains(&name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}

/// Returns the name of a field from the form that CEL can spell.
pub(super) fn unescaped(name: &str) -> String {
    if let Some(word) = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"))
        && RESERVED_WORDS.contains(&word)
    {
        return word.to_owned();
    }
    name.replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .replace("__underscores__", "__")
}
