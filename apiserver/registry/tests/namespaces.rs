//! Tests of the deletion of a namespace: first its content, then the namespace itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const NAMESPACE: &str = "/api/v1/namespaces/ns";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_terminating_namespace_is_removed_when_it_is_finalized() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", SECRETS, &secret("a")).await.0, 201);
    let (_, live) = server.admin("GET", NAMESPACE, &Value::Null).await;
    assert_eq!(
        (&live["spec"], &live["status"]),
        (&json!({"finalizers": ["kubernetes"]}), &json!({"phase": "Active"}))
    );
    let (code, ending) = server.admin("DELETE", NAMESPACE, &Value::Null).await;
    assert_eq!((code, &ending["status"]["phase"]), (200, &json!("Terminating")), "{ending}");
    assert!(ending["metadata"]["deletionTimestamp"].is_string());
    let (code, again) = server.admin("DELETE", NAMESPACE, &Value::Null).await;
    assert_eq!((code, &again), (200, &ending));
    let (code, refused) = server.admin("POST", SECRETS, &secret("b")).await;
    assert_eq!(code, 403);
    assert_eq!(
        refused["message"],
        "secrets \"b\" is forbidden: unable to create new content in namespace ns because it is being terminated"
    );
    let cause = json!([{"reason": "NamespaceTerminating", "message": "namespace ns is being terminated",
        "field": "metadata.namespace"}]);
    assert_eq!((&refused["reason"], &refused["details"]["causes"]), (&json!("Forbidden"), &cause));
    // Existing objects can still be changed and deleted.
    assert_eq!(server.admin("PATCH", &format!("{SECRETS}/a"), &json!({"data": {"k": "YQ=="}})).await.0, 200);
    assert_eq!(server.admin("DELETE", &format!("{SECRETS}/a"), &Value::Null).await.0, 200);
    let mut finalized = ending.clone();
    finalized["spec"] = json!({});
    let (code, answer) = server.admin("PUT", &format!("{NAMESPACE}/finalize"), &finalized).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(server.admin("GET", NAMESPACE, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn finalizers_in_the_spec_are_only_written_by_the_finalize_subresource() {
    let server = Server::start().await;
    let (_, live) = server.admin("GET", NAMESPACE, &Value::Null).await;
    let (_, patched) = server
        .admin(
            "PATCH",
            NAMESPACE,
            &json!({"spec": {"finalizers": ["a.b/c"]}, "metadata": {"labels": {"a": "b"}}}),
        )
        .await;
    assert_eq!((&patched["spec"], &patched["metadata"]["labels"]["a"]), (&live["spec"], &json!("b")));
    let finalize = format!("{NAMESPACE}/finalize");
    let mut more = live.clone();
    more["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    more["metadata"]["labels"] = json!({});
    more["spec"] = json!({"finalizers": ["kubernetes", "a.b/c"]});
    let (code, answer) = server.admin("PUT", &finalize, &more).await;
    assert_eq!(
        (code, &answer["spec"], &answer["metadata"]["labels"]["a"]),
        (200, &more["spec"], &json!("b"))
    );
    more["spec"] = json!({"finalizers": ["nobody"]});
    assert_eq!(server.admin("PUT", &finalize, &more).await.0, 422);
    assert_eq!(server.admin("PUT", &finalize, &live).await.0, 409, "the revision is checked");
    assert_eq!(server.admin("GET", &finalize, &Value::Null).await.0, 405);
    assert_eq!(server.with(&["update namespaces"], "PUT", &finalize, &more).await.0, 403);
    // A live namespace without finalizers stays, and is removed at once when it is deleted.
    more["spec"] = json!({"finalizers": []});
    assert_eq!(server.admin("PUT", &finalize, &more).await.0, 200);
    assert_eq!(server.admin("DELETE", NAMESPACE, &Value::Null).await.0, 200);
    assert_eq!(server.admin("GET", NAMESPACE, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_namespace_is_removed_with_its_last_finalizer_in_spec_or_metadata() {
    let server = Server::start().await;
    server.admin("PATCH", NAMESPACE, &json!({"metadata": {"finalizers": ["a.b/c"]}})).await;
    let (_, mut ending) = server.admin("DELETE", NAMESPACE, &Value::Null).await;
    ending["spec"] = json!({});
    assert_eq!(server.admin("PUT", &format!("{NAMESPACE}/finalize"), &ending).await.0, 200);
    assert_eq!(server.admin("GET", NAMESPACE, &Value::Null).await.1["status"]["phase"], "Terminating");
    server.admin("PATCH", NAMESPACE, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(server.admin("GET", NAMESPACE, &Value::Null).await.0, 404);
}

#[tokio::test]
async fn system_namespaces_cannot_be_deleted() {
    let server = Server::start().await;
    for name in ["default", "capstan-system"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        assert_eq!(server.admin("POST", "/api/v1/namespaces", &namespace).await.0, 201);
        let path = format!("/api/v1/namespaces/{name}");
        let (code, answer) = server.admin("DELETE", &path, &Value::Null).await;
        assert_eq!(code, 403, "{answer}");
        let expected = format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(answer["message"], expected);
    }
}
