//! Patches that extension servers generate: JSON patches (RFC 6902) and JSON merge patches (RFC 7386).
//!
//! Upstream's deviations from both are kept, because servers were tested with them: an index of a list may count from the end,
//! and a merge patch drops the nulls in what it adds.

use apiserver_schema::merge_patch::merge;
use serde_json::Value;

use super::{confined, take_maps};

/// Most operations of a patch.
const MOST_OPERATIONS: usize = 10_000;

/// Greatest depth of a template: that of an object that the API reads.
const DEEPEST: usize = 100;

/// Most values that all operations of a patch may move: about a tenth of a second.
const MOST_MOVED: usize = 4_000_000;

/// Largest size that all copies of a patch may add. Unit: bytes of JSON.
const MOST_COPIED: usize = 3 * 1024 * 1024;

/// Labels and annotations of a template.
const MAPS: [&str; 4] = [
    "/metadata/labels",
    "/metadata/annotations",
    "/spec/template/metadata/labels",
    "/spec/template/metadata/annotations",
];

/// Patch that an extension server generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Generated<'a> {
    /// List of the operations of a JSON patch.
    Operations(&'a Value),
    /// Fields of a JSON merge patch.
    Fields(&'a Value),
}

/// Returns an object after a patch, with all changes that the patch makes.
///
/// # Errors
/// The patch cannot be applied. For people.
pub fn applied(object: &Value, patch: Generated<'_>) -> Result<Value, String> {
    let mut patched = object.clone();
    match patch {
        Generated::Operations(operations) => carry_out_all(&mut patched, operations)?,
        Generated::Fields(fields) => match (patched.as_object_mut(), fields.as_object()) {
            (Some(present), Some(fields)) => merge(present, fields),
            _ => return Err("the merge patch is no object".to_owned()),
        },
    }
    Ok(patched)
}

/// Returns a template after a patch, with the changes that such a patch may make.
///
/// # Errors
/// The patch cannot be applied. For people.
pub(super) fn patched(template: &Value, patch: Generated<'_>) -> Result<Value, String> {
    let patched = applied(template, patch)?;
    for pointer in MAPS {
        let is_map = |map: &Value| map.as_object().is_some_and(|map| map.values().all(Value::is_string));
        if patched.pointer(pointer).is_some_and(|map| !map.is_null() && !is_map(map)) {
            return Err(format!("{pointer:?} is no map of texts after the patch"));
        }
    }
    let mut kept = confined(template.clone(), &patched)?;
    if let Some(metadata) = kept.get_mut("metadata").and_then(Value::as_object_mut) {
        take_maps(metadata, patched.get("metadata").and_then(Value::as_object));
    }
    Ok(kept)
}

/// Effort of a patch so far.
#[derive(Default)]
struct Effort {
    moved: usize,
    copied: usize,
}

fn carry_out_all(document: &mut Value, operations: &Value) -> Result<(), String> {
    let operations = operations.as_array().ok_or("the JSON patch is no list of operations")?;
    if operations.len() > MOST_OPERATIONS {
        return Err(format!("the JSON patch has more than {MOST_OPERATIONS} operations"));
    }
    let mut effort = Effort::default();
    for (index, operation) in operations.iter().enumerate() {
        carry_out(document, operation, &mut effort).map_err(|cause| format!("operation {index}: {cause}"))?;
    }
    Ok(())
}

fn carry_out(document: &mut Value, operation: &Value, effort: &mut Effort) -> Result<(), String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let pointer = |name: &str| text(name).ok_or_else(|| format!("it has no field {name:?}"));
    let value = || operation.get("value").cloned().unwrap_or_default();
    match text("op").unwrap_or_default() {
        "add" => add(document, pointer("path")?, value(), effort),
        "remove" => remove(document, pointer("path")?).map(drop),
        "replace" => {
            let path = pointer("path")?;
            effort.put(path, &value())?;
            *find(document, path)? = value();
            Ok(())
        }
        "move" => {
            let (from, path) = (pointer("from")?, pointer("path")?);
            let moved = remove(document, from)?;
            add(document, path, moved, effort)
        }
        "copy" => {
            let (from, path) = (pointer("from")?, pointer("path")?);
            let copied = find(document, from)?.clone();
            effort.copy(&copied)?;
            add(document, path, copied, effort)
        }
        "test" => test(document, pointer("path")?, &value()),
        other => Err(format!("op is {other:?}, and none of add, remove, replace, move, copy and test")),
    }
}

