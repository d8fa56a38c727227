//! Tests of quotas of machines and flavors: owner references, labels and ids of flavors do not get around them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::collections::BTreeSet;

use apiserver_access::User;
use serde_json::{Value, json};
use server::Server;

const SETS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinesets";
const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
const DEPLOYMENTS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machinedeployments";
const QUOTAS: &str = "/api/v1/namespaces/ns/resourcequotas";
const SERVERS: &str = "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/ns/openstackservers";
const OPENSTACK_MACHINES: &str =
    "/apis/infrastructure.cluster.x-k8s.io/v1beta1/namespaces/ns/openstackmachines";

/// Starts a server with a quota.
async fn start(hard: &Value) -> Server {
    let server = Server::start().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    create(&server, QUOTAS, &quota, 201).await;
    // Writes read the quotas from the cache.
    while server.admin("GET", &format!("{QUOTAS}/q?resourceVersion=0"), &Value::Null).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    server
}

async fn create(server: &Server, path: &str, object: &Value, expected: u16) -> Value {
    let (code, answer) = server.admin("POST", path, object).await;
    assert_eq!(code, expected, "{answer}");
    answer
}

fn machine_spec() -> Value {
    json!({"clusterName": "c", "bootstrap": {"dataSecretName": "s"}, "infrastructureRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "t"}})
}

/// Returns a MachineSet or a MachineDeployment whose selector is the label `of` with its name.
fn set(kind: &str, name: &str, replicas: u32) -> Value {
    let labels = json!({"of": name});
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name},
        "spec": {"clusterName": "c", "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine_spec()}}})
}

fn machine(name: &str) -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"name": name}, "spec": machine_spec()})
}

/// Returns the object with a controller, and with the label that selects it.
fn owned(mut object: Value, owner: &Value) -> Value {
    let name = &owner["metadata"]["name"];
    object["metadata"]["labels"] = json!({"of": name});
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": name, "uid": owner["metadata"]["uid"], "controller": true}]);
    object
}

#[tokio::test]
async fn machines_of_a_set_that_does_not_select_them_count() {
    let server = start(&json!({"capstan.dev/machines": "5"})).await;
    let empty = create(&server, SETS, &set("MachineSet", "x", 0), 201).await;
    let others = [
        ("labels", "/metadata/labels/of", "y"),
        ("uid", "/metadata/ownerReferences/0/uid", "c0ffee00-0000-4000-8000-000000000000"),
        ("group", "/metadata/ownerReferences/0/apiVersion", "example.io/v1"),
        ("kind", "/metadata/ownerReferences/0/kind", "MachinePool"),
    ];
    for (name, pointer, value) in others {
        let mut machine = owned(machine(name), &empty);
        *machine.pointer_mut(pointer).unwrap() = json!(value);
        create(&server, MACHINES, &machine, 201).await;
    }
    create(&server, MACHINES, &owned(machine("selected"), &empty), 201).await;
    let refused = create(&server, MACHINES, &owned(machine("more"), &empty), 403).await;
    let words = "exceeded quota: q, requested: capstan.dev/machines=1, used: capstan.dev/machines=5, limited: capstan.dev/machines=5";
    assert!(refused["message"].as_str().unwrap().ends_with(words), "{refused}");
}

#[tokio::test]
async fn an_owner_accounts_for_as_many_as_it_wants() {
    // As `clusterctl move` creates them: the owner first, then what it owns, with its new uid.
    let server = start(&json!({"capstan.dev/machines": "3"})).await;
    let deployment = create(&server, DEPLOYMENTS, &set("MachineDeployment", "md", 3), 201).await;
    let moved = create(&server, SETS, &owned(set("MachineSet", "ms", 3), &deployment), 201).await;
    for name in ["a", "b", "c"] {
        create(&server, MACHINES, &owned(machine(name), &moved), 201).await;
    }
    create(&server, MACHINES, &owned(machine("d"), &moved), 403).await;
    create(&server, SETS, &owned(set("MachineSet", "more", 1), &deployment), 403).await;
    let controller = User::authenticated(
        "system:capstan:sets",
        ["system:capstan:controllers", "create machines"].map(str::to_owned),
    );
    let (code, answer) = server.send(controller, "POST", MACHINES, &owned(machine("d"), &moved)).await;
    assert_eq!(code, 201, "a rollout needs one more for a time: {answer}");
}

