//! Tests of own writes in the cache, which are not decoded when the store reports them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;
mod stores;

use std::sync::Arc;

use serde_json::{Value, json};
use server::Server;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";
const OLDER: &str = "/apis/toys.example.com/v1beta1/namespaces/default/gadgets";

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn gadget(version: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "labels": {"app": name}, "finalizers": ["example.com/held"]});
    json!({"apiVersion": format!("toys.example.com/{version}"), "kind": "Gadget", "metadata": metadata, "spec": spec})
}

/// Writes in every way; the answer of each must be what a read shows then.
async fn write_all(server: &Server) {
    let (new, old) = (gadget("v1", "a", &json!({"size": 1})), gadget("v1beta1", "b", &json!({"width": 2})));
    let applied = gadget("v1", "c", &json!({"size": 3}));
    let again = gadget("v1", "c", &json!({"size": 4, "colour": "blue"}));
    let status = json!({"status": {"phase": "<&>"}});
    let writes: [(&str, String, &str, &Value); 9] = [
        ("POST", GADGETS.to_owned(), JSON, &new),
        ("POST", OLDER.to_owned(), JSON, &old),
        ("PATCH", format!("{GADGETS}/c?fieldManager=a"), APPLY, &applied),
        ("PATCH", format!("{GADGETS}/a"), MERGE, &json!({"spec": {"size": 7}})),
        ("PATCH", format!("{OLDER}/a"), MERGE, &json!({"spec": {"width": 8}})),
        ("PATCH", format!("{GADGETS}/b/status"), MERGE, &status),
        ("PATCH", format!("{GADGETS}/c?fieldManager=b&force=true"), APPLY, &again),
        (
            "PATCH",
            format!("{GADGETS}/a"),
            MERGE,
            &json!({"metadata": {"labels": {"app": null, "tier": "x"}}}),
        ),
        ("DELETE", format!("{GADGETS}/b"), JSON, &json!({})),
    ];
    for (method, path, content, body) in writes {
        let (code, answer) =
            server.send(method, &path, &[("content-type", content)], &body.to_string()).await;
        assert!(code == 200 || code == 201, "{method} {path}: {answer}");
        let place = path.split(['?']).next().unwrap().trim_end_matches("/status");
        let name = answer["metadata"]["name"].as_str().unwrap();
        let place = if method == "POST" { format!("{place}/{name}") } else { place.to_owned() };
        assert_eq!(server.get(&place).await, (200, answer), "{method} {path}");
    }
}

#[tokio::test]
async fn own_writes_are_served_as_another_replica_reads_them() {
    for (store, _kept) in stores::all().await {
        let writer = Server::start_on(Arc::clone(&store)).await;
        write_all(&writer).await;
        let reader = Server::start_on(store).await;
        for collection in [GADGETS, OLDER] {
            for path in ["", "/a", "/b", "/c", "?labelSelector=tier%3Dx", "?labelSelector=app"] {
                let path = format!("{collection}{path}");
                let (shown, read) = (writer.bytes(&path, JSON).await, reader.bytes(&path, JSON).await);
                assert_eq!(shown, read, "{path}");
            }
        }
    }
}
