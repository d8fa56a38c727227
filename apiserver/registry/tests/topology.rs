//! Tests of Clusters of a class: requests as users write them, and the resulting objects.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters";
const CLASSES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusterclasses";

fn class() -> Value {
    let template = |kind: &str, group: &str| json!({"templateRef": {"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "t"}});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "a"}, "spec": {
        "infrastructure": template("OpenStackClusterTemplate", "infrastructure"),
        "controlPlane": template("KubeadmControlPlaneTemplate", "controlplane"),
        "workers": {"machineDeployments": [{"class": "w", "bootstrap": template("KubeadmConfigTemplate", "bootstrap"),
            "infrastructure": template("OpenStackMachineTemplate", "infrastructure")}]},
        "variables": [
            {"name": "net", "required": true, "schema": {"openAPIV3Schema": {"type": "object", "default": {},
                "properties": {"mtu": {"type": "integer", "default": 1500}, "zone": {"type": "string"}}}}},
            {"name": "image", "required": true, "schema": {"openAPIV3Schema": {"type": "string", "minLength": 2}}}]}})
}

fn cluster(version: &str, name: &str) -> Value {
    let class = if version == "v1beta1" { json!({"class": "a"}) } else { json!({"classRef": {"name": "a"}}) };
    let mut topology = json!({"version": "v1.33.0", "variables": [{"name": "image", "value": "ab"}],
        "workers": {"machineDeployments": [{"name": "md-0", "class": "w",
            "variables": {"overrides": [{"name": "net", "value": {"zone": "z"}}]}}]}});
    topology.as_object_mut().unwrap().extend(class.as_object().unwrap().clone());
    json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster", "metadata": {"name": name},
        "spec": {"topology": topology}})
}

/// Checks the result of [`cluster`].
fn check(cluster: &Value, what: &str) {
    let topology = &cluster["spec"]["topology"];
    let expected = json!([{"name": "image", "value": "ab"}, {"name": "net", "value": {"mtu": 1500}}]);
    assert_eq!(topology["variables"], expected, "{what}");
    let overrides = &topology["workers"]["machineDeployments"][0]["variables"]["overrides"];
    assert_eq!(*overrides, json!([{"name": "net", "value": {"mtu": 1500, "zone": "z"}}]), "{what}");
}

#[tokio::test]
async fn variables_get_class_defaults_in_every_version_and_write() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
    for version in ["v1beta2", "v1beta1"] {
        let at = CLUSTERS.replace("v1beta2", version);
        let (code, tried) =
            server.admin("POST", &format!("{at}?dryRun=All"), &cluster(version, version)).await;
        assert_eq!(code, 201, "{tried}");
        check(&tried, "a dry run");
        let (_, made) = server.admin("POST", &at, &cluster(version, version)).await;
        check(&made, version);
        check(&server.admin("GET", &format!("{CLUSTERS}/{version}"), &Value::Null).await.1, "what is stored");
        let applied = format!("{at}/{version}-applied");
        let (code, made) =
            server.apply(&applied, "me", &cluster(version, &format!("{version}-applied"))).await;
        assert_eq!(code, 201, "{made}");
        check(&made, "what is applied");
        // Defaults from the class have no field manager, and the same apply keeps them.
        let owners = made["metadata"]["managedFields"].to_string();
        assert!(owners.contains("image") && !owners.contains("mtu"), "{owners}");
        let (_, again) = server.apply(&applied, "me", &cluster(version, &format!("{version}-applied"))).await;
        assert_eq!(again["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"], "{version}");
    }
}

#[tokio::test]
async fn a_default_added_later_is_set_by_the_next_update() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
    assert_eq!(server.admin("POST", CLUSTERS, &cluster("v1beta2", "c")).await.0, 201);
    let mut later = class();
    later["spec"]["variables"].as_array_mut().unwrap().push(json!({"name": "size", "required": true,
        "schema": {"openAPIV3Schema": {"type": "integer", "default": 3}}}));
    assert_eq!(server.admin("PATCH", &format!("{CLASSES}/a"), &later).await.0, 200);
    let at = format!("{CLUSTERS}/c");
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, changed) = server.admin("PATCH", &at, &change).await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(changed["spec"]["topology"]["variables"][2], json!({"name": "size", "value": 3}));
    // The desired state changes with it.
    assert_eq!(changed["metadata"]["generation"], 2);
    let (_, status) = server.admin("GET", &format!("{at}/status"), &Value::Null).await;
    assert_eq!(server.admin("PUT", &format!("{at}/status"), &status).await.0, 200);
}

#[tokio::test]
async fn a_changed_class_applies_to_new_writes_and_not_to_stored_clusters() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
    let mut held = cluster("v1beta2", "c");
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    assert_eq!(server.admin("POST", CLUSTERS, &held).await.0, 201);
    let mut stricter = class();
    stricter["spec"]["variables"][1]["schema"]["openAPIV3Schema"]["minLength"] = json!(9);
    assert_eq!(server.admin("PATCH", &format!("{CLASSES}/a"), &stricter).await.0, 200);
    let at = format!("{CLUSTERS}/c");
    let (code, answer) = server.admin("PATCH", &at, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, 200, "{answer}");
    let change = json!({"spec": {"topology": {"controlPlane": {"replicas": 3}}}});
    let (code, answer) = server.admin("PATCH", &at, &change).await;
    assert_eq!(code, 422);
    let said = r#"Cluster.cluster.x-k8s.io "c" is invalid: spec.topology.variables[image].value: Invalid value: "\"ab\"": should be at least 9 chars long"#;
    assert_eq!(answer["message"], said);
    // Defaulting skips a Cluster that is being deleted, because it would change it.
    stricter["spec"]["variables"].as_array_mut().unwrap().push(json!({"name": "size", "required": true,
        "schema": {"openAPIV3Schema": {"type": "integer", "default": 3}}}));
    assert_eq!(server.admin("DELETE", &at, &Value::Null).await.0, 200);
    assert_eq!(server.admin("PATCH", &format!("{CLASSES}/a"), &stricter).await.0, 200);
    assert_eq!(server.admin("PATCH", &at, &json!({"metadata": {"finalizers": null}})).await.0, 200);
    assert_eq!(server.admin("GET", &at, &Value::Null).await.0, 404);
}