#[tokio::test]
async fn machines_cannot_be_taken_away_from_their_set_to_make_room() {
    let server = start(&json!({"capstan.dev/machines": "1"})).await;
    let owner = create(&server, SETS, &set("MachineSet", "x", 1), 201).await;
    create(&server, MACHINES, &owned(machine("a"), &owner), 201).await;
    let of_a = format!("{MACHINES}/a");
    for change in [json!({"labels": {"of": "y"}}), json!({"ownerReferences": null})] {
        let (code, answer) = server.admin("PATCH", &of_a, &json!({"metadata": change})).await;
        assert_eq!(code, 403, "{answer}");
    }
    let labels = json!({"of": "y"});
    let change =
        json!({"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}});
    let (code, answer) = server.admin("PATCH", &format!("{SETS}/x"), &change).await;
    assert_eq!(code, 403, "{answer}");
    let (code, answer) = server.admin("PATCH", &of_a, &json!({"metadata": {"labels": {"new": "z"}}})).await;
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test]
async fn flavors_count_by_name_and_an_unknown_id_is_refused() {
    let server = start(&json!({"capstan.dev/servers.large": "1", "capstan.dev/servers.7": "1"})).await;
    let of = |path: &str, name: &str, flavor: Value| {
        let (version, kind) = match path {
            SERVERS => ("v1alpha1", "OpenStackServer"),
            _ => ("v1beta1", "OpenStackMachine"),
        };
        let mut object = json!({"apiVersion": format!("infrastructure.cluster.x-k8s.io/{version}"), "kind": kind,
            "metadata": {"name": name}, "spec": {"identityRef": {"name": "a", "cloudName": "b"},
                "image": {"filter": {"name": "i"}}, "ports": [{}], "sshKeyName": ""}});
        object["spec"].as_object_mut().unwrap().extend(flavor.as_object().unwrap().clone());
        object
    };
    let large = json!({"flavor": "large"});
    create(&server, OPENSTACK_MACHINES, &of(OPENSTACK_MACHINES, "a", large.clone()), 201).await;
    create(&server, OPENSTACK_MACHINES, &of(OPENSTACK_MACHINES, "b", large.clone()), 403).await;
    create(&server, SERVERS, &of(SERVERS, "b", large), 403).await;
    for path in [OPENSTACK_MACHINES, SERVERS] {
        let refused = create(&server, path, &of(path, "c", json!({"flavorID": "5f0c"})), 403).await;
        assert!(refused["message"].as_str().unwrap().contains("add capstan.dev/servers.5f0c"), "{refused}");
    }
    create(&server, SERVERS, &of(SERVERS, "d", json!({"flavorID": "7"})), 201).await;
    create(&server, SERVERS, &of(SERVERS, "e", json!({"flavorID": "7", "flavor": "small"})), 403).await;
}

#[tokio::test]
async fn only_objects_that_count_make_a_new_count_necessary() {
    let server = start(&json!({"capstan.dev/machines": "5"})).await;
    let names = BTreeSet::from(["capstan.dev/machines".to_owned()]);
    let before = server.objects().quota_changes(&names);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {}});
    let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    create(&server, leases, &lease, 201).await;
    // A consistent read: the cache shows the Lease.
    assert_eq!(server.admin("GET", leases, &Value::Null).await.0, 200);
    assert_eq!(server.objects().quota_changes(&names), before);
    create(&server, MACHINES, &machine("a"), 201).await;
    assert_eq!(server.admin("GET", MACHINES, &Value::Null).await.0, 200);
    assert_ne!(server.objects().quota_changes(&names), before);
}
