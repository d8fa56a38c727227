//! Validation of immutable fields.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

/// Annotation of the topology controller's dry runs, which compute the result of a change of a template.
const TOPOLOGY_DRY_RUN: &str = "topology.cluster.x-k8s.io/dry-run";

/// Reports whether a request is such a dry run, which changes nothing.
pub(crate) fn is_of_topology(new: &Value) -> bool {
    crate::rules::json_fields::annotation(new, TOPOLOGY_DRY_RUN).is_some()
}

/// Returns an error if the field at `path` (dotted, from the root) differs between `new` and `old`.
pub(crate) fn field(new: &Value, old: &Value, path: &str) -> Option<FieldError> {
    let pointer = format!("/{}", path.replace('.', "/"));
    let (now, before) = (new.pointer(&pointer), old.pointer(&pointer));
    (now != before).then(|| error(FieldPath::new(path), now))
}

/// Returns an error for every field of `spec` that differs between `new` and `old`, after `allow` has removed the
/// allowed differences from both.
pub(crate) fn spec_fields(
    new: &Value,
    old: &Value,
    allow: impl Fn(&mut Value, &mut Value),
) -> Vec<FieldError> {
    if is_same(new, old) {
        return Vec::new();
    }
    let (now, before) = allowed(new, old, allow);
    let empty = serde_json::Map::new();
    let (now, before) = (now.as_object().unwrap_or(&empty), before.as_object().unwrap_or(&empty));
    let mut names: Vec<&String> = now.keys().chain(before.keys()).collect();
    names.sort();
    names.dedup();
    let changed = names.into_iter().filter(|name| now.get(*name) != before.get(*name));
    changed.map(|name| error(FieldPath::new("spec").child(name), now.get(name))).collect()
}

/// Returns an error of the whole `spec` if it differs between `new` and `old`, after `allow` has removed the allowed
/// differences from both. It names the fields.
pub(crate) fn spec(new: &Value, old: &Value, allow: impl Fn(&mut Value, &mut Value)) -> Option<FieldError> {
    if is_same(new, old) {
        return None;
    }
    let (now, before) = allowed(new, old, allow);
    let changed = || format!("cannot be modified: {}", changed_paths(&before, &now).join(", "));
    (now != before).then(|| FieldError::forbidden(FieldPath::new("spec"), &changed()))
}

/// Returns the dotted paths that differ, as a merge patch has them: a removed field as a whole, an added field by its
/// leaves.
pub(crate) fn changed_paths(before: &Value, now: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    compare(Some(before), Some(now), "", &mut changed);
    changed
}

fn compare(before: Option<&Value>, now: Option<&Value>, path: &str, changed: &mut Vec<String>) {
    if before == now {
        return;
    }
    let Some(Value::Object(fields)) = now else { return changed.push(path.to_owned()) };
    let former = before.and_then(Value::as_object);
    let gone = former.into_iter().flat_map(|former| former.keys()).filter(|name| !fields.contains_key(*name));
    for name in fields.keys().chain(gone) {
        let at = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        compare(former.and_then(|former| former.get(name)), fields.get(name), &at, changed);
    }
}

/// Fast path: most writes do not change `spec`, so nothing has to be copied.
fn is_same(new: &Value, old: &Value) -> bool {
    new.get("spec") == old.get("spec")
}

fn allowed(new: &Value, old: &Value, allow: impl Fn(&mut Value, &mut Value)) -> (Value, Value) {
    let part = |object: &Value| object.get("spec").cloned().unwrap_or_default();
    let (mut now, mut before) = (part(new), part(old));
    allow(&mut now, &mut before);
    (now, before)
}

fn error(path: FieldPath, now: Option<&Value>) -> FieldError {
    let shown = now.cloned().unwrap_or_default();
    FieldError::invalid(path, &shown, "field is immutable")
}

