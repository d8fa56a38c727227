//! Tests of actions on Machines, by POST and by declared MachineOperation, over HTTP.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use serde_json::{Value, json};
use server::Server;

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines";
const REBOOT: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m1/reboot";
const UPGRADE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m1/upgrade";
const OPERATIONS: &str = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations";

fn machine() -> Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "m1", "finalizers": ["a/b"]},
        "spec": {"clusterName": "c", "version": "v1.30.2", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine",
                "name": "m1"}}})
}

async fn start() -> Server {
    let server = Server::start().await;
    let (code, answer) = server.admin("POST", MACHINES, &machine()).await;
    assert_eq!(code, 201, "{answer}");
    server
}

async fn count(server: &Server) -> usize {
    let (code, list) = server.admin("GET", OPERATIONS, &Value::Null).await;
    assert_eq!(code, 200);
    list["items"].as_array().unwrap().len()
}

/// Returns the spec of an operation without the audit id of the request, which it must have.
fn without_audit_id(operation: &Value) -> Value {
    let mut spec = operation["spec"].clone();
    let id = spec["requestedBy"].as_object_mut().unwrap().remove("auditID").unwrap();
    assert_eq!(id.as_str().unwrap().len(), 36, "{operation}");
    spec
}

/// Completes all operations.
async fn finish(server: &Server) {
    let (_, list) = server.admin("GET", OPERATIONS, &Value::Null).await;
    for operation in list["items"].as_array().unwrap() {
        let path = format!("{OPERATIONS}/{}/status", operation["metadata"]["name"].as_str().unwrap());
        let (code, answer) = server.admin("PATCH", &path, &json!({"status": {"phase": "Complete"}})).await;
        assert_eq!(code, 200, "{answer}");
    }
}

#[tokio::test]
async fn a_reboot_creates_a_complete_operation() {
    let server = start().await;
    let (code, answer) = server.with(&["create machines/reboot"], "POST", REBOOT, &Value::Null).await;
    assert_eq!(code, 201, "{answer}");
    assert_eq!(answer["kind"], "MachineOperation");
    let name = answer["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("m1-reboot-") && name.len() == "m1-reboot-".len() + 5, "{name}");
    let (_, machine) = server.admin("GET", &format!("{MACHINES}/m1"), &Value::Null).await;
    let owner = json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": "m1",
        "uid": machine["metadata"]["uid"]}]);
    assert_eq!(answer["metadata"]["ownerReferences"], owner);
    assert_eq!(answer["metadata"]["labels"], json!({"capstan.dev/machine": "m1"}));
    let spec = json!({"action": "Reboot", "machineName": "m1", "reboot": {"type": "Soft", "softTimeoutSeconds": 120},
        "requestedBy": {"username": "bob", "groups": ["create machines/reboot", "system:authenticated"]}});
    assert_eq!(without_audit_id(&answer), spec);
    let (code, stored) = server.admin("GET", &format!("{OPERATIONS}/{name}"), &Value::Null).await;
    assert_eq!((code, stored), (200, answer));
}

