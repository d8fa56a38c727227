//! Steps in which Machines are deleted: the remediation of a lost Node, and the deletion of the cluster.
//!
//! Both recordings were made while Nova deleted servers, so the replay delays that call until the comparison.

use serde_json::json;
use tests_openstack_simulator::{CloudService, FaultEffect, InjectedFault};
use tests_scenarios::World;

use super::stage::Machines;
use super::{Replay, find};

/// Longest delay of the deletion of a server. It is shorter than the time limit of a call. Unit: milliseconds.
const DELAY: u64 = 50_000;

fn delay_deletions(world: &World) {
    world.cloud.inject(InjectedFault {
        service: Some(CloudService::Compute),
        method: Some("DELETE".to_owned()),
        path: Some("/servers/".to_owned()),
        ..InjectedFault::new(FaultEffect::Delay { milliseconds: DELAY })
    });
}

/// Kills the kubelet of a worker, which its health check replaces.
pub(super) async fn remediate(replay: &mut Replay<'_>) {
    let objects = replay.recorded("7-remediating");
    let made = find(&objects, "MachineHealthCheck", "capo-without-lb-mhc");
    let health_check = json!({"apiVersion": made["apiVersion"], "kind": made["kind"],
        "metadata": {"name": made["metadata"]["name"]}, "spec": made["spec"]});
    replay.world.apply(replay.stage.namespace(), &[health_check]).await.unwrap();
    let worker = replay.stage.worker().await;
    delay_deletions(replay.world);
    replay.hollow.kubelet_dead(&worker, true);
    replay.compare("7-remediating", Machines(3, "Deleting", 1)).await;
    replay.world.cloud.clear_faults();
    replay.compare("8-remediated", Machines(3, "Running", 3)).await;
}

/// Deletes the cluster.
pub(super) async fn delete(replay: &mut Replay<'_>) {
    delay_deletions(replay.world);
    replay.stage.begin_to_delete().await;
    replay.compare("9-deleting", Machines(3, "Deleting", 2)).await;
    replay.world.cloud.clear_faults();
    replay.stage.until_gone().await;
}
