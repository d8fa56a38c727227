//! Tests of one kind in two versions: each is written and read as if there were no other.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use server::Server;
use storage_contract::{Key, Store};
use storage_embedded::EmbeddedStore;

const NEW: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const OLD: &str = "/apis/toys.example.com/v1beta1/namespaces/default/gadgets";

fn old(name: &str, width: i64) -> Value {
    json!({"apiVersion": "toys.example.com/v1beta1", "kind": "Gadget", "metadata": {"name": name},
        "spec": {"width": width}})
}

#[tokio::test]
async fn an_object_is_the_same_in_every_version() {
    let server = Server::start().await;
    let (code, made) = server.post(OLD, &old("a", 3)).await;
    assert_eq!((code, &made["spec"]), (201, &json!({"width": 3, "colour": "red"})), "{made}");
    let (_, new) = server.get(&format!("{NEW}/a")).await;
    assert_eq!(
        (&new["apiVersion"], &new["spec"]),
        (&json!("toys.example.com/v1"), &json!({"size": 3, "colour": "red"}))
    );
    assert_eq!(new["metadata"], made["metadata"]);
    let (code, patched) = server.patch(&format!("{NEW}/a"), "merge", &json!({"spec": {"size": 5}})).await;
    assert_eq!((code, &patched["metadata"]["generation"]), (200, &json!(2)));
    let (_, list) = server.get(OLD).await;
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!("toys.example.com/v1beta1"), &json!("GadgetList"))
    );
    assert_eq!(list["items"][0]["spec"], json!({"width": 5, "colour": "red"}));
    assert_eq!(list["items"][0]["apiVersion"], "toys.example.com/v1beta1");
    let mut read = list["items"][0].clone();
    read["spec"]["width"] = 7.into();
    let (code, written) = server.put(&format!("{OLD}/a"), &read).await;
    assert_eq!((code, &written["spec"]["width"]), (200, &json!(7)), "{written}");
    let (code, same) = server.put(&format!("{OLD}/a"), &written).await;
    assert_eq!((code, same), (200, written), "writing what is there writes nothing");
    assert_eq!(server.delete(&format!("{OLD}/a")).await.0, 200);
    assert_eq!(server.get(&format!("{NEW}/a")).await.0, 404);
}

#[tokio::test]
async fn each_version_is_validated_with_its_own_schema() {
    let server = Server::start().await;
    let (code, status) = server.post(OLD, &old("a", 0)).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("spec.width")), "{status}");
    let (code, status) = server.post(NEW, &old("a", 1)).await;
    assert_eq!(code, 400, "{status}");
    let mut strict = old("a", 1);
    strict["spec"]["size"] = 1.into();
    let (code, status) = server.post(&format!("{OLD}?fieldValidation=Strict"), &strict).await;
    assert!(code == 400 && status["message"].as_str().unwrap().contains("spec.size"), "{status}");
}

#[tokio::test]
async fn a_watch_returns_its_version_for_writers_of_both_versions() {
    let server = Server::start().await;
    let (mut new, mut older) =
        (server.watch(&format!("{NEW}?watch=true")).await, server.watch(&format!("{OLD}?watch=true")).await);
    server.post(OLD, &old("a", 3)).await;
    server.patch(&format!("{NEW}/a"), "merge", &json!({"spec": {"size": 5}})).await;
    server.delete(&format!("{NEW}/a")).await;
    for (kind, number) in [("ADDED", 3), ("MODIFIED", 5), ("DELETED", 5)] {
        let (one, other) = (new.next().await, older.next().await);
        assert_eq!((&one["type"], &other["type"]), (&json!(kind), &json!(kind)));
        assert_eq!(
            (&one["object"]["spec"]["size"], &other["object"]["spec"]["width"]),
            (&json!(number), &json!(number))
        );
        assert_eq!(
            one["object"]["metadata"]["resourceVersion"],
            other["object"]["metadata"]["resourceVersion"]
        );
    }
}

#[tokio::test]
async fn discovery_prefers_the_version_that_is_stored() {
    let server = Server::start().await;
    let (_, group) = server.get("/apis/toys.example.com").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"][1]["groupVersion"], "toys.example.com/v1beta1");
}

#[tokio::test]
async fn objects_stored_in_another_version_are_served_and_migrated_when_written() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(&directory.path().join("store")).unwrap());
    let stored = |api_version: &str, name: &str| {
        let mut object = old(name, 3);
        object["apiVersion"] = json!(api_version);
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["namespace"] = json!("default");
        Bytes::from(object.to_string())
    };
    let key = |name: &str| Key::new(format!("/capstan/toys.example.com/gadgets/default/{name}")).unwrap();
    let first = store.create(&key("a"), stored("toys.example.com/v1beta1", "a")).await.unwrap();
    let server = Server::start_on(Arc::clone(&store)).await;
    let (code, new) = server.get(&format!("{NEW}/a")).await;
    assert_eq!((code, &new["spec"]), (200, &json!({"size": 3, "colour": "red"})), "{new}");
    assert_eq!(server.get(OLD).await.1["items"][0]["spec"], json!({"width": 3, "colour": "red"}));
    // Writing it as it is brings it to the version that is stored now, once.
    let (code, written) = server.put(&format!("{NEW}/a"), &new).await;
    assert_eq!(code, 200, "{written}");
    let entry = store.get(&key("a")).await.unwrap().unwrap();
    assert!(entry.modified > first);
    let now: Value = serde_json::from_slice(&entry.value).unwrap();
    assert_eq!((&now["apiVersion"], &now["spec"]["size"]), (&json!("toys.example.com/v1"), &json!(3)));
    assert_eq!(server.put(&format!("{NEW}/a"), &written).await.1, written);
    assert_eq!(store.get(&key("a")).await.unwrap().unwrap(), entry);
    // Of a version that is unknown here it is said so.
    store.create(&key("b"), stored("toys.example.com/v9", "b")).await.unwrap();
    let (code, status) = server.get(&format!("{NEW}/b")).await;
    let message = status["message"].as_str().unwrap();
    assert!(code == 500 && message.contains(key("b").as_str()) && message.contains("v9"), "{status}");
}