#[tokio::test]
async fn only_one_of_many_concurrent_requests_creates_an_operation() {
    let server = start().await;
    let calls: Vec<_> = (0..20)
        .map(|index| {
            let server = server.clone();
            let (path, body) = if index % 2 == 0 {
                (REBOOT, json!({"type": "Hard"}))
            } else {
                (UPGRADE, json!({"version": "v1.31.0"}))
            };
            tokio::spawn(async move { server.admin("POST", path, &body).await })
        })
        .collect();
    let mut made = Vec::new();
    let mut refused = Vec::new();
    for call in calls {
        match call.await.unwrap() {
            (201, answer) => made.push(answer),
            (409, answer) => refused.push(answer["message"].as_str().unwrap().to_owned()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((made.len(), refused.len(), count(&server).await), (1, 19, 1));
    let expected = format!(
        "Operation cannot be fulfilled on machines.cluster.x-k8s.io \"m1\": machineoperation \"{}\" is not finished",
        made[0]["metadata"]["name"].as_str().unwrap()
    );
    assert!(refused.iter().all(|message| *message == expected), "{refused:?}");
    finish(&server).await;
    assert_eq!(server.admin("POST", REBOOT, &Value::Null).await.0, 201);
}

#[tokio::test]
async fn an_idempotency_key_returns_the_first_operation_and_refuses_other_parameters() {
    let server = start().await;
    let body = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "MachineReboot", "idempotencyKey": "k"});
    let calls: Vec<_> = (0..10)
        .map(|_| {
            let (server, body) = (server.clone(), body.clone());
            tokio::spawn(async move { server.admin("POST", REBOOT, &body).await })
        })
        .collect();
    let mut codes = Vec::new();
    for call in calls {
        codes.push(call.await.unwrap().0);
    }
    codes.sort_unstable();
    assert_eq!(codes, [[200; 9].as_slice(), &[201]].concat());
    finish(&server).await;
    // The operation is long complete, and the Machine is being deleted. The response to the request is still the
    // operation.
    server.admin("DELETE", &format!("{MACHINES}/m1"), &Value::Null).await;
    assert_eq!(server.admin("POST", REBOOT, &body).await.0, 200);
    for (path, other) in [
        (REBOOT, json!({"idempotencyKey": "k", "type": "Hard"})),
        (UPGRADE, json!({"idempotencyKey": "k", "version": "v1.31.0"})),
    ] {
        let (code, answer) = server.admin("POST", path, &other).await;
        assert_eq!(code, 409, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains("idempotencyKey \"k\" was used"), "{answer}");
    }
    assert_eq!(count(&server).await, 1);
}

#[tokio::test]
async fn a_dry_run_returns_the_plan_and_changes_nothing() {
    let server = start().await;
    let (code, plan) =
        server.admin("POST", &format!("{UPGRADE}?dryRun=All"), &json!({"version": "v1.31.0"})).await;
    assert_eq!((code, &plan["spec"]["upgrade"]["strategy"]), (201, &json!("Auto")), "{plan}");
    assert_eq!(count(&server).await, 0);
    assert_eq!(server.admin("POST", &format!("{UPGRADE}?dryRun=All"), &json!({"version": "x"})).await.0, 422);
}

#[tokio::test]
async fn invalid_actions_are_refused_with_the_reason() {
    let server = start().await;
    let path = format!("{MACHINES}/m1");
    let mut foreign = machine();
    foreign["metadata"]["name"] = json!("m2");
    foreign["spec"]["infrastructureRef"]["kind"] = json!("DockerMachine");
    assert_eq!(server.admin("POST", MACHINES, &foreign).await.0, 201);
    let table = [
        ("m1/upgrade", json!({}), 422, "version"),
        ("m1/upgrade", json!({"version": "1.31"}), 422, "version"),
        ("m1/upgrade", json!({"version": "v1.30.1"}), 422, "version"),
        ("m1/upgrade", json!({"version": "v1.32.0"}), 422, "version"),
        ("m1/upgrade", json!({"version": "v1.31.0", "strategy": "Never"}), 422, "strategy"),
        ("m1/reboot", json!({"softTimeoutSeconds": 0}), 422, "softTimeoutSeconds"),
        ("m1/drain", json!({"timeoutSeconds": 59}), 422, "timeoutSeconds"),
        ("m1/uncordon", json!({"kind": "MachineCordon"}), 400, ""),
        ("m2/reboot", json!({}), 422, "spec.infrastructureRef.kind"),
        ("m1/reboot", json!({"hard": true}), 400, ""),
        ("m1/reboot", json!({"kind": "MachineUpgrade"}), 400, ""),
        ("nobody/reboot", json!({}), 404, ""),
    ];
    for (subresource, body, expected, field) in table {
        let (code, answer) = server.admin("POST", &format!("{MACHINES}/{subresource}"), &body).await;
        assert_eq!(code, expected, "{subresource} {body}: {answer}");
        assert_eq!(answer["details"]["causes"][0]["field"].as_str().unwrap_or_default(), field, "{answer}");
    }
    let (_, missing) = server.admin("POST", &format!("{MACHINES}/nobody/reboot"), &json!({})).await;
    assert_eq!(missing["message"], "machines.cluster.x-k8s.io \"nobody\" not found");
    let (code, answer) = server.admin("GET", REBOOT, &Value::Null).await;
    assert_eq!((code, &answer["reason"]), (405, &json!("MethodNotAllowed")));
    let pause = |value: Value| json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": value}}});
    server.admin("PATCH", &path, &pause(json!(""))).await;
    assert_eq!(server.admin("POST", REBOOT, &Value::Null).await.0, 409);
    server.admin("PATCH", &path, &pause(Value::Null)).await;
    let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
        "spec": {"paused": true}});
    let clusters = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters";
    assert_eq!(server.admin("POST", clusters, &cluster).await.0, 201);
    let (code, answer) = server.admin("POST", REBOOT, &Value::Null).await;
    assert_eq!(code, 409, "{answer}");
    assert!(answer["message"].as_str().unwrap().ends_with("its cluster \"c\" is paused (spec.paused)"));
    server.admin("DELETE", &format!("{clusters}/c"), &Value::Null).await;
    server.admin("DELETE", &path, &Value::Null).await;
    let (code, answer) = server.admin("POST", REBOOT, &Value::Null).await;
    assert_eq!(code, 409, "{answer}");
    assert!(answer["message"].as_str().unwrap().ends_with("is being deleted"), "{answer}");
    assert_eq!(count(&server).await, 0);
}

