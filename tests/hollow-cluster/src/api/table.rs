//! Tables for kubectl.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::Kind;
use super::request::Request;
use crate::json::{flag, list, text};

/// Prefix of the labels that name the roles of a node.
const ROLE: &str = "node-role.kubernetes.io/";

/// Returns true if the client accepts a table.
pub(crate) fn is_wanted(request: &Request) -> bool {
    let first = request.header("accept").split(',').next().unwrap_or_default();
    first.contains("as=Table") && (first.contains("v=v1;") || first.ends_with("v=v1"))
}

/// Returns an age as kubectl shows it.
fn age(object: &Value) -> String {
    let Ok(created) = text(object, "/metadata/creationTimestamp").parse::<Timestamp>() else {
        return "<unknown>".to_owned();
    };
    let seconds = Timestamp::now().duration_since(created).as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn node_status(node: &Value) -> String {
    let conditions = list(node, "/status/conditions");
    let ready = conditions.iter().find(|condition| text(condition, "/type") == "Ready");
    let word = match ready.map(|ready| text(ready, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if flag(node, "/spec/unschedulable") { format!("{word},SchedulingDisabled") } else { word.to_owned() }
}

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let found: Vec<&str> =
        labels.into_iter().flatten().filter_map(|(key, _)| key.strip_prefix(ROLE)).collect();
    if found.is_empty() { "<none>".to_owned() } else { found.join(",") }
}

fn ready_containers(pod: &Value) -> String {
    let statuses = list(pod, "/status/containerStatuses");
    let ready = statuses.iter().filter(|status| flag(status, "/ready")).count();
    format!("{ready}/{}", list(pod, "/spec/containers").len())
}

/// Returns the columns of a kind, and the cells of an object.
fn cells(kind: &Kind, object: &Value) -> Vec<(&'static str, Value)> {
    let name = ("Name", json!(text(object, "/metadata/name")));
    let age = ("Age", json!(age(object)));
    match kind.plural {
        "nodes" => {
            let version = json!(text(object, "/status/nodeInfo/kubeletVersion"));
            vec![
                name,
                ("Status", node_status(object).into()),
                ("Roles", roles(object).into()),
                age,
                ("Version", version),
            ]
        }
        "pods" => {
            let deleting = object.pointer("/metadata/deletionTimestamp").is_some();
            let phase = if deleting { "Terminating" } else { text(object, "/status/phase") };
            let ready = ("Ready", ready_containers(object).into());
            vec![name, ready, ("Status", phase.into()), ("Restarts", "0".into()), age]
        }
        _ => vec![name, age],
    }
}

/// Returns the table of some objects.
pub(crate) fn of(kind: &Kind, objects: &[Arc<Value>], metadata: Option<Value>) -> Value {
    let columns: Vec<Value> = cells(kind, &Value::Null)
        .into_iter()
        .map(|(name, _)| {
            let format = if name == "Name" { "name" } else { "" };
            json!({"name": name, "type": "string", "format": format, "description": name, "priority": 0})
        })
        .collect();
    let row = |object: &Arc<Value>| {
        let values: Vec<Value> = cells(kind, object).into_iter().map(|(_, value)| value).collect();
        let metadata = object.get("metadata").cloned().unwrap_or_default();
        let partial = json!({
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        });
        json!({"cells": values, "object": partial})
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata.unwrap_or_else(|| json!({})),
        "columnDefinitions": columns, "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}
