use apiserver_types::{
    Condition, ConditionStatus, MachineHealthCheckSpec, MachineHealthCheckStatus, MachineSpec, Time,
    set_condition,
};
use serde_json::{Value, json};

use super::*;
use crate::CLUSTER_NAME_LABEL;
use crate::api_in_memory::FakeApi;

/// Path of the objects of a namespace.
const BASE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns";

fn marked() -> Machine {
    let mut machine = Machine::new("m", MachineSpec::default());
    machine.metadata.labels = Some([(CLUSTER_NAME_LABEL.to_owned(), "blue".to_owned())].into());
    let conditions = machine.status.get_or_insert_default().conditions.get_or_insert_default();
    for kind in [HEALTH, OWNER, "Ready"] {
        set_condition(
            conditions,
            Condition::new(kind, ConditionStatus::False, "Reason", "", Time::default()),
        );
    }
    machine
}

/// Returns a health check that has last looked at the Machine.
fn check(uid: &str) -> MachineHealthCheck {
    let spec = MachineHealthCheckSpec { cluster_name: "blue".to_owned(), ..Default::default() };
    let mut check = MachineHealthCheck::new("check", spec);
    check.spec.selector.match_labels = Some([(CLUSTER_NAME_LABEL.to_owned(), "blue".to_owned())].into());
    check.metadata.namespace = Some("ns".to_owned());
    check.metadata.uid = Some(uid.to_owned());
    let targets = Some(vec!["m".to_owned(), "gone".to_owned()]);
    check.status = Some(MachineHealthCheckStatus { targets, ..Default::default() });
    check
}

/// Releases the Machine, and returns the types of the conditions that it has afterwards.
async fn after(machine: &Machine, others: &[MachineHealthCheck], targets: &[String]) -> Vec<String> {
    let api = FakeApi::default();
    api.put(&format!("{BASE}/machinehealthchecks"), json!({"items": others}));
    api.put(&format!("{BASE}/machines/m"), json!(machine));
    let context = api.context("machinehealthcheck-controller");
    release(&context, &check("one"), &Cluster::default(), targets).await.unwrap();
    let machine = api.get(&format!("{BASE}/machines/m")).unwrap();
    let conditions = machine["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().filter_map(|it| it["type"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn a_machine_that_is_no_target_any_more_loses_its_marks() {
    assert_eq!(after(&marked(), &[], &[]).await, ["Ready"]);
}

#[tokio::test]
async fn marks_stay_on_targets_and_on_machines_that_others_decide_about() {
    let all = [HEALTH, OWNER, "Ready"];
    assert_eq!(after(&marked(), &[], &["m".to_owned()]).await, all, "it is a target");
    assert_eq!(after(&marked(), &[check("two")], &[]).await, all, "it is one of another check");
    assert_eq!(after(&marked(), &[check("one")], &[]).await, ["Ready"], "the check itself");
    let mut paused = marked();
    paused.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
    assert_eq!(after(&paused, &[], &[]).await, all, "it is paused");
    let mut going: Value = json!(marked());
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(after(&serde_json::from_value(going).unwrap(), &[], &[]).await, all, "it is being deleted");
}
