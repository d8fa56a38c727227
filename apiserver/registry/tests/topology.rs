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

/// Returns the class with other variables.
fn class_with(change: impl FnOnce(&mut Vec<Value>)) -> Value {
    let mut class = class();
    change(class["spec"]["variables"].as_array_mut().unwrap());
    class
}

/// Returns the class with another least length of the image.
fn class_with_length(length: u64) -> Value {
    class_with(|variables| variables[1]["schema"]["openAPIV3Schema"]["minLength"] = json!(length))
}

fn zone(is_required: bool) -> Value {
    json!({"name": "zone", "required": is_required, "schema": {"openAPIV3Schema": {"type": "string"}}})
}

#[tokio::test]
async fn a_class_in_use_must_allow_the_variables_of_its_clusters() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
    assert_eq!(server.admin("POST", CLUSTERS, &cluster("v1beta2", "c")).await.0, 201);
    let own = format!("{CLASSES}/a");
    // What a controller has published is older than the change.
    let status = json!({"status": {"observedGeneration": 1}});
    assert_eq!(server.admin("PATCH", &format!("{own}/status"), &status).await.0, 200);
    let table = [
        (
            class_with_length(9),
            r#"spec.topology.variables[image].value: Invalid value: "\"ab\"": should be at least 9 chars long"#,
        ),
        (
            class_with(|variables| drop(variables.pop())),
            r#"spec.topology.variables[image]: Invalid value: "\"ab\"": variable is not defined"#,
        ),
        (
            class_with(|variables| {
                variables[0]["schema"]["openAPIV3Schema"]["properties"]["zone"]["enum"] = json!(["a"]);
            }),
            "spec.topology.workers.machineDeployments[md-0].variables.overrides[net].value.zone: Unsupported value: ",
        ),
        (
            class_with(|variables| variables.push(zone(true))),
            r#"spec.topology.variables: Required value: required variable "zone" must be set"#,
        ),
    ];
    let beginning = r#"ClusterClass.cluster.x-k8s.io "a" is invalid: spec.variables: Forbidden: Cluster ns/c would no longer be valid: "#;
    for (class, expected) in table {
        let (code, answer) = server.admin("PATCH", &own, &class).await;
        assert_eq!((code, fields(&answer)), (422, vec!["spec.variables"]), "{expected}: {answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{beginning}{expected}")), "{message}");
    }
}

#[tokio::test]
async fn a_class_in_use_may_change_variables_in_ways_that_its_clusters_fit() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
    assert_eq!(server.admin("POST", CLUSTERS, &cluster("v1beta2", "c")).await.0, 201);
    let optional = class_with(|variables| variables.push(zone(false)));
    // The last change removes a variable that no Cluster sets.
    for class in [class_with_length(1), optional, class()] {
        let (code, answer) = server.admin("PATCH", &format!("{CLASSES}/a"), &class).await;
        assert_eq!(code, 200, "{answer}");
        let change = json!({"spec": {"topology": {"controlPlane": {"replicas": 3}}}});
        let (code, answer) = server.admin("PATCH", &format!("{CLUSTERS}/c?dryRun=All"), &change).await;
        assert_eq!(code, 200, "{answer}");
    }
}

#[tokio::test]
async fn of_a_class_and_a_cluster_that_do_not_agree_only_one_is_written() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
    let own = format!("{CLASSES}/a");
    let (mut created, mut deleted) = (0, 0);
    for round in 0..20 {
        let (cluster, at) = (cluster("v1beta2", "c"), format!("{CLUSTERS}/c"));
        let stricter = class_with_length(9);
        let (creation, change) =
            tokio::join!(server.admin("POST", CLUSTERS, &cluster), server.admin("PATCH", &own, &stricter));
        match (creation.0, change.0) {
            (201, 422) => created += 1,
            (422, 200) => {}
            (201, 200) => panic!("round {round}: the Cluster is not valid for its class"),
            _ => panic!("round {round}: {} and {}", creation.1, change.1),
        }
        assert_eq!(server.admin("PATCH", &own, &class()).await.0, 200);
        if creation.0 == 422 {
            assert_eq!(server.admin("POST", CLUSTERS, &cluster).await.0, 201);
        }
        assert_eq!(server.admin("DELETE", &at, &Value::Null).await.0, 200);
        let (creation, deletion) = tokio::join!(
            server.admin("POST", CLUSTERS, &cluster),
            server.admin("DELETE", &own, &Value::Null)
        );
        // A Cluster without a class is created with a warning, and waits.
        assert_eq!(creation.0, 201, "{}", creation.1);
        match deletion.0 {
            403 => {}
            200 => {
                assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
                deleted += 1;
            }
            _ => panic!("round {round}: {}", deletion.1),
        }
        assert_eq!(server.admin("DELETE", &at, &Value::Null).await.0, 200);
    }
    eprintln!("the Cluster was first {created} times of 20; the deletion, {deleted} times");
}

