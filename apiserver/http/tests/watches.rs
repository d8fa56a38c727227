//! Tests of watches: initial events, later events, bookmarks, resumption and end.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;
mod stores;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use server::Server;
use storage_contract::Revision;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

/// Query parameters of a complete watch list.
const STREAMED: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn brief(events: &[Value]) -> Vec<String> {
    let is_end = |object: &Value| object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
    events
        .iter()
        .map(|event| match event["type"].as_str().unwrap() {
            "BOOKMARK" if is_end(&event["object"]) => "END".to_owned(),
            "BOOKMARK" => "BOOKMARK".to_owned(),
            "ERROR" => format!("ERROR {}", event["object"]["code"]),
            kind => format!("{kind} {}", event["object"]["metadata"]["name"].as_str().unwrap()),
        })
        .collect()
}

#[tokio::test]
async fn a_watch_starts_as_its_options_request() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let (_, b) = server.post(GADGETS, &gadget("b")).await;
    let last = revision(&b);
    // Revision 0 is whatever is at hand: after a consistent read that is all of it.
    assert_eq!(server.get(GADGETS).await.1["items"].as_array().unwrap().len(), 2);
    let table = [
        ("", vec!["ADDED a", "ADDED b"]),
        ("&resourceVersion=0", vec!["ADDED a", "ADDED b"]),
        ("&limit=1&continue=", vec!["ADDED a", "ADDED b"]),
        ("&allowWatchBookmarks=true", vec!["ADDED a", "ADDED b", "END"]),
        ("&allowWatchBookmarks=true&resourceVersion=0", vec!["ADDED a", "ADDED b", "END"]),
        ("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", vec!["ADDED a", "ADDED b"]),
        (&format!("&{STREAMED}"), vec!["ADDED a", "ADDED b", "END"]),
        (&format!("&{STREAMED}&resourceVersion={last}"), vec!["ADDED a", "ADDED b", "END"]),
        (&format!("&{STREAMED}&fieldSelector=metadata.name%3Db"), vec!["ADDED b", "END"]),
        (&format!("&{STREAMED}&labelSelector=none"), vec!["END"]),
        ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", vec![]),
        ("&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0", vec![]),
        (&format!("&resourceVersion={last}"), vec![]),
        (&format!("&resourceVersion={}", last - 1), vec!["ADDED b"]),
        // The future is waited for.
        ("&resourceVersion=99999999&allowWatchBookmarks=true", vec![]),
        (&format!("&{STREAMED}&resourceVersion=99999999"), vec!["ERROR 504"]),
    ];
    // Side by side, because each takes its whole timeout.
    let rows = table.map(|(query, expected)| {
        let (server, query) = (server.clone(), query.to_owned());
        let seconds = if expected.iter().any(|event| event.starts_with("ERROR")) { 9 } else { 1 };
        tokio::spawn(async move {
            let watch = server.watch(&format!("{GADGETS}?watch=&timeoutSeconds={seconds}{query}")).await;
            let events = watch.all().await;
            assert_eq!(brief(&events), expected, "{query}");
            if let Some(end) = events.iter().find(|event| event["type"] == "BOOKMARK") {
                assert!(revision(&end["object"]) >= last, "{query}: {end}");
            }
        })
    });
    for row in rows {
        row.await.unwrap();
    }
    let mut old =
        server.watch("/apis/toys.example.com/v1/watch/namespaces/default/gadgets/b?timeoutSeconds=1").await;
    assert_eq!(old.next().await["object"]["metadata"]["name"], "b");
    assert_eq!(old.next_or_end().await, None);
    let old = server.watch("/apis/toys.example.com/v1/watch/gadgets?timeoutSeconds=1&watch=false").await;
    assert_eq!(brief(&old.all().await), ["ADDED a", "ADDED b"]);
}

