//! Replay of recorded random writes by several clients, in two versions, to an object and its status: after each write
//! the object and its field managers equal those that a real kube-apiserver returned.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

#[tokio::test]
async fn recorded_writes_match_kube_apiserver() {
    let server = Server::of_widgets().await;
    let recorded: Value = serde_json::from_str(tests_widget::RECORDED).unwrap();
    let mut steps = 0;
    for sequence in recorded.as_array().unwrap() {
        let name = sequence["name"].as_str().unwrap();
        for (at, step) in sequence["steps"].as_array().unwrap().iter().enumerate() {
            let (code, answer) = run(&server, name, step).await;
            assert_eq!(json!(code), step["code"], "{name} step {at}: {answer}");
            assert_eq!(comparable(&answer), sorted(step["answer"].clone()), "{name} step {at}");
            steps += 1;
        }
    }
    assert!(steps > 200, "{steps}");
}

async fn run(server: &Server, name: &str, step: &Value) -> (u16, Value) {
    let text = |field: &str| step[field].as_str().unwrap();
    let url = format!("/apis/lab.example.io/{}/namespaces/default/widgets", text("version"));
    let body = match step.get("change") {
        None => step["body"].clone(),
        // The live object, changed in these fields.
        Some(change) => {
            let (_, mut live) = server.get(&format!("{url}/{name}")).await;
            for (part, value) in change.as_object().unwrap() {
                match value.as_object().filter(|_| part == "metadata") {
                    Some(fields) => live[part].as_object_mut().unwrap().extend(fields.clone()),
                    None => live[part] = value.clone(),
                }
            }
            live
        }
    };
    let headers = [("content-type", text("ct"))];
    server.send(text("method"), &format!("{url}{}", text("path")), &headers, &body.to_string()).await
}

/// Parts of a response that two servers can have in common.
fn comparable(answer: &Value) -> Value {
    if answer["kind"] == "Status" {
        let fields = ["code", "reason", "message", "details"];
        return sorted(fields.into_iter().map(|field| (field.to_owned(), answer[field].clone())).collect());
    }
    let mut metadata = answer["metadata"].clone();
    for field in ["uid", "creationTimestamp", "name", "namespace", "resourceVersion"] {
        metadata.as_object_mut().unwrap().remove(field);
    }
    for entry in metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten() {
        entry["time"] = json!(entry.get("time").is_some());
    }
    sorted(json!({"spec": answer["spec"], "status": answer["status"], "metadata": metadata}))
}

/// The causes of a conflict come in any order; owners are sorted by time, which is none of theirs.
fn sorted(mut answer: Value) -> Value {
    for list in ["/metadata/managedFields", "/details/causes"] {
        if let Some(list) = answer.pointer_mut(list).and_then(Value::as_array_mut) {
            list.sort_by_key(Value::to_string);
        }
    }
    answer
}
