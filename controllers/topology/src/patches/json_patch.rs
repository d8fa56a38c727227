//! Operations of JSON patches (RFC 6902).

use apiserver_types::JsonPatchOperation;
use serde_json::Value;

/// Applies one operation. `value` is set for `add` and `replace`.
pub(super) fn apply(
    document: &mut Value,
    operation: &JsonPatchOperation,
    path: &str,
    value: Value,
) -> Result<(), String> {
    let (parent, name) = path
        .rsplit_once('/')
        .filter(|_| path == "/spec" || path.starts_with("/spec/"))
        .ok_or_else(|| format!("path {path:?} must start with \"/spec\""))?;
    let name = name.replace("~1", "/").replace("~0", "~");
    let holder = document
        .pointer_mut(parent)
        .ok_or_else(|| format!("path {path:?}: {parent:?} does not exist in the template"))?;
    match holder {
        Value::Object(fields) => match operation {
            JsonPatchOperation::Add => {
                fields.insert(name, value);
                Ok(())
            }
            JsonPatchOperation::Replace => {
                let held = fields.get_mut(&name).ok_or_else(|| missing(path, "replace"))?;
                *held = value;
                Ok(())
            }
            JsonPatchOperation::Remove => {
                fields.remove(&name).map(drop).ok_or_else(|| missing(path, "remove"))
            }
        },
        Value::Array(items) => match (operation, name.as_str()) {
            (JsonPatchOperation::Add, "0") => {
                items.insert(0, value);
                Ok(())
            }
            (JsonPatchOperation::Add, "-") => {
                items.push(value);
                Ok(())
            }
            (JsonPatchOperation::Add, _) => {
                Err(format!("path {path:?}: a list can be changed at \"0\" (start) or \"-\" (end) only"))
            }
            _ => Err(format!("path {path:?}: an item of a list can be added, but not replaced or removed")),
        },
        _ => Err(format!("path {path:?}: {parent:?} is no object and no list")),
    }
}

fn missing(path: &str, word: &str) -> String {
    format!(
        "path {path:?} does not exist in the template, so {word} cannot be applied: use add, or set the field in the template"
    )
}