#[tokio::test]
async fn invalid_watch_options_get_the_errors_of_kube_apiserver() {
    let server = Server::start().await;
    let requires = "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
    let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    let only = |given: &str| {
        format!("resourceVersionMatch: Unsupported value: \"{given}\": supported values: \"NotOlderThan\"")
    };
    let continued =
        "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
    let table = [
        ("sendInitialEvents=true", requires.to_owned()),
        ("sendInitialEvents=false", requires.to_owned()),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", format!("[{requires}, {}]", only("Exact"))),
        ("resourceVersionMatch=NotOlderThan", unless.to_owned()),
        ("resourceVersionMatch=Foo&resourceVersion=1", format!("[{unless}, {}]", only("Foo"))),
        ("continue=abc", continued.to_owned()),
    ];
    for (query, why) in table {
        let (code, status) = server.get(&format!("{GADGETS}?watch=true&{query}")).await;
        let message = format!("ListOptions.meta.k8s.io \"\" is invalid: {why}");
        assert_eq!((code, &status["message"]), (422, &json!(message)), "{query}");
    }
    let (code, status) = server.get(&format!("{GADGETS}?watch=true&resourceVersion=abc")).await;
    let message =
        "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    assert_eq!((code, &status["message"]), (500, &json!(message)));
    let path = "/apis/toys.example.com/v1/watch/namespaces/default/gadgets/b?fieldSelector=metadata.name%3Da";
    let (code, status) = server.get(path).await;
    assert_eq!(
        (code, &status["message"]),
        (400, &json!("fieldSelector metadata.name doesn't match requested name"))
    );
    let yaml = [("accept", "application/yaml")];
    let answer = server.request("GET", &format!("{GADGETS}?watch=true"), &yaml, "").await;
    assert_eq!(answer.status(), 406);
}

#[tokio::test]
async fn objects_that_start_and_stop_matching_are_added_and_deleted_at_that_revision() {
    let server = Server::start().await;
    let mut all = server.watch(&format!("{GADGETS}?watch=true")).await;
    let mut watch = server.watch(&format!("{GADGETS}?watch=true&labelSelector=app%3Dx")).await;
    let path = format!("{GADGETS}/a");
    let label = async |value: Value, size: i64| {
        let patch = json!({"metadata": {"labels": {"app": value}}, "spec": {"size": size}});
        revision(&server.patch(&path, "merge", &patch).await.1)
    };
    server.post(GADGETS, &gadget("a")).await;
    let entered = label(json!("x"), 2).await;
    let changed = label(json!("x"), 3).await;
    let left = label(json!("y"), 4).await;
    label(json!("z"), 5).await;
    let back = label(json!("x"), 6).await;
    server.delete(&path).await;
    let expected = [
        ("ADDED", Some(entered), 2),
        ("MODIFIED", Some(changed), 3),
        // As it was when it was last selected.
        ("DELETED", Some(left), 3),
        ("ADDED", Some(back), 6),
        ("DELETED", None, 6),
    ];
    let mut before = 0;
    for (kind, at, size) in expected {
        let event = watch.next().await;
        let found = revision(&event["object"]);
        assert_eq!(
            (&event["type"], &event["object"]["spec"]["size"]),
            (&json!(kind), &json!(size)),
            "{event}"
        );
        assert!(found > before && at.is_none_or(|at| at == found), "{event}");
        before = found;
    }
    // The deletion has a revision of its own, and the same for everybody.
    assert!(before > back);
    let mut last = Value::Null;
    for _ in 0..7 {
        last = all.next().await;
    }
    assert_eq!((&last["type"], revision(&last["object"])), (&json!("DELETED"), before));
}

#[tokio::test]
async fn bookmarks_come_before_the_end_and_cover_exactly_the_delivered_events() {
    let server = Server::start().await;
    let (_, a) = server.post(GADGETS, &gadget("a")).await;
    let from = revision(&a);
    let path = format!("{GADGETS}?watch=true&resourceVersion={from}&timeoutSeconds=4");
    let silent = server.watch(&path).await;
    let watch =
        server.watch(&format!("{path}&allowWatchBookmarks=true&fieldSelector=metadata.name%3Db")).await;
    let (_, b) = server.post(GADGETS, &gadget("b")).await;
    // Not seen by this watch, but covered.
    let (_, c) = server.post(GADGETS, &gadget("c")).await;
    let (events, silently) = tokio::join!(watch.all(), silent.all());
    assert_eq!(brief(&events), ["ADDED b", "BOOKMARK"]);
    let bookmark = &events[1]["object"];
    assert_eq!(
        *bookmark,
        json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget",
            "metadata": {"resourceVersion": bookmark["metadata"]["resourceVersion"]}})
    );
    assert!(revision(bookmark) >= revision(&c) && revision(&b) < revision(&c));
    assert_eq!(brief(&silently), ["ADDED b", "ADDED c"]);
}

