//! Nulls in Kubernetes' own kinds. kube-apiserver decodes these kinds into types, where a null is an absent field.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

/// Paths, objects with a null in every optional field, and the fields that are left of them.
fn cases() -> Vec<(&'static str, Value, Value)> {
    let meta = json!({"name": "a", "labels": null, "annotations": null, "creationTimestamp": null});
    let core = |kind: &str, fields: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": meta});
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object
    };
    vec![
        (
            "/api/v1/namespaces/ns/configmaps",
            core("ConfigMap", json!({"data": {"a": "b", "c": null}, "binaryData": null, "immutable": null})),
            json!({"data": {"a": "b", "c": ""}}),
        ),
        (
            "/api/v1/namespaces/ns/secrets",
            core("Secret", json!({"data": null, "stringData": {"a": "b"}, "type": null, "immutable": null})),
            json!({"data": {"a": "Yg=="}, "type": "Opaque"}),
        ),
        (
            "/api/v1/namespaces",
            core("Namespace", json!({"spec": {"finalizers": null}, "status": {"conditions": null}})),
            json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
        ),
        (
            "/api/v1/namespaces/ns/events",
            core(
                "Event",
                json!({"involvedObject": {"kind": "Machine", "name": "m", "namespace": "ns", "uid": null},
                    "reason": "Made", "message": "m", "type": "Normal", "series": null, "related": null,
                    "source": {"component": "c", "host": null}, "action": null}),
            ),
            json!({"involvedObject": {"kind": "Machine", "name": "m", "namespace": "ns"},
                "reason": "Made", "message": "m", "type": "Normal", "source": {"component": "c"}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/ns/leases",
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta,
                "spec": {"holderIdentity": "a", "leaseDurationSeconds": null, "strategy": null}}),
            json!({"spec": {"holderIdentity": "a"}}),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles",
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta,
                "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": null}]}),
            json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}),
        ),
    ]
}

/// Returns the fields of an object besides its metadata.
fn fields(object: &Value) -> Value {
    let mut object = object.clone();
    for field in ["apiVersion", "kind", "metadata"] {
        object.as_object_mut().unwrap().remove(field);
    }
    // An Event has these fields with a null of their own, as upstream.
    object.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    object
}

#[tokio::test]
async fn a_null_of_an_optional_field_is_dropped_when_an_object_is_created_or_applied() {
    let server = Server::start().await;
    for (path, object, left) in cases() {
        let (code, created) = server.admin("POST", path, &object).await;
        assert_eq!(code, 201, "{path}: {created}");
        assert_eq!(fields(&created), left, "created in {path}");
        let one = format!("{path}/b");
        let mut applied = object;
        applied["metadata"]["name"] = json!("b");
        for expected in [201, 200] {
            let (code, answer) = server.apply(&one, "kubectl", &applied).await;
            assert_eq!(code, expected, "{one}: {answer}");
            assert_eq!(fields(&answer), left, "applied to {one}");
        }
    }
}
