//! Steps in which Machines are deleted: the remediation of a lost Node, and the deletion of the cluster.
//!
//! Both recordings were made while Nova deleted servers, so the replay delays that call.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;
use tests_hollow_cluster::HollowClusters;
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault};
use tests_scenarios::World;

use super::differences::Comparison;
use super::stage::Stage;
use super::{compare, find, recorded};

/// Delay of the deletion of a server. The objects come to rest before its end. Unit: milliseconds.
const DELAY: u64 = 12_000;

fn delay_deletions(world: &World) {
    world.cloud.inject(InjectedFault {
        service: Some(CloudService::Compute),
        method: Some("DELETE".to_owned()),
        path: Some("/servers/".to_owned()),
        ..InjectedFault::new(FaultEffect::Delay { milliseconds: DELAY })
    });
}

/// Kills a worker and replaces it. Health checks of Machines have no controller yet, so the user deletes the Machine.
pub(super) async fn remediate(
    world: &World,
    hollow: &HollowClusters,
    stage: &Stage,
    comparison: &mut Comparison,
    folder: &Path,
) {
    let objects = recorded(folder, "7-remediating");
    let made = find(&objects, "MachineHealthCheck", "capo-without-lb-mhc");
    let health_check = json!({"apiVersion": made["apiVersion"], "kind": made["kind"],
        "metadata": {"name": made["metadata"]["name"]}, "spec": made["spec"]});
    world.apply(stage.namespace(), &[health_check]).await.unwrap();
    let worker = stage.worker().await;
    hollow.kubelet_dead(&worker, true);
    stage.until_unhealthy(&worker).await;
    delay_deletions(world);
    stage.delete_machine(&worker).await;
    let rest = stage.rest(3, "Deleting", 1).await;
    compare(comparison, folder, "7-remediating", &rest);
    world.cloud.clear_faults();
    let rest = stage.rest(3, "Running", 3).await;
    compare(comparison, folder, "8-remediated", &rest);
}

/// Deletes the cluster.
pub(super) async fn delete(world: &World, stage: &Stage, comparison: &mut Comparison, folder: &Path) {
    delay_deletions(world);
    stage.begin_to_delete().await;
    let rest = stage.rest(3, "Deleting", 2).await;
    compare(comparison, folder, "9-deleting", &rest);
    world.cloud.clear_faults();
    stage.until_gone().await;
    let left: BTreeSet<String> = stage.names().await;
    assert!(left.is_empty(), "objects are left: {left:?}");
}
