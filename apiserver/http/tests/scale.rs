//! Tests of the subresource `scale` as autoscalers and `kubectl scale` use it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const SWARMS: &str = "/apis/toys.example.com/v1/namespaces/default/swarms";

async fn with_swarms() -> Server {
    let server = Server::start().await;
    for (name, spec) in [("a", json!({"size": 1, "replicas": 2})), ("bare", json!({"size": 1}))] {
        let swarm = json!({"apiVersion": "toys.example.com/v1", "kind": "Swarm", "metadata": {"name": name}, "spec": spec});
        assert_eq!(server.post(SWARMS, &swarm).await.0, 201);
    }
    server
}

fn scale(metadata: &Value, replicas: &Value) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": replicas}})
}

#[tokio::test]
async fn a_scale_has_the_replicas_of_its_object() {
    let server = with_swarms().await;
    let status = json!({"status": {"replicas": 1, "selector": "app=a"}});
    server.patch(&format!("{SWARMS}/a/status"), "merge", &status).await;
    let (_, object) = server.get(&format!("{SWARMS}/a")).await;
    let (code, shown) = server.get(&format!("{SWARMS}/a/scale")).await;
    assert_eq!(code, 200, "{shown}");
    let field = |name: &str| object["metadata"][name].clone();
    let expected = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a",
        "namespace": "default", "uid": field("uid"), "resourceVersion": field("resourceVersion"),
        "creationTimestamp": field("creationTimestamp")},
        "spec": {"replicas": 2}, "status": {"replicas": 1, "selector": "app=a"}});
    assert_eq!(shown, expected);
    let accept = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let (_, table) = server.send("GET", &format!("{SWARMS}/a/scale"), &accept, "").await;
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..3], [json!("a"), json!(2), json!(1)]);
    let names: Vec<&Value> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
}

