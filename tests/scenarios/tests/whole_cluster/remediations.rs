//! Remediation of a control plane: unhealthy Machines are replaced, one at a time, and only if etcd stands it. The tests
//! play the health check.

use std::collections::BTreeSet;

use apiserver_types::{Condition, ConditionStatus, Time, set_condition};
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_hollow_cluster::BootStep;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::rollouts::Scene;

/// Annotation of a Machine that replaced another one.
const REPLACES: &str = "controlplane.cluster.x-k8s.io/remediation-for";

/// Says that a Machine is unhealthy, as a health check does.
pub(crate) async fn mark(scene: &Scene, name: &str) {
    let api = scene.machine_api();
    loop {
        let machine = api.get(name).await.unwrap();
        let mut conditions = machine.status.clone().unwrap_or_default().conditions.unwrap_or_default();
        for (kind, reason) in
            [("HealthCheckSucceeded", "UnhealthyNode"), ("OwnerRemediated", "WaitingForRemediation")]
        {
            let now = Time(jiff::Timestamp::now().to_string());
            set_condition(&mut conditions, Condition::new(kind, ConditionStatus::False, reason, "", now));
        }
        let change = json!({"metadata": {"resourceVersion": machine.resource_version()},
            "status": {"conditions": conditions}});
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(&change)).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            result => return drop(result.unwrap()),
        }
    }
}

/// Waits until exactly one other Machine than these exists, and its server has failed to boot. Returns its name.
pub(crate) async fn until_failed(scene: &Scene, before: &BTreeSet<String>) -> String {
    let mut looks = Looks::begin();
    loop {
        let names = scene.names().await;
        let new: Vec<&String> = names.difference(before).collect();
        if let [name] = new.as_slice()
            && scene.hollow.boot_error(name).is_some()
        {
            return (*name).clone();
        }
        looks.again(&format!("a Machine that does not boot: {names:?}")).await;
    }
}

/// Waits until the condition `OwnerRemediated` of a Machine has this reason. Returns its message.
async fn until_reason(scene: &Scene, name: &str, reason: &str) -> String {
    let mut looks = Looks::begin();
    loop {
        let machine = scene.machine_api().get(name).await.unwrap();
        let found = machine.condition("OwnerRemediated").cloned();
        if let Some(found) = found.as_ref().filter(|it| it.reason == reason) {
            return found.message.clone();
        }
        looks.again(&format!("OwnerRemediated {reason}: {found:?}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_a_first_machine_that_never_boots_is_replaced_until_the_limit_of_retries() {
    let limited = |documents: String| {
        let version = "version: v1.33.0\n  kubeadmConfigSpec";
        documents.replace(version, &format!("remediation: {{maxRetry: 1}}\n  {version}"))
    };
    let scene = Scene::create("first", 1, limited).await;
    scene.hollow.boot_failure("blue-control-plane", BootStep::Preflight);
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    let mut failed = Vec::new();
    for _ in 0..3 {
        let name = until_failed(&scene, &failed.iter().cloned().collect()).await;
        mark(&scene, &name).await;
        failed.push(name);
    }
    let last = failed[2].as_str();
    let message = until_reason(&scene, last, "CannotBeRemediated").await;
    assert!(message.contains("maxRetry is 1") && message.contains(&failed[1]), "{message}");
    let control_plane = scene.control_plane().await;
    let remediation = control_plane.status.clone().unwrap().last_remediation.unwrap();
    assert_eq!((remediation.machine.as_str(), remediation.retry_count), (failed[1].as_str(), 1));
    let mut looks = Looks::begin();
    while !scene
        .control_plane()
        .await
        .condition("Remediating")
        .is_some_and(|it| it.message.contains("maxRetry"))
    {
        looks.again("the message of Remediating").await;
    }
    let record = scene.machine_api().get(last).await.unwrap().annotations()[REPLACES].clone();
    assert!(record.contains(&failed[1]) && record.contains("\"retryCount\":1"), "{record}");
    assert!(scene.reasons().await.contains("SuccessfulRemediation"));

    // A person repairs the cause, and deletes the Machine.
    scene.hollow.clear_boot_failures();
    scene.machine_api().delete(last, &DeleteParams::default()).await.unwrap();
    scene.observer.until_deleted(Some(last)).await;
    scene.observer.until_available(1, 1).await;
    term.cancel();
    running.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_two_of_five_machines_are_lost_and_replaced_one_after_the_other() {
    let scene = Scene::create("healed", 5, |it| {
        it.replace("apiServer: {}", "apiServer: {managedLoadBalancer: {enabled: true}}")
    })
    .await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    scene.observer.until_available(5, 1).await;
    let endpoint = scene.hollow.endpoints()[0];
    let lost: Vec<String> = scene.names().await.into_iter().take(2).collect();
    for name in &lost {
        let machine = scene.machine_api().get(name).await.unwrap();
        let node = machine.status.unwrap().node_ref.unwrap().name;
        scene.hollow.kubelet_dead(name, true);
        assert!(scene.hollow.etcd_member_lost(endpoint, &node));
    }
    for name in &lost {
        mark(&scene, name).await;
    }
    let healed = async {
        for name in &lost {
            scene.observer.until_deleted(Some(name)).await;
        }
        scene.observer.until_available(5, 1).await;
        scene.observer.until_nodes_are_ready(6).await;
    };
    scene.guarded(4..=5, healed).await;
    let replaced: BTreeSet<String> =
        scene.machines().await.iter().filter_map(|it| it.annotations().get(REPLACES).cloned()).collect();
    assert_eq!(replaced.len(), 2, "each replacement has its record: {replaced:?}");
    let control_plane = scene.control_plane().await;
    let left = "controlplane.cluster.x-k8s.io/remediation-in-progress";
    assert!(!control_plane.annotations().contains_key(left));
    assert_eq!(control_plane.condition("Remediating").unwrap().reason, "NotRemediating");
    term.cancel();
    running.join_all().await;
}
