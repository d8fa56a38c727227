//! Replay of the server-side apply vectors: requests and the responses that a real kube-apiserver gave.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::Server;

/// Vectors and steps after which entries of these managers have no time: they gained no field that did not exist
/// before.
const TIMELESS: [(&str, usize, &str); 8] = [
    ("V62", 1, "a"),
    ("V62", 2, "a"),
    ("V63", 1, "a"),
    ("V63", 3, "a"),
    ("V72", 1, "a"),
    ("V72", 2, "a"),
    ("V75", 1, "a:Apply"),
    ("V58", 0, "a"),
];

/// Vectors and steps that write nothing.
const NOTHING_WRITTEN: [(&str, usize); 4] = [("V03", 1), ("V78", 2), ("V35", 1), ("V55", 1)];

struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

#[tokio::test]
async fn every_vector_matches_kube_apiserver() {
    let server = Server::of_widgets().await;
    let vectors: Value = serde_json::from_str(tests_widget::VECTORS).unwrap();
    let mut differences = Vec::new();
    let mut checked = 0;
    for vector in vectors["vectors"].as_array().unwrap() {
        let id = vector["id"].as_str().unwrap();
        let mut revision = Value::Null;
        for (at, step) in vector["steps"].as_array().unwrap().iter().enumerate() {
            let answer = run(&server, step).await;
            let mut errors = errors(step, &answer);
            errors.extend(time_errors(id, at, &answer.body));
            let now = &answer.body["metadata"]["resourceVersion"];
            if NOTHING_WRITTEN.contains(&(id, at)) && *now != revision {
                errors.push(format!("written: {revision} became {now}"));
            }
            revision = now.clone();
            differences.extend(errors.into_iter().map(|error| format!("{id} step {}: {error}", at + 1)));
            checked += 1;
        }
    }
    assert_eq!(checked, 150);
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
}

async fn run(server: &Server, step: &Value) -> Answer {
    let (operation, request) = (step["op"].as_str().unwrap(), step["request"].as_str().unwrap());
    let (method, target) = request.split_once(' ').unwrap();
    // The version of the URL is that of the body, unless to differ is what the step is about.
    let in_body = step["body"]["apiVersion"].as_str();
    let version = match in_body {
        Some("lab.example.io/v1beta1") if !operation.contains("to v1 URL") => "v1beta1",
        _ => "v1",
    };
    let url = format!("/apis/lab.example.io/{version}/namespaces/default/widgets");
    let body = match &step["body"] {
        Value::Null => String::new(),
        Value::String(words) => changed(server, &url, target, words).await.to_string(),
        body => body.to_string(),
    };
    let media = step["contentType"].as_str().unwrap_or("application/json");
    let agent =
        if operation.contains("empty UA") { "" } else { "kubectl/v1.36.2 (linux/amd64) kubernetes/x" };
    let headers = [("content-type", media), ("user-agent", agent)];
    let answer = server.request(method, &format!("{url}{target}"), &headers, body).await;
    let code = answer.status().as_u16();
    let warnings = answer.headers().get_all("warning").iter();
    let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    Answer { code, warnings, body: serde_json::from_slice(&bytes).unwrap() }
}

/// The live object with the change that is said in words.
async fn changed(server: &Server, url: &str, target: &str, words: &str) -> Value {
    let changes: Value = serde_json::from_str(tests_widget::CHANGES).unwrap();
    let name = target.split(['?', '/']).find(|part| !part.is_empty()).unwrap();
    let (code, mut live) = server.get(&format!("{url}/{name}")).await;
    assert_eq!(code, 200, "{live}");
    let change = changes.get(words).unwrap_or_else(|| panic!("{words:?} is not known"));
    for (part, fields) in change.as_object().unwrap() {
        for (field, value) in fields.as_object().unwrap() {
            live[part][field] = value.clone();
        }
    }
    live
}

fn errors(step: &Value, answer: &Answer) -> Vec<String> {
    let wanted = &step["expect"];
    let mut errors = Vec::new();
    let mut compare = |what: &str, found: Value, wanted: Value| {
        if found != wanted {
            errors.push(format!("{what}: {found} and not {wanted}"));
        }
    };
    compare("status", json!(answer.code), wanted["status"].clone());
    compare("warnings", json!(answer.warnings), wanted.get("warnings").cloned().unwrap_or(json!([])));
    if let Some(error) = wanted.get("error") {
        for field in ["code", "reason", "message", "details"] {
            compare(field, answer.body[field].clone(), error[field].clone());
        }
        return errors;
    }
    let result = &wanted["result"];
    for field in ["spec", "status"] {
        compare(field, answer.body[field].clone(), result[field].clone());
    }
    let mut metadata = answer.body["metadata"].clone();
    for field in ["uid", "name", "namespace", "creationTimestamp", "resourceVersion", "managedFields"] {
        metadata.as_object_mut().unwrap().remove(field);
    }
    compare("metadata", metadata, result["metadata"].clone());
    let owners = |list: &Value| -> Value {
        let mut list = list.as_array().cloned().unwrap_or_default();
        for entry in &mut list {
            entry.as_object_mut().unwrap().retain(|field, _| field != "time" && field != "fieldsType");
        }
        // Entries of one second are sorted by name, and these may be of two.
        list.sort_by_key(|entry| (entry["operation"].to_string(), entry.to_string()));
        Value::Array(list)
    };
    compare("owners", owners(&answer.body["metadata"]["managedFields"]), owners(&result["managedFields"]));
    errors
}

/// Every entry says when it last gained something, if ever; entries are sorted by that.
fn time_errors(id: &str, at: usize, object: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    let mut last = (String::new(), String::new(), String::new());
    for entry in object["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let (manager, operation) = (text("manager"), text("operation"));
        let names = [manager.clone(), format!("{manager}:{operation}")];
        let timeless = TIMELESS
            .iter()
            .any(|(vector, step, who)| *vector == id && *step == at && names.iter().any(|name| name == who));
        if timeless == entry.get("time").is_some() {
            errors.push(format!("time of {manager} ({operation}): {}", entry["time"]));
        }
        if entry["fieldsType"] != "FieldsV1" {
            errors.push(format!("fieldsType of {manager}: {}", entry["fieldsType"]));
        }
        let order = (operation, text("time"), manager);
        if order < last {
            errors.push(format!("{order:?} after {last:?}"));
        }
        last = order;
    }
    errors
}
