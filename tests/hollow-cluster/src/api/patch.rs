//! Patches: merge, strategic merge and JSON patch.

use serde_json::{Map, Value};

use super::failure::Failure;
use crate::json::text;

/// Lists whose items a strategic merge patch matches by these fields.
const MERGE_KEYS: [(&str, &str); 15] = [
    ("addresses", "type"),
    ("conditions", "type"),
    ("containers", "name"),
    ("containerStatuses", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("ownerReferences", "uid"),
    ("secrets", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// Lists of plain values that a strategic merge patch extends.
const MERGED_SETS: [&str; 3] = ["finalizers", "podCIDRs", "volumesInUse"];

/// Kind of a patch, by the content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchType {
    pub(crate) fn of(content_type: &str) -> Option<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Some(Self::Json),
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Some(Self::Apply),
            _ => None,
        }
    }
}

/// Applies a patch.
pub(crate) fn apply(kind: PatchType, target: &mut Value, patch: &Value) -> Result<(), Failure> {
    match kind {
        PatchType::Json => json_patch(target, patch),
        PatchType::Merge => {
            merge(target, patch);
            Ok(())
        }
        // Without records of field managers, an apply can only add and replace.
        PatchType::Strategic | PatchType::Apply => {
            strategic(target, patch);
            Ok(())
        }
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    let fields = crate::json::object(target);
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if changes.get("$patch").and_then(Value::as_str) == Some("replace") {
        let kept = changes.iter().filter(|(name, _)| *name != "$patch");
        *target = Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect());
        return;
    }
    let fields = crate::json::object(target);
    for (name, change) in changes {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            delete_from_list(fields, list, change);
        } else if name.starts_with('$') {
            // The order of lists and the retained keys of unions have no meaning for a fixture.
        } else if change.is_null() {
            fields.remove(name);
        } else if let Value::Array(items) = change {
            strategic_list(fields, name, items);
        } else {
            strategic(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

fn delete_from_list(fields: &mut Map<String, Value>, name: &str, deleted: &Value) {
    let deleted = deleted.as_array().cloned().unwrap_or_default();
    if let Some(Value::Array(items)) = fields.get_mut(name) {
        items.retain(|item| !deleted.contains(item));
    }
}

fn strategic_list(fields: &mut Map<String, Value>, name: &str, changes: &[Value]) {
    let held = fields.entry(name.to_owned()).or_insert_with(|| Value::Array(Vec::new()));
    let Value::Array(items) = held else {
        *held = Value::Array(changes.to_vec());
        return;
    };
    if MERGED_SETS.contains(&name) {
        for change in changes {
            if !items.contains(change) {
                items.push(change.clone());
            }
        }
        return;
    }
    let has_directive = |change: &Value| text(change, "/$patch") == "replace";
    let key = MERGE_KEYS.iter().find(|(list, _)| *list == name).map(|(_, key)| *key);
    let Some(key) = key.filter(|_| !changes.iter().any(has_directive)) else {
        *items = changes.iter().filter(|change| !has_directive(change)).cloned().collect();
        return;
    };
    for change in changes {
        let wanted = change.get(key);
        let position = items.iter().position(|item| item.get(key) == wanted);
        let deletes = text(change, "/$patch") == "delete";
        match position.and_then(|position| items.get_mut(position)) {
            Some(_) if deletes => items.retain(|item| item.get(key) != wanted),
            Some(item) => strategic(item, change),
            None if deletes => {}
            None => items.push(change.clone()),
        }
    }
}

fn json_patch(target: &mut Value, patch: &Value) -> Result<(), Failure> {
    let Value::Array(operations) = patch else {
        return Err(Failure::bad_request("a JSON patch is a list of operations"));
    };
    for operation in operations {
        let path = text(operation, "/path");
        let value = operation.get("value").cloned().unwrap_or(Value::Null);
        let done = match text(operation, "/op") {
            "add" => insert(target, path, value),
            "replace" => target.pointer_mut(path).map(|held| *held = value),
            "remove" => take(target, path).map(|_| ()),
            "test" => (target.pointer(path) == Some(&value)).then_some(()),
            "move" => take(target, text(operation, "/from")).and_then(|moved| insert(target, path, moved)),
            "copy" => {
                target.pointer(text(operation, "/from")).cloned().and_then(|copy| insert(target, path, copy))
            }
            _ => None,
        };
        done.ok_or_else(|| {
            let message =
                format!("the server rejected our request due to an error in our request: {operation}");
            Failure::new(http::StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
        })?;
    }
    Ok(())
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn insert(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    let (parent, last) = split(path)?;
    match target.pointer_mut(parent)? {
        Value::Object(fields) => {
            fields.insert(last, value);
            Some(())
        }
        Value::Array(items) => {
            let position = if last == "-" { items.len() } else { last.parse().ok()? };
            (position <= items.len()).then(|| items.insert(position, value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn take(target: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split(path)?;
    match target.pointer_mut(parent)? {
        Value::Object(fields) => fields.remove(&last),
        Value::Array(items) => {
            let position: usize = last.parse().ok()?;
            (position < items.len()).then(|| items.remove(position))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
    fn patched(kind: PatchType, mut target: Value, patch: Value) -> Value {
        apply(kind, &mut target, &patch).unwrap();
        target
    }

    #[test]
    fn a_strategic_merge_patch_merges_conditions_and_replaces_taints() {
        let node = json!({
            "metadata": {"labels": {"a": "1"}, "finalizers": ["x"]},
            "spec": {"taints": [{"key": "a"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}]},
        });
        let patch = json!({
            "metadata": {"labels": {"a": null, "b": "2"}, "finalizers": ["y"]},
            "spec": {"taints": [{"key": "b"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]},
        });
        let expected = json!({
            "metadata": {"labels": {"b": "2"}, "finalizers": ["x", "y"]},
            "spec": {"taints": [{"key": "b"}]},
            "status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "Disk", "status": "False"}]},
        });
        assert_eq!(patched(PatchType::Strategic, node, patch), expected);
    }

    #[test]
    fn a_json_patch_adds_tests_and_removes() {
        let patch = json!([
            {"op": "test", "path": "/a", "value": 1},
            {"op": "add", "path": "/list/-", "value": "x"},
            {"op": "add", "path": "/labels/a~1b", "value": "c"},
            {"op": "remove", "path": "/a"},
        ]);
        let target = json!({"a": 1, "list": [], "labels": {}});
        assert_eq!(patched(PatchType::Json, target, patch), json!({"list": ["x"], "labels": {"a/b": "c"}}));
    }
}
