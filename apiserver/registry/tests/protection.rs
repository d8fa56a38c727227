//! Tests of the protection against deletion and of the verb `why`, over HTTP.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use apiserver_access::User;
use serde_json::{Value, json};
use server::Server;

const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
const WHY: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters/c/why";

fn reference(kind: &str) -> Value {
    json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "x"})
}

fn machine(name: &str, metadata: &Value) -> Value {
    let mut machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": metadata,
        "spec": {"clusterName": "c", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": reference("OpenStackMachine")}});
    machine["metadata"]["name"] = json!(name);
    machine
}

/// Starts a server with the initialized Cluster `c`.
async fn start() -> Server {
    let server = Server::start().await;
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {"infrastructureRef": reference("OpenStackCluster")}});
    create(&server, CLUSTERS, &cluster).await;
    let initialized = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
    assert_eq!(server.admin("PATCH", &format!("{CLUSTERS}/c/status"), &initialized).await.0, 200);
    server
}

async fn create(server: &Server, path: &str, object: &Value) {
    let (code, answer) = server.admin("POST", path, object).await;
    assert_eq!(code, 201, "{answer}");
}

#[tokio::test]
async fn protected_objects_and_their_cluster_stay_until_the_protection_is_lifted() {
    let server = start().await;
    create(&server, MACHINES, &machine("kept", &json!({"annotations": {"capstan.dev/protected": "true"}})))
        .await;
    create(&server, MACHINES, &machine("other", &json!({}))).await;
    let (kept, cluster) = (format!("{MACHINES}/kept"), format!("{CLUSTERS}/c"));
    let controller = User::authenticated("system:capstan:machine", ["delete machines".to_owned()]);
    for user in [User::authenticated("admin", []), controller] {
        let (code, refused) = server.send(user, "DELETE", &kept, &Value::Null).await;
        let expected = "Machine.cluster.x-k8s.io \"kept\" is forbidden: kept is protected by its annotation \
                        capstan.dev/protected. Remove the annotation to delete kept";
        assert_eq!((code, &refused["message"]), (403, &json!(expected)));
    }
    let (code, refused) = server.admin("DELETE", &cluster, &Value::Null).await;
    assert!(code == 403 && refused["message"].as_str().unwrap().contains("Machine kept"), "{refused}");
    assert_eq!(server.admin("DELETE", MACHINES, &Value::Null).await.0, 403);
    assert_eq!(
        server.admin("GET", &format!("{MACHINES}/other"), &Value::Null).await.0,
        404,
        "it is not protected"
    );
    let lifted = json!({"metadata": {"annotations": {"capstan.dev/protected": null}}});
    assert_eq!(server.admin("PATCH", &kept, &lifted).await.0, 200);
    for path in [&kept, &cluster] {
        assert_eq!(server.admin("DELETE", path, &Value::Null).await.0, 200);
    }
}

#[tokio::test]
async fn a_namespace_stays_while_an_object_in_it_is_protected() {
    let server = start().await;
    let (namespace, cluster) = ("/api/v1/namespaces/ns", format!("{CLUSTERS}/c"));
    let with = |value: Value| json!({"metadata": {"annotations": {"capstan.dev/protected": value}}});
    assert_eq!(server.admin("PATCH", &cluster, &with(json!("true"))).await.0, 200);
    let (code, refused) = server.admin("DELETE", namespace, &Value::Null).await;
    let expected = "Namespace \"ns\" is forbidden: objects that would be deleted with it are protected by the \
                    annotation or label capstan.dev/protected: Cluster c. Remove it from them first";
    assert_eq!((code, &refused["message"]), (403, &json!(expected)));
    assert_eq!(server.admin("GET", namespace, &Value::Null).await.1["status"]["phase"], "Active");
    assert_eq!(server.admin("PATCH", &cluster, &with(Value::Null)).await.0, 200);
    let (code, going) = server.admin("DELETE", namespace, &Value::Null).await;
    assert_eq!((code, &going["status"]["phase"]), (200, &json!("Terminating")), "{going}");
    // Its deletion goes on when an object is protected later.
    assert_eq!(server.admin("PATCH", &cluster, &with(json!("true"))).await.0, 200);
    assert_eq!(server.admin("DELETE", namespace, &Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_program_may_delete_the_last_control_plane_machine_and_a_person_may_not() {
    let server = start().await;
    let labels = json!({"labels": {"cluster.x-k8s.io/control-plane": ""}});
    create(&server, MACHINES, &machine("one", &labels)).await;
    let (one, may) = (format!("{MACHINES}/one"), || ["delete machines".to_owned()]);
    let (code, refused) =
        server.send(User::authenticated("alice", may()), "DELETE", &one, &Value::Null).await;
    assert!(code == 403 && refused["message"].as_str().unwrap().contains("only control plane"), "{refused}");
    let program = User::authenticated("system:serviceaccount:ns:flux", may());
    assert_eq!(server.send(program, "DELETE", &one, &Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_reader_learns_what_holds_up_a_cluster() {
    let server = start().await;
    let (code, refused) = server.with(&["get clusters"], "GET", WHY, &Value::Null).await;
    assert_eq!(code, 403, "{refused}");
    let (code, answer) = server.with(&["get clusters/why"], "GET", WHY, &Value::Null).await;
    assert_eq!(
        (code, &answer["kind"], &answer["chains"]),
        (200, &json!("ClusterWhy"), &json!([])),
        "{answer}"
    );
    assert_eq!(answer["message"], "Nothing holds up Cluster c");
    create(&server, MACHINES, &machine("m", &json!({}))).await;
    let condition = json!({"type": "InfrastructureReady", "status": "False", "reason": "QuotaExceeded",
        "message": "no cores", "lastTransitionTime": "2026-11-30T08:00:00Z"});
    let status = json!({"status": {"conditions": [condition]}});
    assert_eq!(server.admin("PATCH", &format!("{MACHINES}/m/status"), &status).await.0, 200);
    let (_, answer) = server.admin("GET", WHY, &Value::Null).await;
    assert_eq!(answer["message"], "Machine m: QuotaExceeded: no cores");
    assert_eq!(answer["cause"]["condition"], "InfrastructureReady");
    let missing = WHY.replace("/c/", "/none/");
    assert_eq!(server.admin("GET", &missing, &Value::Null).await.0, 404);
}
