//! Machines that a user or a time-out makes unhealthy, without a workload cluster.

use std::time::Duration;

use std::sync::Arc;

use apiserver_types::{ConditionStatus, Machine, MachineHealthCheck};
use serde_json::{Value, json};
use tests_scenarios::CrashPoint;

use crate::testbed::Bed;

/// Annotation of a Machine that a user wants to be replaced.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

/// Annotation of a Machine that no health check looks at.
const SKIP: &str = "cluster.x-k8s.io/skip-remediation";

/// Annotation of a health check with its verdicts.
const VERDICTS: &str = "capstan.dev/health-check-verdicts";

fn spec(limit: &Value) -> Value {
    json!({
        "clusterName": "c", "selector": {"matchLabels": {"team": "a"}},
        "checks": {"nodeStartupTimeoutSeconds": 600},
        "remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": limit}},
    })
}

fn reason<'a>(check: &'a MachineHealthCheck, kind: &str) -> &'a str {
    check.condition(kind).map(|it| it.reason.as_str()).unwrap_or_default()
}

#[tokio::test]
async fn a_machine_that_a_user_wants_to_be_replaced_is_replaced_by_its_set() {
    let bed = Bed::start("annotation", "role", &spec(&json!("100%"))).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let before = bed.names().await;
    bed.annotate(&before[0], REMEDIATE, json!("")).await;
    controllers.round_of_health_checks().await.unwrap();
    let marked = bed.api::<Machine>().get(&before[0]).await.unwrap();
    let health = marked.condition("HealthCheckSucceeded").unwrap();
    assert_eq!((health.status, health.reason.as_str()), (ConditionStatus::False, "HasRemediateAnnotation"));
    assert_eq!(marked.condition("OwnerRemediated").unwrap().reason, "WaitingForRemediation");
    bed.rounds(&controllers).await;
    let after = bed.names().await;
    assert_eq!(after.len(), 2);
    assert!(!after.contains(&before[0]) && after.contains(&before[1]), "{before:?} {after:?}");
    let events = bed.events("MachineMarkedUnhealthy").await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert!(events[0].ends_with("x1"), "an Event only on a change: {events:#?}");
    let check = bed.check().await;
    let status = check.status.clone().unwrap();
    assert_eq!((status.expected_machines, status.current_healthy), (Some(2), Some(0)), "none has a Node");
    assert_eq!(status.targets, Some(after));
    assert_eq!(status.observed_generation, check.metadata.generation);
    assert_eq!(check.metadata.owner_references.unwrap()[0].kind, "Cluster");
}