#[tokio::test]
async fn a_server_that_starts_later_replays_older_events_or_returns_410() {
    for (store, _kept) in stores::all().await {
        let server = Server::start_on(Arc::clone(&store)).await;
        let first = revision(&server.post(GADGETS, &gadget("a")).await.1);
        let second = revision(&server.post(GADGETS, &gadget("b")).await.1);
        server.delete(&format!("{GADGETS}/b")).await;
        let late = Server::start_on(Arc::clone(&store)).await;
        let path = format!("{GADGETS}?watch=true&timeoutSeconds=1&resourceVersion={first}");
        let events = late.watch(&path).await.all().await;
        assert_eq!(brief(&events), ["ADDED b", "DELETED b"]);
        assert_eq!(revision(&events[0]["object"]), second);
        let third = revision(&server.post(GADGETS, &gadget("c")).await.1);
        store.compact(Revision::new(third)).await.unwrap();
        let latest = Server::start_on(Arc::clone(&store)).await;
        let events = latest.watch(&path).await.all().await;
        assert_eq!(brief(&events), ["ERROR 410"]);
        let status = &events[0]["object"];
        assert_eq!(status["reason"], "Expired");
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("too old resource version: {first} (")), "{message}");
    }
}

#[tokio::test]
async fn a_watch_of_a_stalled_client_is_closed_and_resumes_without_loss() {
    const MANY: usize = 300;
    let server = Server::start().await;
    let (_, a) = server.post(GADGETS, &gadget("a")).await;
    let from = revision(&a);
    let mut watch = server.watch(&format!("{GADGETS}?watch=true&resourceVersion={from}")).await;
    let mut written = Vec::new();
    for index in 0..MANY {
        let patch = json!({"spec": {"size": index + 2}});
        written.push(revision(&server.patch(&format!("{GADGETS}/a"), "merge", &patch).await.1));
    }
    let mut seen = vec![revision(&watch.next().await["object"])];
    // It takes nothing more for longer than anybody should.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    seen.extend(watch.all().await.iter().map(|event| revision(&event["object"])));
    assert!(seen.len() < MANY, "{} of {MANY}", seen.len());
    let resume = seen.last().unwrap();
    let mut rest = server.watch(&format!("{GADGETS}?watch=true&resourceVersion={resume}")).await;
    let mut both = seen.clone();
    while both.len() < MANY {
        both.push(revision(&rest.next().await["object"]));
    }
    assert_eq!(both, written);
}

#[tokio::test]
async fn watches_of_tables_and_metadata_match_their_lists() {
    let server = Server::start().await;
    let a = server.post(GADGETS, &gadget("a")).await.1;
    server.post(GADGETS, &gadget("b")).await;
    let path = format!("{GADGETS}?watch=true&timeoutSeconds=1&{STREAMED}");
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let events = server.watch_as(&format!("{path}&includeObject=None"), table).await.all().await;
    assert_eq!(events.iter().map(|event| &event["type"]).collect::<Vec<_>>(), ["ADDED", "ADDED", "BOOKMARK"]);
    let objects: Vec<&Value> = events.iter().map(|event| &event["object"]).collect();
    assert!(objects.iter().all(|object| object["kind"] == "Table"));
    assert_eq!(objects[0]["columnDefinitions"].as_array().unwrap().len(), 2);
    assert_eq!(objects[0]["rows"], json!([{"cells": ["a", 1], "object": null}]));
    assert_eq!(objects[0]["metadata"], json!({"resourceVersion": a["metadata"]["resourceVersion"]}));
    assert_eq!(objects[1]["columnDefinitions"], Value::Null);
    let row = &objects[2]["rows"][0];
    assert_eq!(row["cells"], json!(["", null]));
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    assert_eq!(row["object"]["metadata"]["resourceVersion"], objects[2]["metadata"]["resourceVersion"]);
    let whole = server.watch_as(&format!("{path}&includeObject=Object"), table).await.all().await;
    assert_eq!(whole[0]["object"]["rows"][0]["object"], a);
    let metadata = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let events = server.watch_as(&path, metadata).await.all().await;
    assert_eq!(brief(&events), ["ADDED a", "ADDED b", "END"]);
    assert!(events.iter().all(|event| event["object"]["kind"] == "PartialObjectMetadata"), "{events:?}");
    let expected =
        json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": a["metadata"]});
    assert_eq!(events[0]["object"], expected);
    let path = format!("{GADGETS}?watch=true&resourceVersion={}", revision(&a));
    let mut watch = server.watch_as(&path, metadata).await;
    assert_eq!(brief(&[watch.next().await]), ["ADDED b"]);
    let patch = json!({"metadata": {"labels": {"managedFields": "x"}}});
    let patched = server.patch(&format!("{GADGETS}/b"), "merge", &patch).await.1;
    let event = watch.next().await;
    assert_eq!((&event["type"], &event["object"]["metadata"]), (&json!("MODIFIED"), &patched["metadata"]));
}
