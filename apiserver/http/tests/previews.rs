//! Tests of the warnings of dry runs about the effects of a change.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_access::User;
use apiserver_machinery::preview::{Preview, PreviewedChange, Warnings};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use server::Server;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const OLD_GADGETS: &str = "/apis/toys.example.com/v1beta1/namespaces/default/gadgets";
const SWARMS: &str = "/apis/toys.example.com/v1/namespaces/default/swarms";

const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");
const JSON: (&str, &str) = ("content-type", "application/json-patch+json");
const APPLY: (&str, &str) = ("content-type", "application/apply-patch+yaml");

/// Preview that names the size and the replicas before and after. It never ends at size 98, and panics at size 99.
#[derive(Debug)]
struct Sizes;

impl Preview for Sizes {
    fn warnings(&self, change: PreviewedChange) -> Warnings {
        Box::pin(async move {
            let PreviewedChange { old, new, permissions } = change;
            match new["spec"]["size"].as_i64() {
                Some(98) => std::future::pending().await,
                Some(99) => panic!("a preview with an error"),
                _ => {}
            }
            let numbers = |it: &Value| format!("{}/{}", it["spec"]["size"], it["spec"]["replicas"]);
            vec![format!("{}: {} becomes {}", permissions.caller().username, numbers(&old), numbers(&new))]
        })
    }
}

async fn with_objects() -> Server {
    let server = Server::with_preview(Arc::new(Sizes)).await;
    for (path, kind) in [(GADGETS, "Gadget"), (SWARMS, "Swarm")] {
        let object = json!({"apiVersion": "toys.example.com/v1", "kind": kind, "metadata": {"name": "a"},
            "spec": {"size": 1, "replicas": 2}});
        assert_eq!(server.post(path, &object).await.0, 201);
    }
    server
}

/// Sends a write. Returns the code, the object and the warnings.
async fn write(
    server: &Server,
    method: &str,
    path: &str,
    header: (&str, &str),
    body: &Value,
) -> (u16, Value, Vec<String>) {
    let answer = server.request(method, path, &[header], body.to_string()).await;
    let code = answer.status().as_u16();
    let warnings = answer.headers().get_all("warning").iter().map(|it| it.to_str().unwrap().to_owned());
    let warnings = warnings.collect();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default(), warnings)
}

#[tokio::test]
async fn a_dry_run_in_any_form_answers_with_the_object_and_the_effects_and_stores_nothing() {
    let server = with_objects().await;
    let gadget = format!("{GADGETS}/a");
    let (_, stored) = server.get(&gadget).await;
    let mut larger = stored.clone();
    larger["spec"]["size"] = json!(3);
    let part = json!({"spec": {"size": 3}});
    let operations = json!([{"op": "replace", "path": "/spec/size", "value": 3}]);
    let applied = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "a"},
        "spec": {"size": 3}});
    let old = format!("{OLD_GADGETS}/a");
    for (method, path, query, header, body, field) in [
        ("PUT", &gadget, "", ("accept", "*/*"), &larger, "size"),
        ("PATCH", &gadget, "", MERGE, &part, "size"),
        ("PATCH", &gadget, "", JSON, &operations, "size"),
        ("PATCH", &gadget, "&fieldManager=m&force=true", APPLY, &applied, "size"),
        ("PATCH", &old, "", MERGE, &json!({"spec": {"width": 3}}), "width"),
    ] {
        let case = format!("{method} {path} {}", header.1);
        let path = format!("{path}?dryRun=All{query}");
        let (code, object, warnings) = write(&server, method, &path, header, body).await;
        assert_eq!((code, &object["spec"][field]), (200, &json!(3)), "{case}: {object}");
        assert_eq!(object["metadata"]["uid"], stored["metadata"]["uid"], "{case}");
        assert_eq!(warnings, ["299 - \"tester: 1/2 becomes 3/2\""], "{case}");
        assert_eq!(server.get(&gadget).await.1, stored, "{case}");
    }
    let scale = format!("{SWARMS}/a/scale?dryRun=All");
    let (code, shown, warnings) =
        write(&server, "PATCH", &scale, MERGE, &json!({"spec": {"replicas": 7}})).await;
    assert_eq!((code, &shown["kind"], &shown["spec"]), (200, &json!("Scale"), &json!({"replicas": 7})));
    assert_eq!(warnings, ["299 - \"tester: 1/2 becomes 1/7\""]);
    assert_eq!(server.get(&format!("{SWARMS}/a")).await.1["spec"]["replicas"], 2);
}

#[tokio::test]
async fn only_a_dry_run_that_changes_something_for_a_client_has_a_preview() {
    let server = with_objects().await;
    let gadget = format!("{GADGETS}/a");
    let dry = format!("{gadget}?dryRun=All");
    let larger = json!({"spec": {"size": 3}});
    let mut controller = User::controller("planner");
    controller.groups.push("system:masters".to_owned());
    let controller = server.as_user(controller);
    let new = json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": "b"},
        "spec": {"size": 3}});
    let status = json!({"status": {"phase": "Up"}});
    for (client, method, path, body) in [
        (&controller, "PATCH", &dry, &larger),
        (&server, "PATCH", &dry, &json!({"spec": {"size": 1}})),
        (&server, "PATCH", &format!("{gadget}/status?dryRun=All"), &status),
        (&server, "POST", &format!("{GADGETS}?dryRun=All"), &new),
        (&server, "PATCH", &format!("{dry}&fieldValidation=Strict"), &json!({"spec": {"size": -1}})),
        (&server, "PATCH", &gadget, &larger),
    ] {
        let header = if method == "PATCH" { MERGE } else { ("accept", "*/*") };
        let (code, answer, warnings) = write(client, method, path, header, body).await;
        assert!(matches!(code, 200 | 201 | 422), "{method} {path}: {answer}");
        assert_eq!(warnings, [""; 0], "{method} {path}");
    }
    assert_eq!(server.get(&gadget).await.1["spec"]["size"], 3);
}

#[tokio::test]
async fn a_preview_that_does_not_end_or_panics_is_a_warning_and_no_error() {
    let server = with_objects().await;
    for (size, timeout, why) in [
        (98, "&timeout=1s", "they were not determined within 500ms"),
        (99, "", "the server failed to determine them"),
    ] {
        let path = format!("{GADGETS}/a?dryRun=All{timeout}");
        let begun = Instant::now();
        let (code, object, warnings) =
            write(&server, "PATCH", &path, MERGE, &json!({"spec": {"size": size}})).await;
        assert_eq!((code, &object["spec"]["size"]), (200, &json!(size)), "{object}");
        let text = format!("Gadget a: the effects of this change on other objects are not known: {why}");
        assert_eq!(warnings, [format!("299 - \"{text}\"")]);
        assert!(begun.elapsed() < Duration::from_secs(4));
    }
}
