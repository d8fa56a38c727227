//! Bodies in the forms that clients send and ask for, through the one door.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

#[tokio::test]
async fn options_of_a_deletion_may_come_in_protobuf_and_objects_of_unknown_kinds_may_not() {
    let server = Server::start().await;
    server.post(GADGETS, &gadget("a")).await;
    let path = format!("{GADGETS}/a");
    let protobuf = [("content-type", "application/vnd.kubernetes.protobuf")];
    // runtime.Unknown{typeMeta: {"v1", "DeleteOptions"}, raw: {preconditions: {uid: "other"}}}
    let body = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x09\x12\x07\x0a\x05other";
    let refused = server.request("DELETE", &path, &protobuf, body.to_vec()).await;
    assert_eq!(refused.status(), 409);
    let garbage = server.request("DELETE", &path, &protobuf, b"k8s\0\x0a\xff".to_vec()).await;
    assert_eq!(garbage.status(), 400);
    assert_eq!(server.request("POST", GADGETS, &protobuf, body.to_vec()).await.status(), 415);
    assert_eq!(server.get(&path).await.0, 200);
}
