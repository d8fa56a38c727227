//! Replay of the specification's vectors that need no server: objects, managers, conflicts.

use std::collections::BTreeMap;

use super::*;

struct Replay {
    objects: BTreeMap<String, Value>,
    now: i64,
    checked: usize,
}

#[test]
fn vectors_match_kube_apiserver() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../../tests/widget/ssa-vectors.json")).unwrap();
    let mut replay = Replay { objects: BTreeMap::new(), now: 1_000, checked: 0 };
    for vector in vectors["vectors"].as_array().unwrap() {
        replay.objects.clear();
        for step in vector["steps"].as_array().unwrap() {
            replay.step(&vector["id"], step);
        }
    }
    assert!(replay.checked > 90, "{}", replay.checked);
}

impl Replay {
    fn step(&mut self, id: &Value, step: &Value) {
        let (method, target) = step["request"].as_str().unwrap().split_once(' ').unwrap();
        let status = step["expect"]["status"].as_u64().unwrap();
        // Steps that are refused before managed fields matter, and steps that only read.
        let reason = step["expect"]["error"]["reason"].as_str().unwrap_or_default();
        if method == "GET" || [400, 404, 422].contains(&status) || target.contains("dryRun") {
            return;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let manager =
            query.split('&').find_map(|pair| pair.strip_prefix("fieldManager=")).unwrap_or("kubectl");
        let operation = step["op"].as_str().unwrap();
        let manager = if operation.contains("empty UA") { "unknown" } else { manager };
        let status_part = path.ends_with("/status");
        let reset = if status_part {
            Set::of([Path::of_fields(["spec"]), Path::of_fields(["metadata"])])
        } else {
            Set::of([Path::of_fields(["status"])])
        };
        let subresource = if status_part { "status" } else { "" };
        let name = path.trim_start_matches('/').trim_end_matches("/status").to_owned();
        let body = self.body(&name, &step["body"]);
        let version = body["apiVersion"].as_str().unwrap_or(V1).to_owned();
        let now = self.now;
        let tracker = FieldManager {
            versions: &Widgets,
            api_version: &version,
            manager,
            subresource,
            reset: &reset,
            now,
        };
        let name =
            if method == "POST" { body["metadata"]["name"].as_str().unwrap().to_owned() } else { name };
        let live = self.objects.get(&name).map(|live| in_version(live, &version));
        let outcome = match step["contentType"].as_str() {
            Some("application/apply-patch+yaml") => {
                let force = query.contains("force=true");
                tracker.apply(live.as_ref(), &body, force).map(|applied| applied.object)
            }
            Some("application/merge-patch+json") => {
                Ok(self.update(tracker, live.as_ref(), merged(live.clone().unwrap(), &body)))
            }
            Some("application/json-patch+json") => {
                let mut new = live.clone().unwrap();
                for change in body.as_array().unwrap() {
                    *new.pointer_mut(change["path"].as_str().unwrap()).unwrap() = change["value"].clone();
                }
                Ok(self.update(tracker, live.as_ref(), new))
            }
            _ => Ok(self.update(tracker, live.as_ref(), body)),
        };
        match outcome {
            Ok(new) => {
                let new = settled(new, live.as_ref(), status_part);
                let wanted = &step["expect"]["result"];
                assert_eq!(new["spec"], wanted["spec"], "{id} {operation}");
                let mut answered = new.clone();
                parse_sets(&mut answered);
                let managers = strip(answered["metadata"].get("managedFields"));
                assert_eq!(managers, strip(wanted.get("managedFields")), "{id} {operation}");
                self.objects.insert(name, in_version(&new, V1));
            }
            Err(error) => {
                let wanted = step["expect"]["error"]["message"].as_str().unwrap_or_default();
                assert!(wanted.ends_with(&error.to_string()), "{id} {operation}: {error} and not {wanted}");
                assert_eq!(reason == "Conflict", matches!(error, ApplyError::Conflicts(_)), "{id}");
            }
        }
        self.checked += 1;
    }

    /// Returns the body of a step; a text describes the change of the live object.
    fn body(&self, name: &str, body: &Value) -> Value {
        let Value::String(text) = body else { return body.clone() };
        let changes: Value =
            serde_json::from_str(include_str!("../../../../tests/widget/changes.json")).unwrap();
        merged(self.objects[name].clone(), &changes[text])
    }

    fn update(&self, tracker: FieldManager<'_>, live: Option<&Value>, mut new: Value) -> Value {
        new["spec"].as_object_mut().unwrap().entry("defaulted").or_insert(json!("dflt"));
        new["metadata"]["uid"] = json!("u");
        tracker.update(live, &mut new);
        new
    }
}

/// Applies the server's changes beside the managed fields: defaults, and the parts that are not written.
fn settled(mut new: Value, live: Option<&Value>, status_part: bool) -> Value {
    let part = |name: &str| live.and_then(|live| live.get(name)).cloned();
    let kept = if status_part { "spec" } else { "status" };
    match part(kept) {
        Some(value) => new[kept] = value,
        None => drop(new.as_object_mut().unwrap().remove(kept)),
    }
    new["metadata"]["uid"] = json!("u");
    if !new["spec"].is_object() {
        new["spec"] = json!({});
    }
    for port in new["spec"].get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        port.as_object_mut().unwrap().entry("protocol").or_insert(json!("TCP"));
    }
    new["spec"].as_object_mut().unwrap().entry("defaulted").or_insert(json!("dflt"));
    new
}

fn in_version(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(version);
    object
}

fn merged(mut object: Value, patch: &Value) -> Value {
    let Value::Object(fields) = patch else { return patch.clone() };
    if !object.is_object() {
        object = json!({});
    }
    let map = object.as_object_mut().unwrap();
    for (name, value) in fields {
        let old = map.remove(name).unwrap_or_default();
        if !value.is_null() {
            map.insert(name.clone(), merged(old, value));
        }
    }
    object
}

/// Returns the managed fields without times and without the fields that every entry has.
fn strip(list: Option<&Value>) -> Vec<Value> {
    let mut list = list.and_then(Value::as_array).cloned().unwrap_or_default();
    for entry in &mut list {
        let entry = entry.as_object_mut().unwrap();
        entry.remove("time");
        entry.remove("fieldsType");
    }
    list
}
