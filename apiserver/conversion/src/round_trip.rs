//! Round-trip notes: the parts of an object that a plain conversion to the other version and back does not restore.

use serde_json::{Map, Value, json};

/// Keys that can identify the items of a list. The first key counts that all items have, with different values.
const ITEM_KEYS: [&str; 7] = ["name", "class", "type", "conditionType", "key", "uid", "topic"];

/// Parts in which two forms of an object differ, each with its path.
///
/// Text form: `{"plain": {...}, "written": {...}}`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    /// Result of the plain conversion.
    plain: Value,
    /// Form that was written.
    written: Value,
}

impl Note {
    /// Returns the differences of two forms of an object, or `None` if they are equal.
    pub(crate) fn of(plain: &Value, written: &Value) -> Option<Self> {
        let (plain, written) = (body(plain), body(written));
        differences(&plain, &written).map(|(plain, written)| Self { plain, written })
    }

    /// Parses the text form. An invalid text counts as absent.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut found = serde_json::from_str::<Value>(text).ok()?;
        let mut part = |name: &str| found.get_mut(name).map(Value::take).filter(Value::is_object);
        let (plain, written) = part("plain").zip(part("written"))?;
        Some(Self { plain: body(&plain), written: body(&written) })
    }

    /// Returns the text form.
    pub(crate) fn to_text(&self) -> String {
        json!({"plain": self.plain, "written": self.written}).to_string()
    }

    /// Returns the written form of the parts that differ.
    pub(crate) fn written(&self) -> &Value {
        &self.written
    }

    /// Restores the written form in an object, except where it was changed since.
    pub(crate) fn add_to(&self, object: &mut Value) {
        merge(Some(&self.plain), Some(&self.written), object);
    }
}

/// Returns the object without version, kind and metadata, which conversions do not change.
fn body(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        for field in ["apiVersion", "kind", "metadata"] {
            fields.remove(field);
        }
    }
    object
}

/// Returns the parts that differ. Merging these parts equals merging the whole.
fn differences(plain: &Value, written: &Value) -> Option<(Value, Value)> {
    if plain == written {
        return None;
    }
    match (plain, written) {
        (Value::Object(plain), Value::Object(written)) => {
            let (mut left, mut right) = (Map::new(), Map::new());
            for (name, field) in plain {
                match written.get(name) {
                    None => drop(left.insert(name.clone(), field.clone())),
                    Some(other) => {
                        if let Some((one, other)) = differences(field, other) {
                            left.insert(name.clone(), one);
                            right.insert(name.clone(), other);
                        }
                    }
                }
            }
            for (name, field) in written.iter().filter(|(name, _)| !plain.contains_key(*name)) {
                right.insert(name.clone(), field.clone());
            }
            Some((Value::Object(left), Value::Object(right)))
        }
        (Value::Array(plain), Value::Array(written)) => Some(
            item_differences(plain, written)
                .unwrap_or_else(|| (Value::Array(plain.clone()), Value::Array(written.clone()))),
        ),
        _ => Some((plain.clone(), written.clone())),
    }
}

/// Returns the items that differ, if both lists have the same items in the same order, identified by a key that also
/// identifies the remaining items.
fn item_differences(plain: &[Value], written: &[Value]) -> Option<(Value, Value)> {
    let key = item_key(&[plain, written])?;
    let is_same = |(one, other): (&Value, &Value)| one.get(key) == other.get(key);
    if plain.len() != written.len() || !plain.iter().zip(written).all(is_same) {
        return None;
    }
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (plain_item, written_item) in plain.iter().zip(written) {
        if let Some((mut one, mut other)) = differences(plain_item, written_item) {
            // The key is equal in both forms, so it is no difference.
            for (item, whole) in [(&mut one, plain_item), (&mut other, written_item)] {
                if let Some((fields, name)) = item.as_object_mut().zip(whole.get(key)) {
                    fields.insert(key.to_owned(), name.clone());
                }
            }
            left.push(one);
            right.push(other);
        }
    }
    (item_key(&[&left, &right]) == Some(key)).then_some((Value::Array(left), Value::Array(right)))
}

/// Adds to `now` what `kept` has beyond `base`, except where `now` was changed.
pub(crate) fn merge(base: Option<&Value>, kept: Option<&Value>, now: &mut Value) {
    if base == Some(&*now) {
        if let Some(kept) = kept {
            now.clone_from(kept);
        }
        return;
    }
    match (base, kept, now) {
        (base, Some(Value::Object(kept)), Value::Object(now)) => {
            let none = Map::new();
            merge_fields(base.and_then(Value::as_object).unwrap_or(&none), kept, now);
        }
        (Some(Value::Array(base)), Some(Value::Array(kept)), Value::Array(now)) => {
            merge_items(base, kept, now)
        }
        _ => {}
    }
}

fn merge_fields(base: &Map<String, Value>, kept: &Map<String, Value>, now: &mut Map<String, Value>) {
    for (name, kept_field) in kept {
        match now.get_mut(name) {
            Some(field) => merge(base.get(name), Some(kept_field), field),
            // Absent now and in the plain conversion: the other version cannot represent it.
            None if !base.contains_key(name) => {
                now.insert(name.clone(), kept_field.clone());
            }
            None => {}
        }
    }
    // Created by the plain conversion, and unchanged since.
    now.retain(|name, field| kept.contains_key(name) || base.get(name) != Some(&*field));
}

fn merge_items(base: &[Value], kept: &[Value], now: &mut Vec<Value>) {
    let Some(key) = item_key(&[base, kept, now.as_slice()]) else {
        let by_place = item_key(&[base, kept]).is_none();
        if by_place && base.len() == now.len() && kept.len() == now.len() {
            for ((base, kept), now) in base.iter().zip(kept).zip(now.iter_mut()) {
                merge(Some(base), Some(kept), now);
            }
        }
        return;
    };
    let find =
        |list: &[Value], item: &Value| list.iter().find(|other| other.get(key) == item.get(key)).cloned();
    for item in now.iter_mut() {
        let (base, kept) = (find(base, item), find(kept, item));
        merge(base.as_ref(), kept.as_ref(), item);
    }
    let unconvertible = kept.iter().filter(|item| find(base, item).is_none() && find(now, item).is_none());
    let unconvertible: Vec<Value> = unconvertible.cloned().collect();
    now.extend(unconvertible);
}

/// Returns the key that identifies the items of each of these lists.
fn item_key(lists: &[&[Value]]) -> Option<&'static str> {
    ITEM_KEYS.into_iter().find(|key| lists.iter().all(|list| identifies(list, key)))
}

/// Reports whether every item has this key, with different values.
fn identifies(list: &[Value], key: &str) -> bool {
    let mut seen = std::collections::HashSet::new();
    list.iter().all(|item| item.get(key).and_then(Value::as_str).is_some_and(|text| seen.insert(text)))
}
