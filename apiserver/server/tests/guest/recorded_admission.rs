//! Configurations, decisions of policies and answers of webhooks, compared with those of kube-apiserver.
//!
//! `admission/cases.json` has the requests, and `admission/recorded.json` the responses of kube-apiserver 1.36.3 to them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::admission_scene::{ADMISSION, MAPS, Scene, send};
use crate::client::Answer;
use crate::webhook_server::{Reply, WebhookServer};

const CASES: &str = include_str!("admission/cases.json");

const RECORDED: &str = include_str!("admission/recorded.json");

/// Differences, with the reason of each.
const DIFFERENCES: &str = include_str!("admission/differences.json");

/// Time after which a configuration is certainly in force, or certainly gone.
const EFFECT: Duration = Duration::from_millis(250);

fn parts(name: &str) -> Vec<(Value, Value)> {
    let of = |text: &str| -> Vec<Value> {
        let all: Value = serde_json::from_str(text).unwrap();
        all[name].as_array().unwrap().clone()
    };
    let (cases, recorded) = (of(CASES), of(RECORDED));
    assert_eq!(cases.len(), recorded.len());
    cases.into_iter().zip(recorded).collect()
}

fn plural(object: &Value) -> &'static str {
    match object["kind"].as_str().unwrap() {
        "ValidatingWebhookConfiguration" => "validatingwebhookconfigurations",
        "MutatingWebhookConfiguration" => "mutatingwebhookconfigurations",
        "ValidatingAdmissionPolicy" => "validatingadmissionpolicies",
        _ => "validatingadmissionpolicybindings",
    }
}

/// Returns a response in the form of the recording.
fn shown(answer: &Answer) -> Value {
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    let mut shown = json!({"code": answer.code});
    if answer.code >= 400 {
        shown["message"] = body["message"].clone();
        shown["reason"] = body.get("reason").cloned().unwrap_or_else(|| json!(""));
        shown["details"] = body["details"].clone();
    }
    let warnings: Vec<&str> =
        answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    if !warnings.is_empty() {
        shown["warnings"] = json!(warnings);
    }
    shown
}

/// Replaces uids and generated names, which are random.
fn without_random_parts(value: &Value) -> Value {
    let mut text = value.to_string();
    for (start, length) in [("response.uid=\\\"", 36), ("\"g-", 5), ("\\\"g-", 5)] {
        let mut from = 0;
        while let Some(at) = text.get(from..).and_then(|rest| rest.find(start)) {
            let begin = from + at + start.len();
            let end = (begin + length).min(text.len());
            text.replace_range(begin..end, "*");
            from = begin;
        }
    }
    serde_json::from_str(&text).unwrap()
}

/// Compares responses by the index of their case. Each difference must be listed, and each listed one must exist.
fn compare(name: &str, found: &[(Value, Value)]) {
    let listed: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(DIFFERENCES).unwrap();
    let listed = listed.get(name).cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    for (index, (ours, theirs)) in found.iter().enumerate() {
        let (ours, theirs) = (without_random_parts(ours), without_random_parts(theirs));
        let is_listed = listed.contains_key(&index.to_string());
        if (ours == theirs) == is_listed {
            wrong.push(format!("{name} {index}, listed: {is_listed}\n  ours   {ours}\n  theirs {theirs}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), found.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_admission_configurations_are_refused_as_kube_apiserver_does() {
    let scene = Scene::start().await;
    let mut found = Vec::new();
    for (object, mut theirs) in parts("configurations") {
        let path = format!("{ADMISSION}/{}?dryRun=All", plural(&object));
        let answer = scene.admin.once("POST", &path, &object.to_string()).await.unwrap();
        let mut ours = shown(&answer);
        if let Some(spec) = theirs.get("spec").filter(|_| answer.code < 400) {
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            ours["spec"] = if spec.is_array() { body["webhooks"].clone() } else { body["spec"].clone() };
        }
        // The order of errors depends on the order of checks.
        for response in [&mut ours, &mut theirs] {
            if let Some(details) = response.get_mut("details").and_then(Value::as_object_mut) {
                details.retain(|field, _| field != "causes");
            }
        }
        found.push((ours, theirs));
    }
    compare("configurations", &found);
}

#[tokio::test(flavor = "multi_thread")]
async fn admission_policies_decide_as_kube_apiserver_does() {
    let scene = Scene::start().await;
    let limits = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "limits", "labels": {"limits": "yes"}}, "data": {"most": "5"}});
    send(&scene.admin, "POST", "/api/v1/namespaces/kube-public/configmaps", &limits, 201).await;
    let mut found = Vec::new();
    for (case, theirs) in parts("decisions") {
        let configurations = case["configurations"].as_array().unwrap();
        for object in configurations {
            send(&scene.admin, "POST", &format!("{ADMISSION}/{}", plural(object)), object, 201).await;
        }
        tokio::time::sleep(EFFECT).await;
        let object = case["object"].to_string();
        let answer = scene.admin.once("POST", &format!("{MAPS}?dryRun=All"), &object).await.unwrap();
        found.push((shown(&answer), theirs));
        for object in configurations {
            let name = object["metadata"]["name"].as_str().unwrap();
            let path = format!("{ADMISSION}/{}/{name}", plural(object));
            send(&scene.admin, "DELETE", &path, &Value::Null, 200).await;
        }
    }
    compare("decisions", &found);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_admission_webhooks_count_as_in_kube_apiserver() {
    let reply: Arc<Mutex<Value>> = Arc::default();
    let current = Arc::clone(&reply);
    let server = WebhookServer::start(move |_, _| {
        Reply::Review(current.lock().unwrap_or_else(PoisonError::into_inner).clone())
    })
    .await;
    let scene = Scene::start().await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"app": "a"}},
        "data": {"a": "b"}});
    let path = format!("{ADMISSION}/validatingwebhookconfigurations");
    // An administrator may bypass webhooks, and alice may not.
    let mut found = Vec::new();
    for (case, theirs) in parts("webhooks") {
        case["reply"].clone_into(&mut reply.lock().unwrap());
        let mut hook = case["hook"].clone();
        hook["clientConfig"] = json!({"url": format!("{}/a", server.url), "caBundle": server.bundle});
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "c"}, "webhooks": [hook]});
        send(&scene.admin, "POST", &path, &configuration, 201).await;
        tokio::time::sleep(EFFECT).await;
        let answer =
            scene.alice.once("POST", &format!("{MAPS}?dryRun=All"), &object.to_string()).await.unwrap();
        found.push((shown(&answer), theirs));
        send(&scene.admin, "DELETE", &format!("{path}/c"), &Value::Null, 200).await;
        tokio::time::sleep(EFFECT).await;
    }
    compare("webhooks", &found);
}