#[tokio::test]
async fn a_cluster_that_its_class_does_not_allow_prevents_spec_writes_but_no_change_of_the_class() {
    let server = Server::start().await;
    // The Cluster is not validated, because its class does not exist yet.
    let mut held = cluster("v1beta2", "c");
    held["metadata"]["finalizers"] = json!(["example.com/f"]);
    assert_eq!(server.admin("POST", CLUSTERS, &held).await.0, 201);
    assert_eq!(server.admin("POST", CLASSES, &class_with_length(9)).await.0, 201);
    let (own, at) = (format!("{CLASSES}/a"), format!("{CLUSTERS}/c"));
    let (code, answer) = server.admin("PATCH", &at, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, 200, "{answer}");
    let change = json!({"spec": {"topology": {"controlPlane": {"replicas": 3}}}});
    let (code, answer) = server.admin("PATCH", &at, &change).await;
    assert_eq!(code, 422);
    let said = r#"Cluster.cluster.x-k8s.io "c" is invalid: spec.topology.variables[image].value: Invalid value: "\"ab\"": should be at least 9 chars long"#;
    assert_eq!(answer["message"], said);
    // The value was not valid before either.
    let (code, answer) = server.admin("PATCH", &own, &class_with_length(8)).await;
    assert_eq!(code, 200, "{answer}");
    // A Cluster that is being deleted is not validated, and defaulting skips it, because it would change it.
    let stricter = class_with(|variables| {
        let size = json!({"openAPIV3Schema": {"type": "integer", "default": 3}});
        variables.extend([json!({"name": "size", "required": true, "schema": size}), zone(true)]);
    });
    assert_eq!(server.admin("PATCH", &own, &stricter).await.0, 422);
    assert_eq!(server.admin("DELETE", &at, &Value::Null).await.0, 200);
    let (code, answer) = server.admin("PATCH", &own, &stricter).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(server.admin("PATCH", &at, &json!({"metadata": {"finalizers": null}})).await.0, 200);
    assert_eq!(server.admin("GET", &at, &Value::Null).await.0, 404);
}

/// Returns the fields that an error names.
fn fields(answer: &Value) -> Vec<&str> {
    let causes = answer["details"]["causes"].as_array().unwrap().iter();
    causes.map(|cause| cause["field"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_dry_run_shows_the_defaults_and_refuses_invalid_variables_with_their_paths() {
    let server = Server::start().await;
    assert_eq!(server.admin("POST", CLASSES, &class()).await.0, 201);
    let (at, tried) = (format!("{CLUSTERS}/c"), format!("{CLUSTERS}?dryRun=All"));
    let mut wrong = cluster("v1beta2", "c");
    let topology = &mut wrong["spec"]["topology"];
    topology["variables"][0]["value"] = json!("a");
    topology["controlPlane"] = json!({"variables": {"overrides": [{"name": "net", "value": {"none": 1}}]}});
    topology["workers"]["machineDeployments"][0]["variables"]["overrides"][0]["value"]["mtu"] = json!("x");
    let expected = [
        "spec.topology.variables[image].value",
        "spec.topology.controlPlane.variables.overrides[net]",
        "spec.topology.workers.machineDeployments[md-0].variables.overrides[net].value.mtu",
    ];
    // As `kubectl apply --dry-run=server` writes a new Cluster, without and with `--server-side`.
    for (code, answer) in
        [server.admin("POST", &tried, &wrong).await, server.apply(&at, "me&dryRun=All", &wrong).await]
    {
        assert_eq!((code, fields(&answer)), (422, expected.to_vec()), "{answer}");
    }
    let new = cluster("v1beta2", "c");
    for (code, answer) in
        [server.admin("POST", &tried, &new).await, server.apply(&at, "me&dryRun=All", &new).await]
    {
        assert_eq!(code, 201, "{answer}");
        check(&answer, "a dry run");
    }
    assert_eq!(server.admin("GET", &at, &Value::Null).await.0, 404, "a dry run stores nothing");

    let (_, made) = server.admin("POST", CLUSTERS, &new).await;
    let topology = |topology: Value| json!({"spec": {"topology": topology}});
    let tried = format!("{at}?dryRun=All");
    let removed = topology(json!({"variables": null}));
    for (change, expected) in [(&wrong, &expected[..]), (&removed, &["spec.topology.variables"])] {
        let (code, answer) = server.admin("PATCH", &tried, change).await;
        assert_eq!((code, fields(&answer)), (422, expected.to_vec()), "{answer}");
    }
    let change = topology(json!({"variables": [{"name": "image", "value": "new"}]}));
    let (code, answer) = server.admin("PATCH", &tried, &change).await;
    assert_eq!(code, 200, "{answer}");
    let expected = json!([{"name": "image", "value": "new"}, {"name": "net", "value": {"mtu": 1500}}]);
    assert_eq!(answer["spec"]["topology"]["variables"], expected);
    assert_eq!(server.admin("GET", &at, &Value::Null).await.1, made, "a dry run changes nothing");
}
