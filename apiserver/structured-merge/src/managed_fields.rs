//! Access to `metadata.managedFields` of an object.

use serde_json::{Map, Value};

const FIELD: &str = "managedFields";

/// Returns the managed fields of an object.
pub(crate) fn of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get(FIELD)
}

/// Returns the managed fields of an object for changes.
pub(crate) fn of_mut(object: &mut Value) -> Option<&mut Value> {
    object.get_mut("metadata")?.get_mut(FIELD)
}

/// Removes the managed fields from an object and returns them.
pub(crate) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(FIELD).filter(|list| !list.is_null())
}

/// Sets the managed fields of an object, or removes them for `None`.
pub(crate) fn put(object: &mut Value, list: Option<Value>) {
    let Some(root) = object.as_object_mut() else { return };
    let Some(list) = list else {
        if let Some(metadata) = root.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove(FIELD);
        }
        return;
    };
    let metadata = root.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert(FIELD.to_owned(), list);
    }
}

/// Returns true if two objects are equal except for their managed fields.
pub fn is_same(left: &Value, right: &Value) -> bool {
    let (Some(left), Some(right)) = (left.as_object(), right.as_object()) else { return left == right };
    let all_but = |left: &Map<String, Value>, right: &Map<String, Value>, but: &str| {
        let count = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(but));
        count(left) == count(right)
            && left
                .iter()
                .filter(|(name, _)| *name != but)
                .all(|(name, value)| right.get(name) == Some(value))
    };
    let same_metadata = match (left.get("metadata"), right.get("metadata")) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => all_but(left, right, FIELD),
        (left, right) => left == right,
    };
    // The smaller part first: most patches change it.
    same_metadata && all_but(left, right, "metadata")
}

/// Returns true if two objects have the same managed fields, regardless of their times.
pub fn same_managers(left: &Value, right: &Value) -> bool {
    fn list(object: &Value) -> Vec<Vec<(&str, &Value)>> {
        let list = of(object).and_then(Value::as_array);
        list.into_iter().flatten().map(timeless).collect()
    }
    list(left) == list(right)
}

fn timeless(entry: &Value) -> Vec<(&str, &Value)> {
    let fields = entry.as_object().into_iter().flatten();
    fields.filter(|(name, _)| *name != "time").map(|(name, value)| (name.as_str(), value)).collect()
}