#[tokio::test]
async fn actions_are_in_discovery_and_openapi() {
    let server = start().await;
    let (_, list) = server.admin("GET", "/apis/cluster.x-k8s.io/v1beta2", &Value::Null).await;
    let names: Vec<&str> =
        list["resources"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"machines/reboot") && names.contains(&"machines/upgrade"), "{names:?}");
    let (_, document) = server.admin("GET", "/openapi/v3/apis/cluster.x-k8s.io/v1beta2", &Value::Null).await;
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines/{name}/upgrade";
    let body =
        &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
    assert_eq!(body, "#/components/schemas/dev.capstan.v1alpha1.MachineUpgrade");
    let schema = &document["components"]["schemas"]["dev.capstan.v1alpha1.MachineUpgrade"];
    assert_eq!(schema["required"], json!(["version"]));
}

#[tokio::test]
async fn the_actions_on_a_node_have_defaults_that_harm_least() {
    let table = [
        ("drain", "Drain", json!({"drain": {"dryRun": false, "force": false, "uncordonOnFailure": true}})),
        ("uncordon", "Uncordon", json!({"uncordon": {"force": false}})),
    ];
    for (subresource, action, mut spec) in table {
        let server = start().await;
        let may = format!("create machines/{subresource}");
        let path = format!("{MACHINES}/m1/{subresource}");
        let (code, made) = server.with(&[may.as_str()], "POST", &path, &Value::Null).await;
        spec["action"] = json!(action);
        spec["machineName"] = json!("m1");
        spec["requestedBy"] = json!({"username": "bob", "groups": [may, "system:authenticated"]});
        assert_eq!((code, without_audit_id(&made)), (201, spec), "{made}");
    }
}

/// Subresource, value of `spec.action`, and kind of the body of each action without parameters.
const WITHOUT_PARAMETERS: &[(&str, &str, &str)] = &[
    ("poweroff", "PowerOff", "MachinePowerOff"),
    ("poweron", "PowerOn", "MachinePowerOn"),
    ("retire", "Retire", "MachineRetire"),
    ("cordon", "Cordon", "MachineCordon"),
];