fn add(document: &mut Value, path: &str, value: Value, effort: &mut Effort) -> Result<(), String> {
    effort.put(path, &value)?;
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (holder, key) = holder(document, path)?;
    match holder {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // There is one more place than there are items.
            let at = index(&key, items.len() + 1);
            let at = at.ok_or_else(|| format!("path {path:?}: the list has {} items", items.len()))?;
            items.insert(at, value);
        }
        _ => return Err(format!("path {path:?} leads into something that is no object and no list")),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let (holder, key) = holder(document, path)?;
    let removed = match holder {
        Value::Object(fields) => fields.remove(&key),
        Value::Array(items) => index(&key, items.len()).map(|at| items.remove(at)),
        _ => None,
    };
    removed.ok_or_else(|| missing(path))
}

/// Compares a value. An absent one equals null.
fn test(document: &mut Value, path: &str, expected: &Value) -> Result<(), String> {
    let is_expected = match find(document, path) {
        Ok(found) => found == expected,
        Err(_) => expected.is_null(),
    };
    is_expected.then_some(()).ok_or_else(|| format!("path {path:?} does not have the value of the test"))
}

/// Returns the value at a pointer.
fn find<'a>(document: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    if path.is_empty() {
        return Ok(document);
    }
    let (holder, key) = holder(document, path)?;
    let found = match holder {
        Value::Object(fields) => fields.get_mut(&key),
        Value::Array(items) => {
            let at = index(&key, items.len());
            at.and_then(move |at| items.get_mut(at))
        }
        _ => None,
    };
    found.ok_or_else(|| missing(path))
}

/// Returns the object or list that a pointer leads into, and the last part of the pointer.
fn holder<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let (parent, key) = path.rsplit_once('/').ok_or_else(|| format!("path {path:?} is no JSON pointer"))?;
    let holder = document.pointer_mut(parent);
    let holder = holder.ok_or_else(|| format!("path {path:?}: {parent:?} does not exist in the template"))?;
    Ok((holder, key.replace("~1", "/").replace("~0", "~")))
}

fn missing(path: &str) -> String {
    format!("path {path:?} does not exist in the template")
}

/// Parses an index below `places`. A negative one counts from the end.
fn index(text: &str, places: usize) -> Option<usize> {
    let number: i64 = text.parse().ok()?;
    let distance = usize::try_from(number.unsigned_abs()).ok()?;
    let at = if number < 0 { places.checked_sub(distance)? } else { distance };
    (at < places).then_some(at)
}

impl Effort {
    /// Counts a value that is put at a pointer.
    fn put(&mut self, path: &str, value: &Value) -> Result<(), String> {
        let (depth, values) = measure(value);
        if depth + path.matches('/').count() > DEEPEST {
            return Err(format!("path {path:?}: the template would be more than {DEEPEST} deep"));
        }
        self.moved = self.moved.saturating_add(values);
        match self.moved > MOST_MOVED {
            true => Err("the JSON patch moves too much".to_owned()),
            false => Ok(()),
        }
    }

    /// Counts a copy.
    fn copy(&mut self, value: &Value) -> Result<(), String> {
        self.copied = self.copied.saturating_add(value.to_string().len());
        match self.copied > MOST_COPIED {
            true => Err(format!("the JSON patch copies more than {MOST_COPIED} bytes")),
            false => Ok(()),
        }
    }
}

/// Returns the depth of a value, and the number of the values in it.
fn measure(value: &Value) -> (usize, usize) {
    match value {
        Value::Object(fields) => around(fields.values().map(measure)),
        Value::Array(items) => around(items.iter().map(measure)),
        _ => (0, 1),
    }
}