#[tokio::test]
async fn invalid_scales_get_the_errors_of_kube_apiserver() {
    let server = with_swarms().await;
    let (code, answer) = server.get(&format!("{SWARMS}/bare/scale")).await;
    let text = "the spec replicas field \".spec.replicas\" does not exist";
    assert_eq!((code, &answer["details"]), (500, &json!({"causes": [{"message": text}]})));
    let a = json!({"name": "a", "namespace": "default"});
    let negative = "Swarm.toys.example.com \"a\" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer";
    let cases = [
        (
            scale(&json!({"name": "a", "resourceVersion": "1"}), &json!(3)),
            409,
            "the object has been modified",
        ),
        (
            scale(&json!({"name": "a", "uid": "x"}), &json!(3)),
            409,
            "Precondition failed: UID in precondition: x",
        ),
        (
            scale(&json!({"name": "z"}), &json!(3)),
            400,
            "the name of the object (z) does not match the name on the URL (a)",
        ),
        (
            scale(&json!({}), &json!(3)),
            400,
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            scale(&json!({"name": "a", "namespace": "z"}), &json!(3)),
            400,
            "the namespace of the provided object does not match",
        ),
        (scale(&a, &json!(-1)), 422, negative),
        (scale(&a, &json!("x")), 400, "Scale in version \"v1\" cannot be handled as a Scale"),
        (json!({"apiVersion": "autoscaling/v2", "kind": "Scale", "metadata": a}), 400, "apiVersion"),
        (json!([1]), 400, ""),
    ];
    for (body, expected, text) in cases {
        let (code, answer) = server.put(&format!("{SWARMS}/a/scale"), &body).await;
        assert_eq!(code, expected, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{body}: {answer}");
    }
    assert_eq!(
        server.put(&format!("{SWARMS}/zz/scale"), &scale(&json!({"name": "zz"}), &json!(1))).await.0,
        404
    );
    assert_eq!(server.delete(&format!("{SWARMS}/a/scale")).await.0, 405);
    assert_eq!(server.post(&format!("{SWARMS}/a/scale"), &json!({})).await.0, 405);
    assert_eq!(server.get("/apis/toys.example.com/v1/namespaces/default/gadgets/a/scale").await.0, 404);
    assert_eq!(server.get(&format!("{SWARMS}/a/scale")).await.1["spec"]["replicas"], 2);
    let main = json!({"spec": {"replicas": -2}});
    assert_eq!(server.patch(&format!("{SWARMS}/a"), "merge", &main).await.0, 422);
}

#[tokio::test]
async fn a_patch_with_a_wrong_type_gets_the_error_of_kube_apiserver() {
    let server = with_swarms().await;
    let path = format!("{SWARMS}/a/scale");
    let replace = json!([{"op": "replace", "path": "/spec/replicas", "value": "x"}]);
    for (kind, patch) in [("json", replace), ("merge", json!({"spec": {"replicas": "x"}}))] {
        let (code, answer) = server.patch(&path, kind, &patch).await;
        assert_eq!((code, &answer["reason"]), (422, &json!("Invalid")), "{kind}: {answer}");
        let cause = &answer["details"]["causes"][0];
        assert_eq!((&cause["field"], &cause["reason"]), (&json!("patch"), &json!("FieldValueInvalid")));
        let message = answer["message"].as_str().unwrap();
        assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{kind}: {message}");
        let end =
            ": json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32";
        assert!(message.ends_with(end), "{kind}: {message}");
    }
    assert_eq!(server.get(&path).await.1["spec"]["replicas"], 2);
}

#[tokio::test]
async fn updates_and_patches_of_a_scale_change_only_the_replicas() {
    let server = with_swarms().await;
    let path = format!("{SWARMS}/a/scale");
    let (code, scaled) = server.put(&path, &scale(&json!({"name": "a"}), &json!(3))).await;
    assert_eq!((code, &scaled["spec"]), (200, &json!({"replicas": 3})), "{scaled}");
    let merge =
        json!({"spec": {"replicas": 5}, "metadata": {"labels": {"x": "y"}}, "status": {"replicas": 9}});
    let (code, patched) = server.patch(&path, "merge", &merge).await;
    assert_eq!(
        (code, &patched["spec"], &patched["status"]),
        (200, &json!({"replicas": 5}), &json!({"replicas": 0}))
    );
    let json = json!([{"op": "test", "path": "/spec/replicas", "value": 5}, {"op": "replace", "path": "/spec/replicas", "value": 6}]);
    assert_eq!(server.patch(&path, "json", &json).await.1["spec"], json!({"replicas": 6}));
    assert_eq!(server.patch(&path, "json", &json).await.0, 422);
    let stale = json!({"spec": {"replicas": 7}, "metadata": {"resourceVersion": "1"}});
    assert_eq!(server.patch(&path, "merge", &stale).await.0, 409);
    assert_eq!(server.patch(&format!("{path}?dryRun=All"), "merge", &merge).await.1["spec"]["replicas"], 5);
    let (_, object) = server.get(&format!("{SWARMS}/a")).await;
    assert_eq!(object["spec"], json!({"size": 1, "colour": "red", "replicas": 6}));
    assert_eq!((object["metadata"].get("labels"), &object["metadata"]["generation"]), (None, &json!(4)));
    let (code, none) = server.patch(&path, "merge", &json!({"spec": null})).await;
    assert_eq!((code, &none["spec"]), (200, &json!({})));
    let (code, first) =
        server.patch(&format!("{SWARMS}/bare/scale"), "merge", &json!({"spec": {"replicas": 4}})).await;
    assert_eq!((code, &first["spec"]), (200, &json!({"replicas": 4})), "{first}");
}

#[tokio::test]
async fn unknown_fields_return_a_warning_or_an_error() {
    let server = with_swarms().await;
    let path = format!("{SWARMS}/a/scale");
    let mut body = scale(&json!({"name": "a"}), &json!(3));
    body["spec"]["nope"] = json!(1);
    let answer = server.request("PUT", &path, &[], body.to_string()).await;
    assert_eq!(answer.headers().get("warning").unwrap(), "299 - \"unknown field \\\"spec.nope\\\"\"");
    let (code, answer) = server.put(&format!("{path}?fieldValidation=Strict"), &body).await;
    assert_eq!(code, 400);
    assert!(
        answer["message"].as_str().unwrap().ends_with("strict decoding error: unknown field \"spec.nope\""),
        "{answer}"
    );
    let (code, answer) =
        server.patch(&format!("{path}?fieldValidation=Strict"), "merge", &json!({"spec": {"nope": 1}})).await;
    assert_eq!(code, 422);
    assert!(
        answer["message"].as_str().unwrap().starts_with(" \"\" is invalid: patch: Invalid value: "),
        "{answer}"
    );
}
