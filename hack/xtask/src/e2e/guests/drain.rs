//! Scenarios that drain a worker: a reboot, and the deletion of its Machine.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::cluster::{Cluster, NAMESPACE, server_of};
use super::nodes::{ready, web_responds};
use crate::e2e::openstack::{Access, post, text};

const ACCESS: Access = Access { user: "admin", namespace: NAMESPACE };

/// Budget that permits no eviction while both pods of the Deployment are needed.
const BUDGET: &str = r"
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web-needs-all}
spec:
  minAvailable: 2
  selector: {matchLabels: {app: web}}
";

/// Time in which a blocked drain must not change anything. Capstan tries again every 20 s, so it has tried once more.
const BLOCKED: Duration = Duration::from_secs(30);

/// Observations of a node that is drained.
#[derive(Debug, Default)]
struct Seen {
    /// No pod was scheduled to it.
    is_cordoned: bool,
    /// All pods of the Deployment had gone before the system stopped.
    is_empty: bool,
}

impl Seen {
    /// Observes a node. Once its system has another boot id, it is too late for a drain.
    fn observe(&mut self, cluster: &Cluster<'_>, node: &str, boot_id: &str) -> anyhow::Result<()> {
        let found = cluster.workload_json(&["get", "node", node])?;
        if text(&found, "/status/nodeInfo/bootID") != boot_id {
            return Ok(());
        }
        let is_cordoned = found.pointer("/spec/unschedulable") == Some(&Value::Bool(true));
        self.is_cordoned |= is_cordoned;
        self.is_empty |= is_cordoned && pods_on(cluster, node)?.is_empty();
        Ok(())
    }

    fn check(&self, node: &str) -> anyhow::Result<()> {
        ensure!(self.is_cordoned, "node {node} was never unschedulable");
        ensure!(self.is_empty, "node {node} still had pods when its system stopped");
        Ok(())
    }
}

fn pods_on(cluster: &Cluster<'_>, node: &str) -> anyhow::Result<Vec<Value>> {
    let on_node = format!("--field-selector=spec.nodeName={node}");
    cluster.workload_items(&["get", "pods", "-l", "app=web", &on_node])
}

/// Returns the worker that has pods of the Deployment, with its node and its boot id.
fn busy_worker(cluster: &Cluster<'_>) -> anyhow::Result<(Value, String, String)> {
    for worker in cluster.workers()? {
        let node = text(&worker, "/status/nodeRef/name").to_owned();
        if !node.is_empty() && !pods_on(cluster, &node)?.is_empty() {
            let boot_id = boot_id(cluster, &node)?;
            return Ok((worker, node, boot_id));
        }
    }
    anyhow::bail!("no worker has pods of the Deployment")
}

fn boot_id(cluster: &Cluster<'_>, node: &str) -> anyhow::Result<String> {
    Ok(text(&cluster.workload_json(&["get", "node", node])?, "/status/nodeInfo/bootID").to_owned())
}

/// Reboots the worker that has the pods. They must move before its system stops, and its boot id must change.
pub(super) fn reboot(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let (worker, node, before) = busy_worker(cluster)?;
    let name = text(&worker, "/metadata/name");
    let operation = post(cluster.lab, &ACCESS, name, "reboot", r#"{"type": "Hard"}"#)?;
    let mut seen = Seen::default();
    cluster.until(&format!("operation {operation} is Complete"), || {
        let _ = seen.observe(cluster, &node, &before);
        let found = cluster.host_json(&["get", "machineoperation", &operation])?;
        Ok(super::cluster::is_true(&found, "Complete"))
    })?;
    seen.check(&node)?;
    cluster.until(&format!("node {node} has another boot id"), || Ok(boot_id(cluster, &node)? != before))?;
    ready(cluster, 3)?;
    let found = cluster.workload_json(&["get", "node", &node])?;
    ensure!(found.pointer("/spec/unschedulable").is_none(), "node {node} is unschedulable after its reboot");
    ensure!(cluster.openstack.actions(server_of(&worker)?, "reboot")? == 1, "Nova did not record one reboot");
    web_responds(cluster)
}

/// Deletes the worker that has the pods. They must move before its server is deleted. Another Machine replaces
/// it, and fetches its bootstrap data.
pub(super) fn delete(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    super::join::by_url(cluster)?;
    let (worker, node, boot_id) = busy_worker(cluster)?;
    let name = text(&worker, "/metadata/name");
    let server = server_of(&worker)?.to_owned();
    cluster.host(&["delete", "machine", name, "--wait=false"])?;
    let mut seen = Seen::default();
    cluster.until(&format!("Machine {name} is gone"), || {
        let _ = seen.observe(cluster, &node, &boot_id);
        Ok(!cluster.machines()?.iter().any(|it| text(it, "/metadata/name") == name))
    })?;
    seen.check(&node)?;
    let nodes = cluster.workload_items(&["get", "nodes"])?;
    ensure!(!nodes.iter().any(|it| text(it, "/metadata/name") == node), "node {node} still exists");
    let inventory = cluster.openstack.records(&["inventory"])?;
    let servers = inventory.get("servers").context("no list of servers")?.to_string();
    ensure!(!servers.contains(&server), "server {server} still exists");
    ready(cluster, 3)?;
    web_responds(cluster)
}

/// Deletes a worker whose pods have a budget that permits no eviction. The Machine must say so, and keep its server and
/// its pods. Once the budget is gone, the Machine goes.
pub(super) fn budget(cluster: &Cluster<'_>) -> anyhow::Result<()> {
    let count = cluster.machines()?.len();
    cluster.apply_in_workload("budget.yaml", BUDGET)?;
    let (worker, node, _) = busy_worker(cluster)?;
    let name = text(&worker, "/metadata/name");
    let pods = pods_on(cluster, &node)?.len();
    cluster.host(&["delete", "machine", name, "--wait=false"])?;
    cluster.until(&format!("Machine {name} names the budget that blocks its drain"), || {
        let found = cluster.host_json(&["get", "machine", name])?;
        Ok(says(&found, "disruption budget") && says(&found, "web-needs-all"))
    })?;
    std::thread::sleep(BLOCKED);
    ensure!(pods_on(cluster, &node)?.len() == pods, "a pod was evicted in spite of its budget");
    let server = cluster.openstack.records(&["server", server_of(&worker)?])?;
    ensure!(text(&server, "/status") == "ACTIVE", "the server is {}", text(&server, "/status"));
    cluster.workload(&["delete", "poddisruptionbudget", "web-needs-all"])?;
    cluster.until(&format!("Machine {name} is gone"), || {
        Ok(!cluster.machines()?.iter().any(|it| text(it, "/metadata/name") == name))
    })?;
    ready(cluster, count)?;
    web_responds(cluster)
}

/// Returns true if a condition of an object contains a text.
fn says(object: &Value, words: &str) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|it| text(it, "/message").contains(words))
}
