//! Tests of the API as a client uses it: create, read, update, patch, delete, list and watch of a test kind on a real
//! store.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

#[tokio::test]
async fn an_object_is_created_read_listed_and_deleted() {
    let server = Server::start().await;
    let (code, created) = server.post(GADGETS, &gadget("a")).await;
    assert_eq!(code, 201, "{created}");
    assert_eq!(created["metadata"]["generation"], 1);
    assert_eq!(created["spec"], json!({"size": 1, "colour": "red"}));
    let (code, read) = server.get(&format!("{GADGETS}/a")).await;
    assert_eq!((code, &read), (200, &created));
    let (_, list) = server.get(GADGETS).await;
    assert_eq!(list["kind"], "GadgetList");
    assert_eq!(list["items"], json!([created]));
    let (code, gone) = server.delete(&format!("{GADGETS}/a")).await;
    assert_eq!((code, &gone["status"]), (200, &json!("Success")));
    let (code, missing) = server.get(&format!("{GADGETS}/a")).await;
    assert_eq!((code, &missing["message"]), (404, &json!("gadgets.toys.example.com \"a\" not found")));
}

#[tokio::test]
async fn bad_input_is_refused_with_the_field_and_changes_nothing() {
    let server = Server::start().await;
    let with = |field: &str, value: Value| {
        let mut object = gadget("a");
        object["spec"][field] = value;
        object
    };
    let cases = [
        (
            with("size", json!("x")),
            "",
            422,
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (with("size", json!(0)), "", 422, "spec.size: Invalid value: 0"),
        (with("nope", json!(1)), "?fieldValidation=Strict", 400, "unknown field \"spec.nope\""),
        (json!({"apiVersion": "v2", "kind": "Gadget"}), "", 400, "does not match the expected API version"),
        (json!({"apiVersion": "toys.example.com/v1", "kind": "Other"}), "", 422, "must be Gadget"),
        (json!([1]), "", 400, "unrecognized"),
        (gadget("Bad_Name"), "", 422, "metadata.name: Invalid value: \"Bad_Name\""),
        (gadget(""), "", 422, "name or generateName is required"),
        (gadget("a"), "?dryRun=x", 422, "dryRun: Unsupported value"),
    ];
    for (body, query, expected, text) in cases {
        let (code, answer) = server.post(&format!("{GADGETS}{query}"), &body).await;
        assert_eq!(code, expected, "{body}: {answer}");
        assert!(answer["message"].as_str().unwrap().contains(text), "{body}: {answer}");
    }
    let (code, answer) = server.send("POST", GADGETS, &[], "{\"kind\":").await;
    assert_eq!(code, 400, "{answer}");
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(server.send("POST", GADGETS, &[], &deep).await.0, 400);
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(4 << 20));
    assert_eq!(server.send("POST", GADGETS, &[], &large).await.0, 413);
    for query in [
        "?labelSelector=a%20b%20c",
        "?fieldSelector=spec.size=1",
        "?resourceVersion=abc",
        "?continue=xyz",
        "?limit=x",
    ] {
        assert_eq!(server.get(&format!("{GADGETS}{query}")).await.0, 400, "{query}");
    }
    assert_eq!(server.get(GADGETS).await.1["items"], json!([]));
}

#[tokio::test]
async fn unknown_fields_are_dropped_with_a_warning() {
    let server = Server::start().await;
    let mut object = gadget("a");
    object["spec"]["nope"] = json!(1);
    let answer = server.request("POST", GADGETS, &[], object.to_string()).await;
    assert_eq!(answer.headers().get("warning").unwrap(), "299 - \"unknown field \\\"spec.nope\\\"\"");
    assert_eq!(server.get(&format!("{GADGETS}/a")).await.1["spec"].get("nope"), None);
}

