//! Tests of error responses: code, reason, message and details are those with which a kube-apiserver 1.36.3 answers for
//! a custom resource.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

fn with_metadata(metadata: &Value) -> String {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": metadata}).to_string()
}

struct Case<'a>(&'a str, String, &'a str, String, u16, &'a str, &'a str);

async fn check(server: &Server, cases: Vec<Case<'_>>) {
    for Case(method, path, media, body, code, reason, message) in cases {
        let (found, answer) = server.send(method, &path, &[("content-type", media)], &body).await;
        assert_eq!(found, code, "{method} {path} {body}: {answer}");
        assert_eq!(answer["message"], message, "{method} {path} {body}");
        assert_eq!(answer.get("reason").and_then(Value::as_str).unwrap_or_default(), reason, "{answer}");
        assert_eq!((&answer["kind"], &answer["status"]), (&json!("Status"), &json!("Failure")));
        assert_eq!(answer["code"], code);
    }
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one table")]
async fn invalid_bodies_get_the_errors_of_kube_apiserver() {
    let server = Server::start().await;
    let post = |media, body: &str, code, reason, message| {
        Case("POST", GADGETS.to_owned(), media, body.to_owned(), code, reason, message)
    };
    let unsupported = "the body of the request was in an unknown format - accepted media types include: \
                       application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let cases = vec![
        post(
            JSON,
            "",
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type Gadget): couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)",
        ),
        post(
            JSON,
            "{}",
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type Gadget): Object 'Kind' is missing in '{}' ({})",
        ),
        post(
            JSON,
            "{\"kind\":",
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type Gadget): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"kind\":)",
        ),
        post(
            JSON,
            "{\"apiVersion\":\"toys.example.com/v1\"}",
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type Gadget): Object 'Kind' is missing in '{\"apiVersion\":\"toys.example.com/v1\"}' ({\"apiVersion\":\"toys.example.co ...)",
        ),
        post(
            JSON,
            "[1]",
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type Gadget): couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b315d)",
        ),
        post(
            JSON,
            "{\"apiVersion\":1,\"kind\":\"Gadget\"}",
            400,
            "BadRequest",
            "the object provided is unrecognized (must be of type Gadget): couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .apiVersion of type string ({\"apiVersion\":1,\"kind\":\"Gadget ...)",
        ),
        post(
            JSON,
            "{\"kind\":\"Gadget\"}",
            400,
            "BadRequest",
            "the API version in the data () does not match the expected API version (toys.example.com/v1)",
        ),
        post(
            JSON,
            "{\"apiVersion\":\"toys.example.com/v1\",\"kind\":\"Other\"}",
            422,
            "Invalid",
            "Other.toys.example.com \"\" is invalid: kind: Invalid value: \"Other\": must be Gadget",
        ),
        post("text/plain", "{}", 415, "UnsupportedMediaType", unsupported),
        post("application/cbor", "{}", 415, "UnsupportedMediaType", unsupported),
    ];
    check(&server, cases).await;
    let metadata = [
        (
            json!({"name": 1}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.name of type string",
        ),
        (
            json!({"name": "a", "labels": {"a": 1}}),
            "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
        ),
        (json!([]), "json: cannot unmarshal array into Go value of type v1.ObjectMeta"),
    ];
    for (metadata, why) in metadata {
        let message = format!("Gadget in version \"v1\" cannot be handled as a Gadget: {why}");
        let (code, answer) = server.send("POST", GADGETS, &[], &with_metadata(&metadata)).await;
        assert_eq!(
            (code, &answer["message"], &answer["reason"]),
            (400, &json!(message), &json!("BadRequest"))
        );
    }
    let elsewhere = with_metadata(&json!({"name": "a", "namespace": "z"}));
    let versioned = with_metadata(&json!({"name": "a", "resourceVersion": "1"}));
    check(
        &server,
        vec![
            post(
                JSON,
                &elsewhere,
                400,
                "BadRequest",
                "the namespace of the provided object does not match the namespace sent on the request",
            ),
            post(JSON, &versioned, 500, "", "resourceVersion should not be set on objects to be created"),
        ],
    )
    .await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20));
    check(
        &server,
        vec![post(JSON, &large, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728")],
    )
    .await;
}

#[tokio::test]
async fn invalid_patches_get_the_errors_of_kube_apiserver() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let patch = |media, body: &str, code, reason, message| {
        Case("PATCH", format!("{GADGETS}/a"), media, body.to_owned(), code, reason, message)
    };
    let rejected = "the server rejected our request due to an error in our request";
    let unsupported = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    let many = format!("[{}]", vec![r#"{"op":"test","path":"/a","value":1}"#; 10_001].join(","));
    check(&server, vec![
        patch(JSON_PATCH, r#"[{"op":"test","path":"/spec/size","value":9}]"#, 422, "Invalid", rejected),
        patch(JSON_PATCH, r#"[{"op":"zap","path":"/b"}]"#, 422, "Invalid", rejected),
        patch(JSON_PATCH, r#"[{"op":"remove","path":"/b"}]"#, 422, "Invalid", rejected),
        patch(JSON_PATCH, &many, 413, "RequestEntityTooLarge", "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"),
        patch(MERGE, r#"{"metadata":{"name":"z"}}"#, 400, "BadRequest", "the name of the object (z) does not match the name on the URL (a)"),
        patch(JSON, "{}", 415, "UnsupportedMediaType", unsupported),
        patch("application/strategic-merge-patch+json", "{}", 415, "UnsupportedMediaType", unsupported),
    ]).await;
    let label = r#"{"metadata":{"labels":{"a":1}}}"#;
    let (code, answer) =
        server.send("PATCH", &format!("{GADGETS}/a"), &[("content-type", MERGE)], label).await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 422 && message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{answer}");
    let why = "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string";
    assert!(message.ends_with(why), "{answer}");
    let unknown = json!({"spec": {"nope": 1}});
    let (_, answer) = server.patch(&format!("{GADGETS}/a?fieldValidation=Strict"), "merge", &unknown).await;
    assert!(answer["message"].as_str().unwrap().contains("\\\"nope\\\":1"), "{answer}");
    let answer =
        server.patch(&format!("{GADGETS}/a"), "json", &json!([{"op": "remove", "path": "/b"}])).await.1;
    assert_eq!(answer["details"], json!({}));
}

#[tokio::test]
async fn invalid_delete_options_get_the_errors_of_kube_apiserver() {
    let server = Server::start().await;
    let (_, made) = server.post(GADGETS, &gadget("a")).await;
    let (uid, revision) =
        (made["metadata"]["uid"].as_str().unwrap(), made["metadata"]["resourceVersion"].as_str().unwrap());
    let delete = |body: &str, code, reason, message| {
        Case("DELETE", format!("{GADGETS}/a"), JSON, body.to_owned(), code, reason, message)
    };
    let other_uid = format!(
        "Operation cannot be fulfilled on Gadget.toys.example.com \"a\": the UID in the precondition (x) does not match \
         the UID in record ({uid}). The object might have been deleted and then recreated"
    );
    let other_revision = format!(
        "Operation cannot be fulfilled on Gadget.toys.example.com \"a\": the ResourceVersion in the precondition (1) does \
         not match the ResourceVersion in record ({revision}). The object might have been modified"
    );
    check(&server, vec![
        delete(r#"{"propagationPolicy":"Foo"}"#, 422, "Invalid", "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Foo\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""),
        delete(r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#, 422, "Invalid", "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set"),
        delete(r#"{"dryRun":["x"]}"#, 422, "Invalid", "DeleteOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"x\"]: supported values: \"All\""),
        delete(r#"{"preconditions":{"uid":"x"}}"#, 409, "Conflict", &other_uid),
        delete(r#"{"preconditions":{"resourceVersion":"1"}}"#, 409, "Conflict", &other_revision),
    ]).await;
    let (_, conflict) =
        server.send("DELETE", &format!("{GADGETS}/a"), &[], r#"{"preconditions":{"uid":"x"}}"#).await;
    assert_eq!(conflict["details"], json!({"name": "a", "group": "toys.example.com", "kind": "Gadget"}));
    let (code, gone) = server
        .send(
            "DELETE",
            &format!("{GADGETS}/a"),
            &[],
            r#"{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1"}"#,
        )
        .await;
    let details = json!({"name": "a", "group": "toys.example.com", "kind": "gadgets", "uid": uid});
    assert_eq!(
        (code, gone),
        (
            200,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
        )
    );
}

#[tokio::test]
async fn missing_existing_and_stale_objects_get_the_errors_of_kube_apiserver() {
    let server = Server::start().await;
    let (_, made) = server.post(GADGETS, &gadget("a")).await;
    let (code, missing) = server.get(&format!("{GADGETS}/zzz")).await;
    let details = |name: &str| json!({"name": name, "group": "toys.example.com", "kind": "gadgets"});
    assert_eq!((code, &missing["details"]), (404, &details("zzz")));
    let (code, taken) = server.post(GADGETS, &gadget("a")).await;
    assert_eq!((code, &taken["message"]), (409, &json!("gadgets.toys.example.com \"a\" already exists")));
    assert_eq!((&taken["reason"], &taken["details"]), (&json!("AlreadyExists"), &details("a")));
    let mut stale = made.clone();
    stale["metadata"]["resourceVersion"] = json!("1");
    let (code, conflict) = server.put(&format!("{GADGETS}/a"), &stale).await;
    let message = "Operation cannot be fulfilled on gadgets.toys.example.com \"a\": the object has been modified; please \
                   apply your changes to the latest version and try again";
    assert_eq!((code, &conflict["message"], &conflict["details"]), (409, &json!(message), &details("a")));
    let answer = server
        .request(
            "GET",
            &format!("{GADGETS}?resourceVersion=999999&resourceVersionMatch=NotOlderThan"),
            &[],
            "",
        )
        .await;
    assert_eq!(
        (answer.status().as_u16(), answer.headers().get("retry-after").unwrap().to_str().unwrap()),
        (504, "1")
    );
    let bob = server.seen_by("bob", &[]);
    let (code, refused) = bob.get("/metrics").await;
    assert_eq!(
        (code, &refused["message"]),
        (403, &json!("forbidden: User \"bob\" cannot get path \"/metrics\""))
    );
    assert_eq!(refused["details"], json!({}));
    let (code, refused) = bob.get(&format!("{GADGETS}/a/status")).await;
    let message = "gadgets.toys.example.com \"a\" is forbidden: User \"bob\" cannot get resource \"gadgets/status\" in API \
                   group \"toys.example.com\" in the namespace \"default\"";
    assert_eq!((code, &refused["message"], &refused["details"]), (403, &json!(message), &details("a")));
}
