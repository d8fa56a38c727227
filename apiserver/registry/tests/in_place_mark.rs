//! Tests of the marks of an update in place, over HTTP.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use apiserver_access::User;
use serde_json::{Value, json};
use server::Server;

const MARK: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

fn path(version: &str, name: &str) -> String {
    let objects = format!("/apis/infrastructure.cluster.x-k8s.io/{version}/namespaces/ns/openstackmachines");
    format!("{objects}{name}")
}

fn mark(value: &Value) -> Value {
    json!({"metadata": {"annotations": {MARK: value}}})
}

/// Returns the change to another flavor, in both versions.
fn flavor(name: &str) -> [(&'static str, Value); 2] {
    let (old, new) = (json!(name), json!({"filter": {"name": name}}));
    [("v1beta1", json!({"spec": {"flavor": old}})), ("v1beta2", json!({"spec": {"flavor": new}}))]
}

/// Creates an object as a client does.
async fn create(server: &Server, name: &str, annotations: &Value) {
    let object = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "OpenStackMachine",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"identityRef": {"name": "a", "cloudName": "b"}, "image": {"filter": {"name": "i"}}, "flavor": "large",
            "ports": [{}], "sshKeyName": ""}});
    let (code, answer) = server.admin("POST", &path("v1beta1", ""), &object).await;
    assert_eq!(code, 201, "{answer}");
}

/// Returns a controller that may update the objects.
fn controller() -> User {
    let groups = ["system:capstan:controllers", "patch openstackmachines"].map(str::to_owned);
    User::authenticated("system:capstan:machineset-controller", groups)
}

/// Sends a change of a client, which must be refused. Returns the fields that the refusal names.
async fn refused(server: &Server, path: &str, change: &Value) -> Vec<String> {
    let (code, answer) = server.admin("PATCH", path, change).await;
    assert_eq!(code, 422, "{answer}");
    let causes = answer["details"]["causes"].as_array().unwrap();
    causes.iter().map(|cause| cause["field"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn only_controllers_write_the_mark_and_the_spec_under_it() {
    let server = Server::start().await;
    create(&server, "m", &json!({})).await;
    let (stored, of_mark) = (path("v1beta2", "/m"), format!("metadata.annotations[{MARK}]"));
    for (version, change) in flavor("small") {
        let path = path(version, "/m");
        assert_eq!(refused(&server, &path, &mark(&json!(""))).await, [of_mark.as_str()]);
        let mut both = mark(&json!(""));
        both["spec"] = change["spec"].clone();
        assert_eq!(refused(&server, &path, &both).await, [of_mark.as_str(), "spec"]);
        assert_eq!(refused(&server, &path, &change).await, ["spec"], "the spec is immutable");
    }
    // The name of a controller is not enough.
    let may = ["patch openstackmachines".to_owned()];
    let impostor = User::authenticated("system:capstan:machineset-controller", may);
    assert_eq!(server.send(impostor, "PATCH", &stored, &mark(&json!(""))).await.0, 422);

    let (code, answer) = server.send(controller(), "PATCH", &stored, &mark(&json!(""))).await;
    assert_eq!(code, 200, "{answer}");
    for (version, change) in flavor("small") {
        assert_eq!(refused(&server, &path(version, "/m"), &change).await, ["spec"]);
    }
    for value in [json!("x"), Value::Null] {
        assert_eq!(refused(&server, &stored, &mark(&value)).await, [of_mark.as_str()]);
    }
    let (code, answer) = server.admin("PATCH", &stored, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(code, 200, "{answer}");
    for change in [flavor("small")[1].1.clone(), mark(&Value::Null)] {
        let (code, answer) = server.send(controller(), "PATCH", &stored, &change).await;
        assert_eq!(code, 200, "{answer}");
    }
    let (_, object) = server.admin("GET", &stored, &Value::Null).await;
    assert_eq!(object["spec"]["flavor"], json!({"filter": {"name": "small"}}), "{object}");
}

#[tokio::test]
async fn an_object_that_is_moved_with_the_mark_keeps_it_and_its_spec_stays_for_clients() {
    let server = Server::start().await;
    create(&server, "moved", &json!({MARK: ""})).await;
    let (_, object) = server.admin("GET", &path("v1beta2", "/moved"), &Value::Null).await;
    assert_eq!(object["metadata"]["annotations"][MARK], "", "{object}");
    for (version, change) in flavor("small") {
        assert_eq!(refused(&server, &path(version, "/moved"), &change).await, ["spec"]);
    }
    // The move adds the owner afterwards.
    let owner =
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "moved", "uid": "u"});
    let change = json!({"metadata": {"ownerReferences": [owner]}});
    let (code, answer) = server.admin("PATCH", &path("v1beta2", "/moved"), &change).await;
    assert_eq!(code, 200, "{answer}");
}

/// Creates a Machine and a MachineSet as a client does, with these annotations. Returns their paths and their marks.
async fn create_owners(server: &Server, annotations: &Value) -> [(String, Vec<String>); 2] {
    let spec = json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"}});
    let labels = json!({"of": "x"});
    let set = json!({"clusterName": "c", "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec}});
    let hooks = "runtime.cluster.x-k8s.io/pending-hooks";
    let machine = ["update-in-progress", "pending-acknowledge-move"].map(of_updates);
    let moves = ["move-machines-to-machineset", "receive-machines-from-machinesets", "acknowledged-move"];
    let moves = moves.map(of_updates);
    let kinds = [
        ("Machine", "machines", spec, [&machine[..], &[hooks.to_owned()]].concat()),
        ("MachineSet", "machinesets", set, moves.to_vec()),
    ];
    let mut made = Vec::new();
    for (kind, plural, spec, marks) in kinds {
        let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/{plural}");
        let object = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "x", "annotations": annotations}, "spec": spec});
        let (code, answer) = server.admin("POST", &path, &object).await;
        assert_eq!(code, 201, "{answer}");
        made.push((format!("{path}/x"), marks));
    }
    made.try_into().unwrap()
}

fn of_updates(name: &str) -> String {
    format!("in-place-updates.internal.cluster.x-k8s.io/{name}")
}

#[tokio::test]
async fn only_controllers_write_the_marks_of_machines_and_sets() {
    let server = Server::start().await;
    let groups = ["system:capstan:controllers", "patch machines", "patch machinesets"].map(str::to_owned);
    let controller = User::authenticated("system:capstan:machineset-controller", groups);
    for (path, marks) in create_owners(&server, &json!({})).await {
        for mark in marks {
            let with = |value: Value| json!({"metadata": {"annotations": {mark.clone(): value}}});
            let field = format!("metadata.annotations[{mark}]");
            assert_eq!(refused(&server, &path, &with(json!("x"))).await, [field.as_str()]);
            let (code, answer) = server.send(controller.clone(), "PATCH", &path, &with(json!("x"))).await;
            assert_eq!(code, 200, "{answer}");
            for value in [json!("y"), Value::Null] {
                assert_eq!(refused(&server, &path, &with(value)).await, [field.as_str()]);
            }
        }
        let (code, answer) = server.admin("PATCH", &path, &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(code, 200, "{answer}");
    }
}

#[tokio::test]
async fn machines_and_sets_that_are_moved_keep_their_marks() {
    let server = Server::start().await;
    let marks = ["update-in-progress", "acknowledged-move"].map(of_updates);
    let annotations = json!({marks[0].clone(): "", marks[1].clone(): "x"});
    for (path, _) in create_owners(&server, &annotations).await {
        let (_, object) = server.admin("GET", &path, &Value::Null).await;
        assert_eq!(object["metadata"]["annotations"], annotations, "{path}");
    }
}
