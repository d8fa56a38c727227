//! Scenario of a quota: it ends halfway, and is raised.

use anyhow::Context;
use serde_json::Value;

use super::cluster::Cluster;
use super::nodes::ready;
use crate::e2e::openstack::text;

/// Words for a limit that is reached. Capstan reads the quota before it creates a server, so Nova never refuses one.
const EXCEEDED: &str = "0 left of";

/// Lets a MachineDeployment grow by two when the project has room for one server. The Machine without a server must name
/// the quota and its limit. Its server comes after the limit has been raised, and nothing else is needed.
pub(super) fn raised(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let limit = cluster.openstack.records(&["quota"])?.to_string();
    let result = exhausted(cluster, &limit);
    cluster.openstack.records(&["quota", &limit])?;
    result
}

fn exhausted(cluster: &Cluster<'_>, limit: &str) -> anyhow::Result<()> {
    let (count, workers) = (cluster.machines()?.len(), cluster.workers()?.len());
    let inventory = cluster.openstack.records(&["inventory"])?;
    let servers =
        inventory.pointer("/servers").and_then(Value::as_array).context("no list of servers")?.len();
    cluster.openstack.records(&["quota", &(servers + 1).to_string()])?;
    cluster.scale_workers(workers + 2)?;
    cluster.until("one Machine says that no instance is left of the quota", || {
        Ok(cluster.machines()?.iter().filter(|it| is_short(it)).count() == 1)
    })?;
    cluster.openstack.records(&["quota", limit])?;
    ready(cluster, count + 2)?;
    cluster.scale_workers(workers)?;
    ready(cluster, count)
}

/// Returns true if a condition of the Machine names the exhausted quota.
fn is_short(machine: &Value) -> bool {
    let conditions = machine.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|it| text(it, "/message").contains(EXCEEDED))
}
