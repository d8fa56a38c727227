//! Edits of one field, and their effect after a conversion.

use proptest::sample::Index;
use serde_json::{Value, json};

/// Annotations in which conversions keep fields.
const NOTES: [&str; 2] = ["cluster.x-k8s.io/conversion-data", "conversion.capstan.dev/"];

/// Returns the object without the annotations of conversions.
pub(crate) fn without_notes(object: &Value) -> Value {
    let mut object = object.clone();
    let Some(metadata) = object["metadata"].as_object_mut() else { return object };
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|name, _| !NOTES.iter().any(|note| name.starts_with(note)));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    object
}

/// Returns the object without `metadata`.
pub(crate) fn body(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("metadata");
    object
}

/// Returns the path of the first difference of two values.
pub(crate) fn first_difference(one: &Value, other: &Value, path: &str) -> Option<String> {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys());
            let differ = |name: &String| match (one.get(name), other.get(name)) {
                (Some(one), Some(other)) => first_difference(one, other, &format!("{path}/{name}")),
                _ => Some(format!("{path}/{name}")),
            };
            names.filter_map(differ).next()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .filter_map(|(index, (one, other))| first_difference(one, other, &format!("{path}/{index}")))
                .next()
        }
        _ => (one != other).then(|| path.to_owned()),
    }
}

/// Adds the path of every leaf of a value.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    let step = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, inner)| leaves(inner, &step(name), found)),
        Value::Array(items) => {
            items
                .iter()
                .enumerate()
                .for_each(|(index, inner)| leaves(inner, &step(&index.to_string()), found));
        }
        _ => found.push(path.to_owned()),
    }
}

fn places(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in object
        .as_object()
        .unwrap()
        .keys()
        .filter(|name| !["metadata", "apiVersion", "kind"].contains(&name.as_str()))
    {
        leaves(&object[part], &format!("/{part}"), &mut found);
    }
    found
}

/// Returns the object with another value in one field; `None` if it has no such field.
pub(crate) fn changed(object: &Value, place: Index) -> Option<Value> {
    let places = places(object);
    if places.is_empty() {
        return None;
    }
    let mut object = object.clone();
    let field = object.pointer_mut(&places[place.index(places.len())]).unwrap();
    *field = match &*field {
        Value::Bool(flag) => json!(!flag),
        Value::Number(number) => json!(number.as_i64().unwrap_or_default() + 7),
        Value::String(text) if text.ends_with('s') && text.starts_with(|c: char| c.is_ascii_digit()) => {
            json!("7m0s")
        }
        Value::String(text) if text.ends_with('Z') && text.starts_with("20") => json!("2031-01-02T03:04:05Z"),
        Value::String(text) => json!(format!("{text}x")),
        _ => json!("x"),
    };
    Some(object)
}

/// Checks that `arrived` has the change from `before` to `after`. Other fields are ignored, because neither of them has
/// them.
pub(crate) fn arrives(before: &Value, after: &Value, arrived: &Value) -> Result<(), String> {
    let mut all = places(before);
    all.extend(places(after));
    for place in all {
        let (was, is) = (before.pointer(&place), after.pointer(&place));
        if was != is && arrived.pointer(&place) != is {
            let found = arrived.pointer(&place);
            return Err(format!("{place} was {was:?}, is {is:?}, arrived as {found:?}\n{arrived}"));
        }
    }
    Ok(())
}
