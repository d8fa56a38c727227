//! Changing one field, and seeing where the change goes.

use proptest::sample::Index;
use serde_json::{Value, json};

/// The annotations in which conversions keep what a version cannot say.
const NOTES: [&str; 2] = ["cluster.x-k8s.io/conversion-data", "conversion.capstan.dev/"];

/// The object without the annotations of conversions.
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

/// The object without `metadata`.
pub(crate) fn body(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("metadata");
    object
}

/// Where two values first differ.
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

/// Every place of `body` that holds no other places.
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

/// The object with another value in one place; `None` when it has nothing to change.
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

/// Whether `arrived` has what `after` has and `before` had not. Nothing is said of the rest, which
/// is what neither of them knows.
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
