//! Tests of the annotation that requests an upgrade of a Cluster, over HTTP.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters";

/// Starts a server with the Cluster `c`, which has no topology.
async fn start() -> Server {
    let server = Server::start().await;
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackCluster", "name": "x"});
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {"infrastructureRef": reference}});
    let (code, answer) = server.admin("POST", CLUSTERS, &cluster).await;
    assert_eq!(code, 201, "{answer}");
    server
}

fn requested(versions: &Value) -> Value {
    json!({"metadata": {"annotations": {"capstan.dev/upgrade": versions}}})
}

#[tokio::test]
async fn a_client_that_requests_an_upgrade_by_the_annotation_needs_the_permission_of_the_verb() {
    let (server, cluster) = (start().await, format!("{CLUSTERS}/c"));
    let request = requested(&json!("v1.35.0"));
    let (code, refused) = server.with(&["patch clusters"], "PATCH", &cluster, &request).await;
    assert!(code == 403 && refused["message"].as_str().unwrap().contains("clusters/upgrade"), "{refused}");
    let both = ["patch clusters", "create clusters/upgrade"];
    assert_eq!(server.with(&both, "PATCH", &cluster, &request).await.0, 200);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(server.with(&["patch clusters"], "PATCH", &cluster, &label).await.0, 200, "it is unchanged");
    let none = requested(&Value::Null);
    assert_eq!(server.with(&["patch clusters"], "PATCH", &cluster, &none).await.0, 200, "it is removed");
}

#[tokio::test]
async fn the_annotation_has_versions_and_the_verb_needs_a_planner() {
    let (server, cluster) = (start().await, format!("{CLUSTERS}/c"));
    let (code, refused) = server.admin("PATCH", &cluster, &requested(&json!("v1.35.0,v1.34.0"))).await;
    let message = refused["message"].as_str().unwrap();
    assert!(code == 422 && message.contains("metadata.annotations[capstan.dev/upgrade]"), "{refused}");
    let (code, answer) =
        server.admin("POST", &format!("{cluster}/upgrade"), &json!({"version": "v1.35.0"})).await;
    assert_eq!(code, 503, "no controllers run here: {answer}");
    let (code, answer) =
        server.admin("POST", &format!("{cluster}/upgrade"), &json!({"versoin": "v1.35.0"})).await;
    assert!(code == 400 && answer["message"].as_str().unwrap().contains("versoin"), "{answer}");
    let (_, stored) = server.admin("GET", &cluster, &Value::Null).await;
    assert_eq!(stored["metadata"]["annotations"]["capstan.dev/upgrade"], Value::Null);
}