#[tokio::test]
async fn stale_updates_conflict_and_status_has_its_own_endpoint() {
    let server = Server::start().await;
    let (_, first) = server.post(GADGETS, &gadget("a")).await;
    let path = format!("{GADGETS}/a");
    let mut second = first.clone();
    second["spec"]["size"] = json!(2);
    second["status"] = json!({"phase": "ignored"});
    let (code, second) = server.put(&path, &second).await;
    assert_eq!((code, &second["metadata"]["generation"]), (200, &json!(2)));
    assert_eq!(second.get("status"), None);
    let (code, conflict) = server.put(&path, &first).await;
    assert_eq!((code, &conflict["reason"]), (409, &json!("Conflict")));
    let (code, third) = server
        .patch(&format!("{path}/status"), "merge", &json!({"status": {"phase": "Up"}, "spec": {"size": 9}}))
        .await;
    assert_eq!(code, 200, "{third}");
    assert_eq!((&third["status"]["phase"], &third["spec"]["size"]), (&json!("Up"), &json!(2)));
    assert_eq!(third["metadata"]["generation"], 2);
    let (_, same) = server.put(&path, &third).await;
    assert_eq!(
        same["metadata"]["resourceVersion"], third["metadata"]["resourceVersion"],
        "a write that changes nothing is none"
    );
}

#[tokio::test]
async fn fifty_concurrent_patches_all_succeed() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let path = format!("{GADGETS}/a");
    let patches = (0..50).map(|index| {
        let (server, path) = (server.clone(), path.clone());
        tokio::spawn(async move {
            let patch = json!({"metadata": {"labels": {(format!("k{index}")): "v"}}});
            server.patch(&path, "merge", &patch).await.0
        })
    });
    for code in futures_join(patches).await {
        assert_eq!(code, 200);
    }
    assert_eq!(server.get(&path).await.1["metadata"]["labels"].as_object().unwrap().len(), 50);
}

async fn futures_join(tasks: impl Iterator<Item = tokio::task::JoinHandle<u16>>) -> Vec<u16> {
    let tasks: Vec<_> = tasks.collect();
    let mut codes = Vec::new();
    for task in tasks {
        codes.push(task.await.unwrap());
    }
    codes
}

#[tokio::test]
async fn finalizers_keep_an_object_until_the_last_is_removed() {
    let server = Server::start().await;
    let mut object = gadget("a");
    object["metadata"]["finalizers"] = json!(["example.com/x"]);
    server.post(GADGETS, &object).await;
    let path = format!("{GADGETS}/a");
    let (code, pending) = server.delete(&path).await;
    assert_eq!(code, 200);
    assert!(pending["metadata"]["deletionTimestamp"].is_string(), "{pending}");
    let (code, again) = server.post(GADGETS, &gadget("a")).await;
    assert_eq!(code, 409);
    assert!(again["message"].as_str().unwrap().starts_with("object is being deleted"), "{again}");
    let add = json!({"metadata": {"finalizers": ["example.com/x", "example.com/y"]}});
    assert_eq!(server.patch(&path, "merge", &add).await.0, 422);
    assert_eq!(
        server.patch(&path, "json", &json!([{"op": "remove", "path": "/metadata/finalizers"}])).await.0,
        200
    );
    assert_eq!(server.get(&path).await.0, 404);
}

#[tokio::test]
async fn a_uid_precondition_protects_an_object_of_the_same_name() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let path = format!("{GADGETS}/a");
    let options = json!({"preconditions": {"uid": "another"}});
    let (code, answer) = server.send("DELETE", &path, &[], &options.to_string()).await;
    assert_eq!(code, 409, "{answer}");
    assert_eq!(server.get(&path).await.0, 200);
}

#[tokio::test]
async fn pages_show_one_revision_and_every_item_once() {
    let server = Server::start().await;
    for index in 0..7 {
        server.post(GADGETS, &gadget(&format!("g{index}"))).await;
    }
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (code, page) = server.get(&format!("{GADGETS}?limit=3&continue={token}")).await;
        assert_eq!(code, 200, "{page}");
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()),
        );
        // Objects are added before and after the position of the list.
        server.post(GADGETS, &gadget(&format!("g0-{}", seen.len()))).await;
        server.post(GADGETS, &gadget(&format!("g6-{}", seen.len()))).await;
        page["metadata"]["continue"].as_str().unwrap().clone_into(&mut token);
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["g0", "g1", "g2", "g3", "g4", "g5", "g6"]);
}

