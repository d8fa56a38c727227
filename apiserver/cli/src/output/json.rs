//! Tree as JSON for programs. Fields are added, and never renamed or removed.

use serde_json::{Map, Value, json};

use crate::tree::{Cause, Counts, Node, Severity, Tree};

/// Id of the form.
const SCHEMA: &str = "capstan.dev/describe/v1";

/// Returns the complete tree.
#[must_use]
pub fn view(tree: &Tree) -> Value {
    let problems: Vec<Value> = tree
        .problems()
        .iter()
        .map(|it| {
            json!({
                "kind": it.kind, "namespace": it.namespace, "name": it.name,
                "reason": it.cause.reason, "message": it.cause.message,
            })
        })
        .collect();
    json!({"schema": SCHEMA, "root": node(&tree.root), "problems": problems})
}

/// Returns `kind/name` of each problem, in lower case, as kubectl accepts it.
#[must_use]
pub fn names(tree: &Tree) -> Vec<String> {
    tree.problems().iter().map(|it| format!("{}/{}", it.kind.to_lowercase(), it.name)).collect()
}

fn node(it: &Node) -> Value {
    let sign = Counts { ready: i32::from(it.severity == Severity::Done), desired: 1 };
    let counts = it.counts.unwrap_or(sign);
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    set("kind", json!(it.kind));
    set("namespace", json!(it.namespace));
    set("name", json!(it.name));
    set("uid", json!(it.uid));
    set("severity", json!(it.severity.word()));
    set("ready", json!({"ok": counts.ready, "of": counts.desired}));
    if !it.version.is_empty() {
        set("version", json!(it.version));
    }
    set("state", json!(it.state));
    if let Some(since) = it.since {
        set("since", json!(since.to_string()));
    }
    if let Some(Cause { reason, message }) = &it.cause {
        set("cause", json!({"reason": reason, "message": message}));
    }
    if !it.note.is_empty() {
        set("note", json!(it.note));
    }
    set("conditions", json!(it.conditions));
    set("children", it.children.iter().map(node).collect());
    Value::Object(fields)
}
