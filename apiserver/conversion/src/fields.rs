//! Access to fields of a JSON object by dotted paths. A field that is absent, or whose parent is no object, is skipped
//! without an error: validation checks shapes, conversion does not.

use crate::references::CONTRACT;
use serde_json::{Map, Value, json};

/// Returns the value at `path`, if any.
pub(crate) fn get<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, name| value.get(name))
}

/// Removes and returns the value at `path`, if any.
pub(crate) fn take(object: &mut Value, path: &str) -> Option<Value> {
    let (parent, name) = match path.rsplit_once('.') {
        Some((parent, name)) => (at_mut(object, parent)?, name),
        None => (object, path),
    };
    parent.as_object_mut()?.remove(name)
}

/// Sets the value at `path`, and creates the objects above it. Does nothing if a parent is no object.
pub(crate) fn put(object: &mut Value, path: &str, value: Value) {
    let mut at = object;
    let mut names = path.split('.').peekable();
    while let Some(name) = names.next() {
        let Some(map) = at.as_object_mut() else { return };
        if names.peek().is_none() {
            map.insert(name.to_owned(), value);
            return;
        }
        at = map.entry(name.to_owned()).or_insert_with(|| json!({}));
    }
}

/// Moves the value at `from` to `to`.
pub(crate) fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(value) = take(object, from) {
        put(object, to, value);
    }
}

/// Moves the value at `from` to `to` and changes it. The value is dropped if `change` returns `None`.
pub(crate) fn rename_as(
    object: &mut Value,
    from: &str,
    to: &str,
    change: impl FnOnce(Value) -> Option<Value>,
) {
    if let Some(value) = take(object, from).and_then(change) {
        put(object, to, value);
    }
}

/// Drops an empty object at `path`, and then its empty parents.
pub(crate) fn drop_empty(object: &mut Value, path: &str) {
    let mut path = path;
    while get(object, path).and_then(Value::as_object).is_some_and(Map::is_empty) {
        take(object, path);
        let Some((parent, _)) = path.rsplit_once('.') else { return };
        path = parent;
    }
}

/// Calls a function with the value at `path`, if it exists.
pub(crate) fn with(object: &mut Value, path: &str, act: impl FnOnce(&mut Value)) {
    if let Some(value) = at_mut(object, path) {
        act(value);
    }
}

/// Calls a function with every item of the list at `path`.
pub(crate) fn each(object: &mut Value, path: &str, act: impl FnMut(&mut Value)) {
    if let Some(Value::Array(items)) = at_mut(object, path) {
        items.iter_mut().for_each(act);
    }
}

/// Converts a duration in Go's form (`1h30m0s`) to whole seconds; `None` if it is invalid.
pub(crate) fn seconds(duration: &Value) -> Option<Value> {
    let text = duration.as_str()?;
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(json!(0));
    }
    let mut total = 0.0_f64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(digits);
        let (unit, factor) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit))?;
        total += number.parse::<f64>().ok()? * factor;
        rest = tail.strip_prefix(unit)?;
    }
    let total = if negative { -total } else { total };
    // JSON numbers of whole seconds, limited to the type of the field. `Lossless` keeps finer and longer durations.
    serde_json::from_str(&format!("{:.0}", total.trunc().min(f64::from(i32::MAX)))).ok()
}

/// Go's units. Longer ones come before their prefixes.
pub(crate) const UNITS: [(&str, f64); 8] = [
    ("ns", 1e-9),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ms", 1e-3),
    ("h", 3600.0),
    ("m", 60.0),
    ("s", 1.0),
];

/// Converts whole seconds to a duration in Go's form: `10m0s`.
pub(crate) fn duration(seconds: &Value) -> Option<Value> {
    let total = seconds.as_i64()?;
    let (sign, total) = (if total < 0 { "-" } else { "" }, total.unsigned_abs());
    let (hours, minutes, seconds) = (total / 3600, total % 3600 / 60, total % 60);
    let text = match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}s"),
        (0, _) => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}s"),
    };
    Some(Value::String(text))
}

/// Converts an `ObjectReference` to the stored form: group, kind and name.
pub(crate) fn contract_reference(reference: Value) -> Option<Value> {
    let Value::Object(mut old) = reference else { return None };
    let mut text = |field: &str| match old.remove(field) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let api_version = text("apiVersion");
    let (group, _) = api_version.split_once('/').unwrap_or_default();
    let mut found = Map::new();
    for (field, value) in [("apiGroup", group.to_owned()), ("kind", text("kind")), ("name", text("name"))] {
        if !value.is_empty() {
            found.insert(field.to_owned(), value.into());
        }
    }
    Some(Value::Object(found))
}

/// Converts a stored reference to an `ObjectReference` in `namespace`, with the version of the current contract.
pub(crate) fn object_reference(reference: &Value, namespace: &str) -> Option<Value> {
    let text = |field: &str| reference.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut found = Map::new();
    let group = text("apiGroup");
    if !group.is_empty() {
        found.insert("apiVersion".to_owned(), format!("{group}/{CONTRACT}").into());
    }
    for (field, value) in [("kind", text("kind")), ("name", text("name")), ("namespace", namespace)] {
        if !value.is_empty() {
            found.insert(field.to_owned(), value.into());
        }
    }
    Some(Value::Object(found))
}

/// Returns the object's namespace, or an empty text.
pub(crate) fn namespace(object: &Value) -> String {
    get(object, "metadata.namespace").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn at_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    path.split('.').try_fold(object, |value, name| value.get_mut(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_renamed_and_empty_parents_are_dropped() {
        let mut object = json!({"spec": {"a": {"b": 1}, "c": [{"x": 1}, {"x": 2}]}});
        rename(&mut object, "spec.a.b", "spec.d.e");
        drop_empty(&mut object, "spec.a");
        each(&mut object, "spec.c", |item| rename(item, "x", "y"));
        rename(&mut object, "spec.nope", "spec.other");
        assert_eq!(object, json!({"spec": {"d": {"e": 1}, "c": [{"y": 1}, {"y": 2}]}}));
    }

    #[test]
    fn durations_are_parsed_and_formatted_like_in_go() {
        let table = [
            ("10m0s", 600),
            ("1h", 3600),
            ("1h30m", 5400),
            ("90s", 90),
            ("0", 0),
            ("-5s", -5),
            ("1500ms", 1),
            ("600000h", 2_147_483_647),
        ];
        for (text, expected) in table {
            assert_eq!(seconds(&json!(text)), Some(json!(expected)), "{text}");
        }
        for text in ["", "10", "m", "1x", "ten"] {
            assert_eq!(seconds(&json!(text)), None, "{text}");
        }
        for (number, expected) in [(0, "0s"), (59, "59s"), (600, "10m0s"), (3600, "1h0m0s"), (-90, "-1m30s")]
        {
            assert_eq!(duration(&json!(number)), Some(json!(expected)));
        }
    }

    #[test]
    fn references_convert_to_contract_references_and_back() {
        let old = json!({"apiVersion": "g.x-k8s.io/v1beta2", "kind": "K", "name": "n", "namespace": "ns"});
        let new = contract_reference(old.clone()).unwrap();
        assert_eq!(new, json!({"apiGroup": "g.x-k8s.io", "kind": "K", "name": "n"}));
        assert_eq!(object_reference(&new, "ns"), Some(old));
    }
}