#[tokio::test]
async fn nothing_is_replaced_while_too_many_machines_are_unhealthy() {
    let bed = Bed::start("too-many", "role", &spec(&json!(1))).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let before = bed.names().await;
    for machine in &before {
        bed.annotate(machine, REMEDIATE, json!("")).await;
    }
    bed.rounds(&controllers).await;
    assert_eq!(bed.names().await, before);
    let machines = bed.list::<Machine>().await;
    for machine in &machines {
        assert_eq!(machine.condition("HealthCheckSucceeded").unwrap().status, ConditionStatus::False);
        assert!(machine.condition("OwnerRemediated").is_none());
    }
    let check = bed.check().await;
    assert_eq!(reason(&check, "RemediationAllowed"), "TooManyUnhealthy");
    let message = &check.condition("RemediationAllowed").unwrap().message;
    assert!(message.contains("of 2 Machines, 0 are healthy, 2 are unhealthy"), "{message}");
    assert_eq!(check.status.clone().unwrap().remediations_allowed, Some(0));
    let old = json!(check.status.clone().unwrap())["deprecated"]["v1beta1"]["conditions"][0].clone();
    assert_eq!((&old["type"], &old["reason"]), (&json!("RemediationAllowed"), &json!("TooManyUnhealthy")));
    let events = bed.events("RemediationRestricted").await;
    assert_eq!(events.len(), 1, "{events:#?}");
    assert!(events[0].ends_with("x1"), "{events:#?}");
    // A higher limit ends the short circuit.
    bed.change_check(json!({"spec": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": 2}}}}))
        .await;
    bed.rounds(&controllers).await;
    let after = bed.names().await;
    assert!(after.len() == 2 && before.iter().all(|name| !after.contains(name)), "{before:?} {after:?}");
}

#[tokio::test]
async fn a_machine_with_the_skip_annotation_is_no_target() {
    let bed = Bed::start("skip", "role", &spec(&json!("100%"))).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let names = bed.names().await;
    bed.annotate(&names[0], SKIP, json!("")).await;
    bed.annotate(&names[0], REMEDIATE, json!("")).await;
    bed.rounds(&controllers).await;
    assert_eq!(bed.names().await, names);
    assert!(bed.list::<Machine>().await[0].condition("HealthCheckSucceeded").is_none());
    assert_eq!(bed.check().await.status.unwrap().targets, Some(vec![names[1].clone()]));
    bed.annotate(&names[0], SKIP, Value::Null).await;
    bed.rounds(&controllers).await;
    assert!(!bed.names().await.contains(&names[0]));
}

#[tokio::test]
async fn a_marked_machine_that_gets_the_skip_annotation_loses_its_marks() {
    let bed = Bed::start("released", "role", &spec(&json!(1))).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let names = bed.names().await;
    for name in &names {
        bed.annotate(name, REMEDIATE, json!("")).await;
    }
    bed.rounds(&controllers).await;
    assert_eq!(bed.names().await, names, "too many are unhealthy");
    bed.annotate(&names[0], SKIP, json!("")).await;
    bed.rounds(&controllers).await;
    let released = bed.api::<Machine>().get(&names[0]).await.unwrap();
    assert!(released.condition("HealthCheckSucceeded").is_none(), "{:#?}", released.status);
    assert!(!bed.names().await.contains(&names[1]), "one unhealthy Machine is allowed");
}

#[tokio::test]
async fn a_paused_health_check_does_nothing() {
    let bed = Bed::start("paused", "role", &spec(&json!("100%"))).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let names = bed.names().await;
    bed.change_check(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})).await;
    bed.annotate(&names[0], REMEDIATE, json!("")).await;
    bed.rounds(&controllers).await;
    assert_eq!(bed.names().await, names);
    let check = bed.check().await;
    assert!(check.condition("Paused").unwrap().holds());
    assert_eq!(check.status.unwrap().expected_machines, None);
}

#[tokio::test]
async fn machines_without_a_node_are_replaced_after_the_time_of_a_start_up() {
    let bed = Bed::start("startup", "cluster.x-k8s.io/control-plane", &spec(&json!("100%"))).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let before = bed.names().await;
    bed.world.clock.advance(Duration::from_secs(500));
    bed.rounds(&controllers).await;
    assert_eq!(bed.names().await, before, "they still have time");
    let verdicts: Value =
        serde_json::from_str(&bed.check().await.metadata.annotations.unwrap()[VERDICTS]).unwrap();
    assert_eq!(verdicts["machines"][0]["verdict"], "Pending");
    bed.world.clock.advance(Duration::from_secs(150));
    controllers.round_of_health_checks().await.unwrap();
    for machine in bed.list::<Machine>().await {
        let health = machine.condition("HealthCheckSucceeded").unwrap();
        let expected = "Health check failed:\n  * Node failed to report startup in 10m0s";
        assert_eq!((health.reason.as_str(), health.message.as_str()), ("NodeStartupTimeout", expected));
    }
    bed.round(&controllers).await;
    bed.round(&controllers).await;
    let after = bed.names().await;
    assert!(before.iter().all(|name| !after.contains(name)), "{before:?} {after:?}");
}

#[tokio::test]
async fn a_limit_that_cannot_be_used_is_told_and_nothing_is_marked() {
    let bed = Bed::start("limit", "role", &spec(&json!("100%"))).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let names = bed.names().await;
    let range = json!({"spec": {"remediation": {"triggerIf": {"unhealthyInRange": "[5-3]"}}}});
    bed.change_check(range).await;
    bed.annotate(&names[0], REMEDIATE, json!("")).await;
    bed.rounds(&controllers).await;
    assert_eq!(bed.names().await, names);
    let check = bed.check().await;
    let condition = check.condition("RemediationAllowed").unwrap();
    assert_eq!((condition.status, condition.reason.as_str()), (ConditionStatus::Unknown, "InternalError"));
    assert!(condition.message.contains("spec.remediation.triggerIf.unhealthyInRange"), "{condition:?}");
}
