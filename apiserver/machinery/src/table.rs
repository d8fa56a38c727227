//! What `kubectl get` prints: `meta.k8s.io/v1 Table`.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::json_path::JsonPath;
use crate::object;
use crate::resource::{Column, Resource};

/// How much of each object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// The columns' descriptions.
pub fn columns(resource: &Resource) -> Value {
    let name = json!({"name": "Name", "type": "string", "format": "name", "priority": 0,
        "description": "Name must be unique within a namespace."});
    let others = resource.columns.iter().map(|column| {
        let format = "";
        json!({"name": column.name, "type": column.kind, "format": format, "priority": column.priority,
            "description": column.description})
    });
    std::iter::once(name).chain(others).collect()
}

/// One row.
pub fn row(resource: &Resource, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let name = json!(object::name(object));
    let cells: Vec<Value> = std::iter::once(name)
        .chain(resource.columns.iter().map(|column| cell(column, object, now)))
        .collect();
    let shown = match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => partial(object),
        IncludeObject::Object => object.clone(),
    };
    json!({"cells": cells, "object": shown})
}

/// The object as `PartialObjectMetadata`.
pub fn partial(object: &Value) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_default();
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
}

fn cell(column: &Column, object: &Value, now: Timestamp) -> Value {
    let found = JsonPath::parse(&column.json_path).and_then(|path| path.first(object).cloned());
    let Some(value) = found.filter(|value| !value.is_null()) else { return Value::Null };
    match column.kind.as_str() {
        "date" => json!(value.as_str().map_or_else(|| "<invalid>".to_owned(), |text| age(text, now))),
        "integer" | "number" if value.is_number() => value,
        "boolean" if value.is_boolean() => value,
        "string" => match value {
            Value::String(_) => value,
            other => json!(other.to_string()),
        },
        _ => Value::Null,
    }
}

/// How long ago, as kubectl says it: `3m7s`, `5d`, `<invalid>`.
pub fn age(text: &str, now: Timestamp) -> String {
    let Ok(then) = text.parse::<Timestamp>() else { return "<invalid>".to_owned() };
    let seconds = now.as_second() - then.as_second();
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    human(seconds.max(0))
}

fn human(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{rest}{small}") }
    };
    match seconds {
        s if s < 2 * MINUTE => format!("{s}s"),
        s if s < 10 * MINUTE => two(s / MINUTE, "m", s % MINUTE, "s"),
        s if s < 3 * HOUR => format!("{}m", s / MINUTE),
        s if s < 8 * HOUR => two(s / HOUR, "h", s % HOUR / MINUTE, "m"),
        s if s < 2 * DAY => format!("{}h", s / HOUR),
        s if s < 8 * DAY => two(s / DAY, "d", s % DAY / HOUR, "h"),
        s if s < 2 * YEAR => format!("{}d", s / DAY),
        s if s < 8 * YEAR => two(s / YEAR, "y", s % YEAR / DAY, "d"),
        s => format!("{}y", s / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_as_kubectl_prints_them() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (187, "3m7s"),
            (600, "10m"),
            (3 * 3600, "3h"),
            (3 * 3600 + 120, "3h2m"),
            (30 * 3600, "30h"),
            (50 * 3600, "2d2h"),
            (9 * 86_400, "9d"),
            (800 * 86_400, "2y70d"),
            (9 * 365 * 86_400, "9y"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human(seconds), expected, "{seconds}");
        }
        let now = Timestamp::from_second(1000).unwrap();
        assert_eq!(age("1970-01-01T00:20:00Z", now), "<invalid>");
        assert_eq!(age("yesterday", now), "<invalid>");
    }
}