#[tokio::test]
async fn selectors_tables_and_metadata_work_on_lists() {
    let server = Server::start().await;
    let mut labelled = gadget("a");
    labelled["metadata"]["labels"] = json!({"app": "web"});
    server.post(GADGETS, &labelled).await;
    server.post(GADGETS, &gadget("b")).await;
    let count = async |query: &str| {
        server.get(&format!("{GADGETS}{query}")).await.1["items"].as_array().unwrap().len()
    };
    assert_eq!(count("?labelSelector=app%3Dweb").await, 1);
    assert_eq!(count("?labelSelector=!app").await, 1);
    assert_eq!(count("?fieldSelector=metadata.name%3Db").await, 1);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (_, table) = server.send("GET", GADGETS, &[("accept", table)], "").await;
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][1]), (&json!("Table"), &json!(1)));
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let (_, metadata) = server.send("GET", GADGETS, &[("accept", metadata)], "").await;
    assert_eq!(metadata["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(
        server.send("GET", GADGETS, &[("accept", "application/vnd.kubernetes.protobuf")], "").await.0,
        406
    );
}

#[tokio::test]
async fn a_watch_sends_initial_events_and_then_changes() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let path = format!(
        "{GADGETS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = server.watch(&path).await;
    assert_eq!(watch.next().await["type"], "ADDED");
    let end = watch.next().await;
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true", "{end}");
    server.patch(&format!("{GADGETS}/a"), "merge", &json!({"spec": {"size": 5}})).await;
    let modified = watch.next().await;
    assert_eq!((&modified["type"], &modified["object"]["spec"]["size"]), (&json!("MODIFIED"), &json!(5)));
    server.delete(&format!("{GADGETS}/a")).await;
    let deleted = watch.next().await;
    assert_eq!(deleted["type"], "DELETED");
    assert_ne!(
        deleted["object"]["metadata"]["resourceVersion"],
        modified["object"]["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn a_watch_resumes_at_a_revision_and_reports_objects_that_start_and_stop_matching() {
    let server = Server::start().await;
    let (_, first) = server.post(GADGETS, &gadget("a")).await;
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch =
        server.watch(&format!("{GADGETS}?watch=true&resourceVersion={revision}&labelSelector=app")).await;
    let path = format!("{GADGETS}/a");
    server.patch(&path, "merge", &json!({"metadata": {"labels": {"app": "x"}}})).await;
    server.patch(&path, "merge", &json!({"metadata": {"labels": {"app": null}}})).await;
    assert_eq!(watch.next().await["type"], "ADDED");
    let left = watch.next().await;
    assert_eq!(
        (&left["type"], &left["object"]["metadata"]["labels"]["app"]),
        (&json!("DELETED"), &json!("x"))
    );
}

#[tokio::test]
async fn namespaces_must_exist() {
    let server = Server::start().await;
    let (code, answer) =
        server.post("/apis/toys.example.com/v1/namespaces/nowhere/gadgets", &gadget("a")).await;
    assert_eq!((code, &answer["message"]), (404, &json!("namespaces \"nowhere\" not found")));
}

#[tokio::test]
async fn discovery_and_openapi_documents_are_complete_and_have_etags() {
    let server = Server::start().await;
    let (_, list) = server.get("/apis/toys.example.com/v1").await;
    assert_eq!(list["resources"][1]["name"], "gadgets/status");
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let answer = server.request("GET", "/apis", &[("accept", aggregated)], String::new()).await;
    let tag = answer.headers().get("etag").unwrap().to_str().unwrap().to_owned();
    let again = server
        .request("GET", "/apis", &[("accept", aggregated), ("if-none-match", &tag)], String::new())
        .await;
    assert_eq!(again.status(), 304);
    let (_, index) = server.get("/openapi/v3").await;
    let url = index["paths"]["apis/toys.example.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let (_, document) = server.get(url).await;
    assert!(document["components"]["schemas"]["com.example.toys.v1.Gadget"].is_object());
    let (_, document) = server.get("/openapi/v2").await;
    assert!(document["definitions"]["com.example.toys.v1.Gadget"].is_object());
    assert_eq!(server.get("/nope").await.0, 404);
}
