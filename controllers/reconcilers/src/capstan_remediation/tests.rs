use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::FakeApi;

const REMEDIATION: &str = "/apis/capstan.dev/v1alpha1/namespaces/ns/capstanremediations/m1";
const OPERATIONS: &str = "/apis/capstan.dev/v1alpha1/namespaces/ns/machineoperations";
const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/m1";

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "False", "reason": "UnhealthyNode", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// Stores an unhealthy Machine with a remediation.
fn scene(api: &FakeApi, labels: &Value) {
    let reference =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": "m1"});
    api.put(
        MACHINE,
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "metadata": {"labels": labels},
            "spec": {"clusterName": "blue", "bootstrap": {}, "infrastructureRef": reference},
            "status": {"conditions": [condition("HealthCheckSucceeded")]}}),
    );
    api.put(REMEDIATION, remediation("m1"));
}

fn remediation(name: &str) -> Value {
    let owner = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine", "name": name,
        "uid": format!("uid-{name}")});
    json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "CapstanRemediation",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"steps": [{"action": "Reboot", "attempts": 2, "rebootType": "Hard"}, {"action": "Replace"}]}})
}

async fn pass(api: &FakeApi) {
    let reconciler = CapstanRemediationReconciler { context: api.context("capstanremediation-controller") };
    let object: CapstanRemediation = serde_json::from_value(api.get(REMEDIATION).unwrap()).unwrap();
    reconciler.reconcile(&object).await.unwrap();
}

fn status(api: &FakeApi) -> Value {
    api.get(REMEDIATION).unwrap()["status"].clone()
}

fn operation(attempt: i32) -> String {
    format!("{OPERATIONS}/m1-remediation-uid-1-{attempt}")
}

fn finish(api: &FakeApi, attempt: i32, phase: &str) {
    let path = operation(attempt);
    let mut object = api.get(&path).unwrap();
    object["status"] = json!({"phase": phase, "completionTime": "2020-01-01T00:00:00Z"});
    api.put(&path, object);
}

#[tokio::test]
async fn a_machine_is_rebooted_twice_and_then_marked_for_its_owner() {
    let api = FakeApi::default();
    scene(&api, &json!({}));
    pass(&api).await;
    let made = api.get(&operation(1)).unwrap();
    let spec = json!({"action": "Reboot", "machineName": "m1", "reboot": {"drain": false, "type": "Hard"}});
    assert_eq!(made["spec"], spec);
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "uid-m1");
    assert_eq!((&status(&api)["phase"], &status(&api)["attempt"]), (&json!("Running"), &json!(1)));
    pass(&api).await;
    assert_eq!(status(&api)["phase"], "Running", "the operation is not finished");
    finish(&api, 1, "Complete");
    pass(&api).await;
    assert_eq!((&status(&api)["step"], &status(&api)["attempt"]), (&json!(1), &json!(2)));
    pass(&api).await;
    assert!(api.get(&operation(2)).is_some());
    finish(&api, 2, "Failed");
    pass(&api).await;
    assert_eq!((&status(&api)["step"], &status(&api)["attempt"]), (&json!(2), &json!(1)));
    pass(&api).await;
    let machine: Machine = serde_json::from_value(api.get(MACHINE).unwrap()).unwrap();
    let mark = machine.condition("OwnerRemediated").unwrap();
    assert_eq!((mark.holds(), mark.reason.as_str()), (false, "WaitingForRemediation"));
    pass(&api).await;
    assert_eq!(status(&api)["phase"], "Replacing");
}

#[tokio::test]
async fn an_operation_that_was_deleted_is_not_made_again() {
    let api = FakeApi::default();
    scene(&api, &json!({}));
    pass(&api).await;
    api.remove(&operation(1)).unwrap();
    pass(&api).await;
    assert_eq!(status(&api)["attempt"], 2);
    assert_eq!(api.get(&operation(1)), None);
}

#[tokio::test]
async fn an_operation_whose_report_was_lost_is_named_later_and_not_made_again() {
    let api = FakeApi::default();
    scene(&api, &json!({}));
    let reconciler = CapstanRemediationReconciler { context: api.context("capstanremediation-controller") };
    let object: CapstanRemediation = serde_json::from_value(api.get(REMEDIATION).unwrap()).unwrap();
    api.refuse_writes(Some(&format!("{REMEDIATION}/status")));
    reconciler.reconcile(&object).await.unwrap_err();
    api.refuse_writes(None);
    assert!(api.get(&operation(1)).is_some());
    assert_eq!(status(&api), Value::Null, "the report is lost");
    pass(&api).await;
    assert_eq!(status(&api)["phase"], "Running");
    assert_eq!(status(&api)["operationName"], "m1-remediation-uid-1-1");
    api.remove(&operation(1)).unwrap();
    pass(&api).await;
    assert_eq!((&status(&api)["attempt"], api.get(&operation(1))), (&json!(2), None));
}

#[tokio::test]
async fn a_remediation_that_goes_cancels_its_unfinished_operation() {
    let api = FakeApi::default();
    scene(&api, &json!({}));
    pass(&api).await;
    let mut going = api.get(REMEDIATION).unwrap();
    assert_eq!(going["metadata"]["finalizers"], json!([FINALIZER]));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    api.put(REMEDIATION, going);
    pass(&api).await;
    assert_eq!(api.get(&operation(1)).unwrap()["spec"]["cancelRequested"], true);
    assert_eq!(api.get(REMEDIATION).unwrap()["metadata"]["finalizers"], json!([]));
}

/// Stores a second unhealthy Machine of the control plane. Returns its remediation, which is not stored.
fn second(api: &FakeApi) -> Value {
    let machine = api.get(MACHINE).unwrap();
    api.put(&MACHINE.replace("m1", "m2"), machine);
    let mut remediation = remediation("m2");
    remediation["metadata"]["uid"] = json!("uid2-m2");
    remediation["metadata"]["namespace"] = json!("ns");
    remediation
}

#[tokio::test]
async fn control_plane_machines_are_rebooted_one_after_the_other() {
    let api = FakeApi::default();
    let labels = json!({"cluster.x-k8s.io/control-plane": ""});
    scene(&api, &labels);
    let list = REMEDIATION.trim_end_matches("/m1");
    let other = second(&api);
    api.put(list, json!({"items": [other.clone()]}));
    // The operation of the other Machine is unfinished, and no status says so.
    let made = format!("{OPERATIONS}/m2-remediation-uid2-1-1");
    api.put(
        &made,
        json!({"apiVersion": "capstan.dev/v1alpha1", "kind": "MachineOperation", "metadata": {},
            "spec": {"action": "Reboot", "machineName": "m2"}}),
    );
    pass(&api).await;
    assert_eq!((api.get(&operation(1)), &status(&api)["phase"]), (None, &json!("Pending")));
    api.remove(&made).unwrap();
    let mut running = other;
    running["status"] = json!({"phase": "Running"});
    api.put(list, json!({"items": [running]}));
    pass(&api).await;
    assert_eq!(api.get(&operation(1)), None);
    assert_eq!(status(&api)["phase"], "Pending");
    assert!(
        status(&api)["message"].as_str().unwrap().ends_with("control plane Machine m2"),
        "{}",
        status(&api)
    );
    api.put(list, json!({"items": []}));
    pass(&api).await;
    assert!(api.get(&operation(1)).is_some());
}
