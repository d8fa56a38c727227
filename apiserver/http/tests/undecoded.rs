//! Tests of raw fields: a kind whose rules do not read the status gives the same responses as one whose rules do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const WIDGETS: &str = "/apis/lab.example.io/v1/namespaces/default/widgets";
const OLDER: &str = "/apis/lab.example.io/v1beta1/namespaces/default/widgets";

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A widget with these other fields.
fn widget(version: &str, fields: &Value) -> Value {
    let mut widget = json!({"apiVersion": format!("lab.example.io/{version}"), "kind": "Widget",
        "metadata": {"name": "a"}});
    for (name, value) in fields.as_object().unwrap() {
        widget[name] = value.clone();
    }
    widget
}

/// Method, what comes after the path of the object, form, body, and the code of the answer.
type Step = (&'static str, &'static str, &'static str, Value, u16);

fn made() -> Vec<Step> {
    let held = json!({"name": "a", "finalizers": ["example.com/held"]});
    let status = json!({"phase": "<&>", "replicas": 2, "conditions": [{"type": "Ready", "status": "True"}]});
    vec![
        ("POST", "", JSON, widget("v1", &json!({"metadata": held, "spec": {"note": "n"}})), 201),
        ("PATCH", "/a/status", MERGE, json!({"status": status}), 200),
    ]
}

/// Patches: some do not mention the status, some read it, and some try to change it.
fn patched() -> Vec<Step> {
    let operation = |op: &str, path: &str| json!({"op": op, "path": path, "value": "<&>"});
    let copied = json!([{"op": "copy", "from": "/status/phase", "path": "/spec/name"}]);
    vec![
        ("PATCH", "/a", MERGE, json!({"spec": {"replicas": 1}}), 200),
        ("PATCH", "/a", MERGE, json!({"spec": {"replicas": 1}}), 200),
        ("PATCH", "/a?dryRun=All", MERGE, json!({"spec": {"replicas": 7}}), 200),
        ("PATCH", "/a", MERGE, json!({"spec": {"replicas": 2}, "status": {"phase": "other"}}), 200),
        ("PATCH", "/a", MERGE, json!({"metadata": {"labels": {"b": "c"}}, "status": null}), 200),
        ("PATCH", "/a", MERGE, json!({"spec": {"replicas": -1}}), 422),
        ("PATCH", "/a?fieldValidation=Strict", MERGE, json!({"spec": {"nope": 1}}), 422),
        ("PATCH", "/a?fieldValidation=Strict", MERGE, json!({"spec": {"name": "n"}}), 200),
        ("PATCH", "/a", MERGE, json!({"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 3}}), 409),
        ("PATCH", "/a", OPERATIONS, json!([operation("replace", "/spec/note")]), 200),
        (
            "PATCH",
            "/a",
            OPERATIONS,
            json!([operation("test", "/status/phase"), operation("add", "/spec/name")]),
            200,
        ),
        ("PATCH", "/a", OPERATIONS, json!([operation("test", "/status/selector")]), 422),
        ("PATCH", "/a", OPERATIONS, copied, 200),
        ("PATCH", "/a", OPERATIONS, json!([{"op": "remove", "path": "/status"}]), 200),
        ("PATCH", "/a", OPERATIONS, json!([operation("replace", "")]), 422),
        ("PATCH", "/a", OPERATIONS, json!([operation("add", "spec/note")]), 200),
        ("PATCH", "/a/status", OPERATIONS, json!([operation("add", "/status/selector")]), 200),
    ]
}

/// Returns the same for the status.
fn status_written() -> Vec<Step> {
    let path = |path: &str| json!([{"op": "copy", "from": path, "path": "/status/selector"}]);
    let whole = |status: Value| widget("v1", &json!({"spec": {"replicas": 9}, "status": status}));
    vec![
        ("PUT", "/a/status", JSON, whole(json!({"phase": "put", "selector": "s"})), 200),
        ("PUT", "/a/status", JSON, whole(json!({"phase": "put", "selector": "s"})), 200),
        ("PUT", "/a/status?dryRun=All", JSON, whole(json!({"phase": "dry"})), 200),
        ("PUT", "/a/status", JSON, whole(json!({"replicas": "two"})), 422),
        ("PUT", "/a/status?fieldValidation=Strict", JSON, whole(json!({"nope": "two"})), 400),
        ("PATCH", "/a/status", MERGE, json!({"status": {"replicas": 4}, "spec": {"replicas": 9}}), 200),
        (
            "PATCH",
            "/a/status",
            MERGE,
            json!({"status": {"replicas": 5}, "metadata": {"labels": {"d": "e"}}}),
            200,
        ),
        ("PATCH", "/a/status", MERGE, json!({"status": {"replicas": true}}), 422),
        ("PATCH", "/a/status", OPERATIONS, path("/spec/note"), 200),
        ("PATCH", "/a/status", OPERATIONS, path("/spec/color"), 200),
        ("PATCH", "/a/status", OPERATIONS, json!([{"op": "remove", "path": "/spec"}]), 200),
        ("PATCH", "/a/status?fieldManager=m", APPLY, whole(json!({"replicas": 6})), 409),
        ("PATCH", "/a/status?fieldManager=m&force=true", APPLY, whole(json!({"replicas": 6})), 200),
        (
            "PATCH",
            "/a/status?fieldManager=m",
            APPLY,
            widget("v1", &json!({"status": {"replicas": 7, "conditions": [{"type": "Made"}]}})),
            200,
        ),
        ("PATCH", "/a/status", MERGE, json!({"status": null}), 200),
        (
            "PATCH",
            "/a/status",
            MERGE,
            json!({"status": {"phase": "<&>", "replicas": 2, "selector": "<&>",
                "conditions": [{"type": "Ready", "status": "True"}]}}),
            200,
        ),
    ]
}

fn applied() -> Vec<Step> {
    let configuration = |spec: Value| widget("v1", &json!({"spec": spec}));
    let with_status = widget("v1", &json!({"spec": {"color": "red"}, "status": {"phase": "mine"}}));
    vec![
        (
            "PATCH",
            "/a?fieldManager=m",
            APPLY,
            configuration(json!({"color": "red", "labelsMap": {"a": "b"}})),
            200,
        ),
        (
            "PATCH",
            "/a?fieldManager=m",
            APPLY,
            configuration(json!({"color": "red", "labelsMap": {"a": "b"}})),
            200,
        ),
        ("PATCH", "/a?fieldManager=n", APPLY, configuration(json!({"color": "blue"})), 409),
        ("PATCH", "/a?fieldManager=n&force=true", APPLY, configuration(json!({"color": "blue"})), 200),
        ("PATCH", "/a?fieldManager=m", APPLY, configuration(json!({"nope": 1})), 500),
        ("PATCH", "/a?fieldManager=m&force=true", APPLY, configuration(json!({"color": "green"})), 422),
        ("PATCH", "/a?fieldManager=m&force=true", APPLY, with_status, 200),
        ("PATCH", "/a?fieldManager=m", APPLY, configuration(json!({})), 200),
        ("PATCH", "/a/status?fieldManager=m", APPLY, widget("v1", &json!({"status": {"replicas": 2}})), 200),
        ("PATCH", "/a/scale", MERGE, json!({"spec": {"replicas": 5}}), 200),
    ]
}

fn deleted() -> Vec<Step> {
    vec![
        ("DELETE", "/a", JSON, json!({}), 200),
        ("PATCH", "/a", MERGE, json!({"spec": {"note": "late"}}), 200),
        ("PATCH", "/a", MERGE, json!({"metadata": {"finalizers": null}}), 200),
        ("PATCH", "/a", MERGE, json!({"spec": {"note": "too late"}}), 404),
    ]
}

/// Fields that differ from server to server.
fn without_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| {
                !["uid", "creationTimestamp", "deletionTimestamp", "time"].contains(&name.as_str())
            });
            fields.values_mut().for_each(without_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_times),
        // Some errors show the object: of that, letters that are in no time and in no uid.
        Value::String(text) if text.contains("creationTimestamp") => {
            text.retain(|it| !it.is_ascii_hexdigit())
        }
        _ => {}
    }
}

async fn answer(server: &Server, (method, path, form, body, _): &Step) -> (u16, Value) {
    let (path, mut body) = (format!("{WIDGETS}{path}"), body.clone());
    if *method == "PUT" {
        let (_, object) = server.get(&format!("{WIDGETS}/a")).await;
        body["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
    }
    let (code, mut answer) = server.send(method, &path, &[("content-type", form)], &body.to_string()).await;
    without_times(&mut answer);
    (code, answer)
}

#[tokio::test]
async fn strategies_that_decode_the_status_and_those_that_do_not_answer_the_same() {
    let (ignoring, looking) = (Server::of_widgets().await, Server::of_widgets_that_read_status().await);
    let mut last = Value::Null;
    for step in [made(), patched(), status_written(), applied(), deleted()].concat() {
        let (found, wanted) = (answer(&ignoring, &step).await, answer(&looking, &step).await);
        assert_eq!(found, wanted, "{step:?}");
        assert_eq!(found.0, step.4, "{step:?}: {}", found.1);
        if found.0 == 200 {
            last = found.1;
        }
        let shown = |server: Server| async move {
            let (code, mut object) = server.get(&format!("{WIDGETS}/a")).await;
            without_times(&mut object);
            (code, object)
        };
        assert_eq!(shown(ignoring.clone()).await, shown(looking.clone()).await, "{step:?}");
    }
    // With the last finalizer the object goes, and is answered as it was.
    assert_eq!(
        last["status"],
        json!({"conditions": [{"status": "True", "type": "Ready"}], "phase": "<&>",
        "replicas": 2, "selector": "<&>"})
    );
}

#[tokio::test]
async fn a_patch_in_an_older_version_decodes_the_whole_object() {
    let server = Server::of_widgets().await;
    for step in made() {
        answer(&server, &step).await;
    }
    let (code, object) = server.patch(&format!("{OLDER}/a"), "merge", &json!({"spec": {"note": "m"}})).await;
    assert_eq!(
        (code, &object["status"]["phase"], &object["spec"]["note"]),
        (200, &json!("<&>"), &json!("m"))
    );
}
