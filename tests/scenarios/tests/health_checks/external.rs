//! Requests for external remediation. A KubeadmConfig stands for a request here: the server has a template of it, and no
//! controller runs that would do anything with one.

use std::sync::Arc;

use apiserver_types::{ConditionStatus, KubeadmConfig, Machine};
use kube::ResourceExt;
use serde_json::{Value, json};
use tests_scenarios::CrashPoint;

use crate::testbed::Bed;

/// Annotation of a Machine that a user wants to be replaced.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

fn spec(template: &str) -> Value {
    json!({
        "clusterName": "c", "selector": {"matchLabels": {"team": "a"}},
        "remediation": {"templateRef": {
            "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate", "name": template,
        }},
    })
}

fn external(machine: &Machine) -> (ConditionStatus, String) {
    let condition = machine.condition("ExternallyRemediated").unwrap();
    (condition.status, condition.reason.clone())
}

fn old(status: &impl serde::Serialize, kind: &str) -> Value {
    let all = json!(status)["deprecated"]["v1beta1"]["conditions"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["type"] == kind).unwrap_or_default()
}

#[tokio::test]
async fn each_unhealthy_machine_gets_a_request_which_stays_until_it_is_healthy() {
    let bed = Bed::start("external", "role", &spec("join")).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    let names = bed.names().await;
    for machine in &names {
        bed.annotate(machine, REMEDIATE, json!("")).await;
    }
    bed.rounds(&controllers).await;
    assert_eq!(bed.names().await, names, "the owner does nothing");
    for machine in bed.list::<Machine>().await {
        assert_eq!(machine.condition("HealthCheckSucceeded").unwrap().status, ConditionStatus::False);
        assert_eq!(external(&machine), (ConditionStatus::False, "WaitingForRemediation".to_owned()));
        assert!(machine.condition("OwnerRemediated").is_none());
        let request = bed.api::<KubeadmConfig>().get(&machine.name_any()).await.unwrap();
        let owner = &request.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("Machine", None));
        assert_eq!(request.annotations()["cluster.x-k8s.io/cloned-from-name"], "join");
        assert_eq!(request.labels()["cluster.x-k8s.io/cluster-name"], "c");
        assert!(request.spec.join_configuration.is_some(), "the spec of the template");
    }
    let requests: Vec<_> = bed.list::<KubeadmConfig>().await.iter().map(ResourceExt::uid).collect();
    bed.rounds(&controllers).await;
    let again: Vec<_> = bed.list::<KubeadmConfig>().await.iter().map(ResourceExt::uid).collect();
    assert_eq!(again, requests, "they are kept");
    let status = bed.check().await.status.unwrap();
    for kind in ["ExternalRemediationTemplateAvailable", "ExternalRemediationRequestAvailable"] {
        assert_eq!(old(&status, kind)["status"], "True", "{kind}");
    }
}

#[tokio::test]
async fn a_template_that_does_not_exist_is_told_and_all_machines_are_marked() {
    let bed = Bed::start("template", "role", &spec("none")).await;
    let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
    for machine in &bed.names().await {
        bed.annotate(machine, REMEDIATE, json!("")).await;
    }
    bed.rounds(&controllers).await;
    for machine in bed.list::<Machine>().await {
        assert_eq!(machine.condition("HealthCheckSucceeded").unwrap().status, ConditionStatus::False);
        assert_eq!(external(&machine), (ConditionStatus::False, "RemediationTemplateNotFound".to_owned()));
        let message = &machine.condition("ExternallyRemediated").unwrap().message;
        assert!(message.contains("KubeadmConfigTemplate none does not exist; create it"), "{message}");
    }
    let status = bed.check().await.status.unwrap();
    let available = old(&status, "ExternalRemediationTemplateAvailable");
    assert_eq!((&available["status"], &available["severity"]), (&json!("False"), &json!("Error")));
    // The template comes.
    let change = json!({"spec": {"remediation": {"templateRef": {"name": "join"}}}});
    bed.change_check(change).await;
    bed.rounds(&controllers).await;
    assert_eq!(bed.list::<KubeadmConfig>().await.len(), 2);
}
