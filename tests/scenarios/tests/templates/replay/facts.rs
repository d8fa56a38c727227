//! Facts about objects, in lines that do not depend on generated names, times and ids.

use std::collections::BTreeSet;

use serde_json::Value;

/// Characters of generated suffixes.
const SUFFIX: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Length of generated suffixes.
const SUFFIX_LENGTH: usize = 5;

/// Smallest number of digits of a generated hash.
const HASH_LENGTH: usize = 8;

/// Returns a text with `*` for each generated part.
fn normal(text: &str) -> String {
    let is_suffix = |part: &str| part.len() == SUFFIX_LENGTH && part.chars().all(|it| SUFFIX.contains(it));
    let is_hash = |part: &str| part.len() >= HASH_LENGTH && part.chars().all(|it| it.is_ascii_digit());
    let parts = text.split('-').map(|part| if is_suffix(part) || is_hash(part) { "*" } else { part });
    parts.collect::<Vec<_>>().join("-")
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the facts of all objects, and how many objects each name stands for.
pub(crate) fn of_all(objects: &[Value]) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for object in objects {
        facts.extend(of(object));
    }
    let names: Vec<String> = objects.iter().map(id).collect();
    for name in &names {
        let count = names.iter().filter(|other| *other == name).count();
        facts.insert(format!("{name} exists {count} times"));
    }
    facts
}

/// Returns kind and normal name.
fn id(object: &Value) -> String {
    format!("{}/{}", text(object, "/kind"), normal(text(object, "/metadata/name")))
}

fn of(object: &Value) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(list(object, "/metadata/finalizers").map(|it| format!("finalizer {}", value(it))));
    facts.extend(list(object, "/metadata/ownerReferences").map(owner));
    for field in ["labels", "annotations"] {
        let pairs = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object);
        let pairs = pairs.into_iter().flatten().filter(|(key, _)| !key.starts_with("capstan.dev/"));
        facts.extend(pairs.map(|(key, found)| format!("{field} {key}={}", normal(value(found)))));
    }
    facts.extend(list(object, "/status/conditions").map(|it| condition("condition", it)));
    let deprecated = list(object, "/status/deprecated/v1beta1/conditions");
    facts.extend(deprecated.map(|it| condition("deprecated", it)));
    for field in ["/status/phase", "/type"] {
        facts.extend(Some(text(object, field)).filter(|it| !it.is_empty()).map(|it| format!("{field} {it}")));
    }
    let id = id(object);
    facts.into_iter().map(|fact| format!("{id} {fact}")).collect()
}

fn value(text: &Value) -> &str {
    text.as_str().unwrap_or_default()
}

fn owner(owner: &Value) -> String {
    let flag = |field: &str| owner[field].as_bool().unwrap_or_default();
    let (name, version) = (normal(text(owner, "/name")), text(owner, "/apiVersion"));
    let kind = text(owner, "/kind");
    let (controller, blocks) = (flag("controller"), flag("blockOwnerDeletion"));
    format!("owner {version} {kind}/{name} controller={controller} blockOwnerDeletion={blocks}")
}

fn condition(word: &str, condition: &Value) -> String {
    let of = |field: &str| value(&condition[field]);
    // Some reasons of v1beta1 name a Machine.
    let reason = normal(of("reason"));
    format!("{word} {}={} {reason}", of("type"), of("status")).trim_end().to_owned()
}