/// Removes the field at a dotted path below `value`.
pub(crate) fn forget(value: &mut Value, path: &str) {
    let (parents, name) = path.rsplit_once('.').map_or(("", path), |(parents, name)| (parents, name));
    let pointer = if parents.is_empty() { String::new() } else { format!("/{}", parents.replace('.', "/")) };
    if let Some(parent) = value.pointer_mut(&pointer).and_then(Value::as_object_mut) {
        parent.remove(name);
    }
}

/// Returns the spec without fields that hold the zero value of their type. Upstream's types do not distinguish them
/// from absent fields, so a client that reads and writes such an object drops them.
///
/// Source: the non-pointer fields of the types of Cluster API Provider OpenStack.
pub(crate) fn as_typed(spec: &Value) -> Value {
    let mut typed = spec.clone();
    forget_zeros(&mut typed);
    typed
}

/// Removes those fields.
pub(crate) fn forget_zeros(spec: &mut Value) {
    without_zeros(spec, "", "");
}

fn without_zeros(value: &mut Value, around: &str, at: &str) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !(is_zero(field) && is_plain(around, at, name)));
            fields.iter_mut().for_each(|(name, field)| without_zeros(field, at, name));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| without_zeros(item, around, at)),
        _ => {}
    }
}

fn is_zero(value: &Value) -> bool {
    *value == Value::Bool(false) || value.as_str() == Some("") || value.as_i64() == Some(0)
}

/// Reports whether upstream's type of a field is not a pointer, by the names of the enclosing fields.
fn is_plain(around: &str, at: &str, name: &str) -> bool {
    match (at, name) {
        // Of a machine's spec, and of a bastion's `spec`, which is one.
        ("" | "spec", "trunk" | "sshKeyName")
        | ("rootVolume" | "volume", "type")
        | ("identityRef", "region")
        | ("externalIPs", "fixedIP") => true,
        ("filter", _) => !matches!(around, "image" | "flavor" | "serverGroup"),
        _ => false,
    }
}

/// Removes empty lists at any depth.
pub(crate) fn without_empty_lists(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| field.as_array().is_none_or(|items| !items.is_empty()));
            fields.values_mut().for_each(without_empty_lists);
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty_lists),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn zero_values_that_go_types_omit_are_dropped() {
        let given = json!({"trunk": false, "sshKeyName": "", "configDrive": false, "ports": [{"trunk": false,
            "network": {"filter": {"name": "n", "description": ""}}, "fixedIPs": [{"subnet": {"filter": {"ipVersion": 0}}}]}],
            "rootVolume": {"type": ""}, "image": {"filter": {"name": ""}}, "identityRef": {"name": "", "region": ""},
            "bastion": {"spec": {"trunk": false}}});
        let left = json!({"configDrive": false, "ports": [{"trunk": false,
            "network": {"filter": {"name": "n"}}, "fixedIPs": [{"subnet": {"filter": {}}}]}],
            "rootVolume": {}, "image": {"filter": {"name": ""}}, "identityRef": {"name": ""},
            "bastion": {"spec": {}}});
        assert_eq!(as_typed(&given), left);
    }

    #[test]
    fn the_refusal_of_a_change_names_the_fields() {
        let old =
            json!({"spec": {"apiServer": {"lb": {"enabled": true}}, "network": {"id": "n"}, "tags": ["a"]}});
        let mut new = old.clone();
        new["spec"]["apiServer"]["lb"] = json!({"enabled": true, "provider": "ovn"});
        new["spec"]["tags"] = json!([]);
        forget(&mut new, "spec.network");
        let free = |now: &mut Value, before: &mut Value| {
            forget(now, "tags");
            forget(before, "tags");
        };
        let error = spec(&new, &old, free).unwrap();
        assert_eq!(error.to_string(), "spec: Forbidden: cannot be modified: apiServer.lb.provider, network");
        assert!(spec(&old, &old, free).is_none());
    }

    #[test]
    fn empty_lists_are_removed() {
        let mut given = json!({"tags": [], "ports": [{"tags": [], "securityGroups": [1]}]});
        without_empty_lists(&mut given);
        assert_eq!(given, json!({"ports": [{"securityGroups": [1]}]}));
    }
}