#[tokio::test]
async fn an_action_without_parameters_takes_the_common_fields_only() {
    for (subresource, action, kind) in WITHOUT_PARAMETERS {
        let server = start().await;
        let path = format!("{MACHINES}/m1/{subresource}");
        for wrong in [json!({"type": "Hard"}), json!({"kind": "MachineReboot"})] {
            assert_eq!(server.admin("POST", &path, &wrong).await.0, 400, "{wrong}");
        }
        let (code, plan) = server.admin("POST", &format!("{path}?dryRun=All"), &Value::Null).await;
        assert_eq!((code, &plan["spec"]["action"]), (201, &json!(action)), "{plan}");
        assert_eq!(count(&server).await, 0);
        let body = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": kind, "idempotencyKey": "k"});
        let may = [format!("create machines/{subresource}")];
        let may: Vec<&str> = may.iter().map(String::as_str).collect();
        let (code, made) = server.with(&may, "POST", &path, &body).await;
        let spec = json!({"action": action, "machineName": "m1", "idempotencyKey": "k",
            "requestedBy": {"username": "bob", "groups": [may[0], "system:authenticated"]}});
        assert_eq!((code, without_audit_id(&made)), (201, spec), "{made}");
        let name = made["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("m1-{subresource}-")), "{name}");
        let (code, again) = server.admin("POST", &path, &body).await;
        assert_eq!((code, &again["metadata"]["uid"]), (200, &made["metadata"]["uid"]), "{again}");
        let (code, other) = server.admin("POST", REBOOT, &json!({"idempotencyKey": "k"})).await;
        assert_eq!((code, &other["reason"]), (409, &json!("Conflict")), "{other}");
        assert_eq!(server.with(&["create machines/reboot"], "POST", &path, &body).await.0, 403);
    }
}

#[tokio::test]
async fn an_operation_without_parameters_needs_only_the_permission_for_its_action() {
    for (subresource, action, kind) in WITHOUT_PARAMETERS {
        let server = start().await;
        let operation = |name: &str, extra: Value| {
            let mut spec = json!({"machineName": "m1", "action": action});
            spec.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "MachineOperation", "metadata": {"name": name},
                "spec": spec})
        };
        let declared = operation("o1", json!({}));
        let reboot = ["create machineoperations", "create machines/reboot"];
        assert_eq!(server.with(&reboot, "POST", OPERATIONS, &declared).await.0, 403);
        let own = format!("create machines/{subresource}");
        let may = ["create machineoperations", own.as_str()];
        let (code, made) = server.with(&may, "POST", OPERATIONS, &declared).await;
        assert_eq!((code, &made["spec"]["requestedBy"]["username"]), (201, &json!("bob")), "{made}");
        let foreign = operation("o2", json!({"reboot": {}}));
        let (code, answer) = server.with(&may, "POST", OPERATIONS, &foreign).await;
        assert_eq!(code, 422, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains("only for action Reboot"), "{answer}");
        let (_, list) = server.admin("GET", "/apis/cluster.x-k8s.io/v1beta2", &Value::Null).await;
        let name = json!(format!("machines/{subresource}"));
        let entry = list["resources"].as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap();
        assert_eq!((&entry["kind"], &entry["group"]), (&json!(kind), &json!("capstan.dev")), "{entry}");
    }
}

#[tokio::test]
async fn creating_an_operation_needs_the_permission_for_the_action_and_records_the_user() {
    let server = start().await;
    let operation = json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "MachineOperation",
        "metadata": {"name": "o1"}, "spec": {"machineName": "m1", "action": "Reboot",
            "requestedBy": {"username": "alice", "groups": ["system:masters"], "auditID": "forged"}}});
    let may = ["create machineoperations", "create machines/upgrade"];
    let (code, answer) = server.with(&may, "POST", OPERATIONS, &operation).await;
    assert_eq!(code, 403, "{answer}");
    assert_eq!(
        answer["message"],
        "machines.cluster.x-k8s.io \"m1\" is forbidden: User \"bob\" cannot create resource \"machines/reboot\" \
         in API group \"cluster.x-k8s.io\" in the namespace \"ns\""
    );
    assert_eq!(server.with(&["create machines/reboot"], "POST", REBOOT, &Value::Null).await.0, 201);
    assert_eq!(server.with(&["create machines/upgrade"], "POST", REBOOT, &Value::Null).await.0, 403);
    let may = ["create machineoperations", "create machines/reboot", "update machineoperations"];
    let (code, made) = server.with(&may, "POST", OPERATIONS, &operation).await;
    assert_eq!((code, &made["spec"]["requestedBy"]["username"]), (201, &json!("bob")), "{made}");
    without_audit_id(&made);
    let mut forged = made.clone();
    forged["spec"]["requestedBy"] = json!({"username": "alice"});
    let (code, kept) = server.with(&may, "PUT", &format!("{OPERATIONS}/o1"), &forged).await;
    assert_eq!((code, &kept["spec"]), (200, &made["spec"]), "{kept}");
    for (spec, expected) in [(json!({"machineName": "m1", "action": "Explode"}), 422), (json!("text"), 422)] {
        let mut bad = operation.clone();
        bad["spec"] = spec;
        let (code, answer) = server.with(&may, "POST", OPERATIONS, &bad).await;
        assert_eq!(code, expected, "{answer}");
    }
}