/// Returns depth and number of what holds values of these depths and numbers.
fn around(sizes: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
    let (depth, values) = sizes.fold((0, 0), |sum, size| (sum.0.max(size.0), sum.1 + size.1));
    (depth + 1, values + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template() -> Value {
        json!({
            "apiVersion": "g/v1", "kind": "T", "metadata": {"name": "t", "labels": {"a": "1"}},
            "spec": {"template": {"spec": {"list": [1, 2, 3], "image": "old", "net": {"mtu": 9}}}},
        })
    }

    /// Returns `spec.template.spec` after one operation. Its paths begin there.
    fn after(mut operation: Value) -> Result<Value, String> {
        for name in ["path", "from"] {
            if let Some(path) = operation.get(name).and_then(Value::as_str).map(str::to_owned) {
                operation[name] = json!(format!("/spec/template/spec{path}"));
            }
        }
        let mut found = patched(&template(), Generated::Operations(&json!([operation])))?;
        Ok(found["spec"]["template"]["spec"].take())
    }

    #[test]
    fn all_operations_of_a_json_patch_are_carried_out() {
        let at = |operation: Value, path: &str| after(operation).map(|mut spec| spec[path].take());
        let table = [
            (json!({"op": "add", "path": "/list/1", "value": 9}), "list", json!([1, 9, 2, 3])),
            (json!({"op": "add", "path": "/list/-", "value": 9}), "list", json!([1, 2, 3, 9])),
            (json!({"op": "add", "path": "/a~1b", "value": 9}), "a/b", json!(9)),
            (json!({"op": "remove", "path": "/list/0"}), "list", json!([2, 3])),
            (json!({"op": "remove", "path": "/list/-1"}), "list", json!([1, 2])),
            (json!({"op": "replace", "path": "/net/mtu", "value": 1}), "net", json!({"mtu": 1})),
            (json!({"op": "replace", "path": "/list/2", "value": 9}), "list", json!([1, 2, 9])),
            (json!({"op": "move", "from": "/image", "path": "/net/image"}), "image", Value::Null),
            (json!({"op": "copy", "from": "/net", "path": "/other"}), "other", json!({"mtu": 9})),
            (json!({"op": "test", "path": "/image", "value": "old"}), "image", json!("old")),
            (json!({"op": "test", "path": "/none", "value": null}), "image", json!("old")),
        ];
        for (operation, path, expected) in table {
            assert_eq!(at(operation.clone(), path), Ok(expected), "{operation}");
        }
    }

    #[test]
    fn an_operation_that_cannot_be_carried_out_names_itself_and_its_path() {
        for (operation, expected) in [
            (json!({"op": "add", "path": "/none/x", "value": 1}), "/none\" does not exist in the template"),
            (json!({"op": "add", "path": "/list/5", "value": 1}), "the list has 3 items"),
            (json!({"op": "add", "path": "/image/x", "value": 1}), "no object and no list"),
            (json!({"op": "remove", "path": "/none"}), "/none\" does not exist in the template"),
            (json!({"op": "replace", "path": "/none", "value": 1}), "/none\" does not exist in the template"),
            (json!({"op": "move", "path": "/x"}), "it has no field \"from\""),
            (json!({"op": "test", "path": "/image", "value": "new"}), "does not have the value of the test"),
            (json!({"op": "drop", "path": "/image"}), "op is \"drop\""),
        ] {
            let error = after(operation.clone()).unwrap_err();
            assert!(error.starts_with("operation 0: ") && error.contains(expected), "{operation}: {error}");
        }
    }

    #[test]
    fn a_merge_patch_sets_fields_and_removes_those_that_are_null() {
        let patch = json!({"spec": {"template": {"spec": {
            "image": null, "net": {"zone": "a", "none": null}, "list": [4], "new": {"x": null, "y": 1}}}}});
        let found = patched(&template(), Generated::Fields(&patch)).unwrap();
        let expected = json!({"net": {"mtu": 9, "zone": "a"}, "list": [4], "new": {"y": 1}});
        assert_eq!(found["spec"]["template"]["spec"], expected);
        assert!(patched(&template(), Generated::Fields(&json!([]))).unwrap_err().contains("no object"));
    }

    #[test]
    fn only_the_spec_and_labels_and_annotations_of_a_template_change() {
        let patch = json!({
            "kind": "Other", "status": {"a": 1},
            "metadata": {"name": "x", "namespace": "other", "labels": {"b": "2"}, "annotations": {"c": "3"}},
            "spec": {
                "other": 1,
                "template": {"metadata": {"labels": {"d": "4"}, "name": "y"}, "spec": {"image": "new"}},
            },
        });
        let expected = json!({
            "apiVersion": "g/v1", "kind": "T",
            "metadata": {"name": "t", "labels": {"a": "1", "b": "2"}, "annotations": {"c": "3"}},
            "spec": {"template": {
                "metadata": {"labels": {"d": "4"}},
                "spec": {"list": [1, 2, 3], "image": "new", "net": {"mtu": 9}},
            }},
        });
        assert_eq!(patched(&template(), Generated::Fields(&patch)), Ok(expected));
        let number = json!({"metadata": {"labels": {"a": 1}}});
        let error = patched(&template(), Generated::Fields(&number)).unwrap_err();
        assert!(error.contains("\"/metadata/labels\" is no map of texts"), "{error}");
        let gone = json!({"spec": {"template": null}});
        assert!(patched(&template(), Generated::Fields(&gone)).unwrap_err().contains("was removed"));
    }

    #[test]
    fn a_patch_that_grows_without_end_is_refused() {
        let field = "/spec/template/spec/x";
        let twice = |count: usize| {
            let start = json!({"op": "add", "path": field, "value": ["0123456789"]});
            let copy = json!({"op": "copy", "from": field, "path": format!("{field}/-")});
            let operations: Vec<Value> = [start].into_iter().chain(vec![copy; count]).collect();
            patched(&template(), Generated::Operations(&json!(operations)))
        };
        assert!(twice(3).is_ok());
        let error = twice(60).unwrap_err();
        assert!(error.contains("copies more than") || error.contains("deep"), "{error}");
        let deep = format!("{field}{}", "/a".repeat(100));
        let error = patched(&template(), Generated::Operations(&json!([{"op": "add", "path": deep}])));
        assert!(error.unwrap_err().contains("more than 100 deep"));
    }
}
