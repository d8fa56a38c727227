//! Observation of the Machines of a health check, of their Nodes, and of the requests for external remediation.

use apiserver_types::{Cluster, Machine, MachineHealthCheck};
use controllers_runtime::{ControllerContext, ReconcileError};
use controllers_workload::ClusterKey;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};

use super::judge::{self, NodeSeen, Scene, Verdict};
use super::requests::Requests;
use super::sightings::Sightings;
use super::{nodes, requests};
use crate::{CLUSTER_NAME_LABEL, selectors};

/// Annotation of a Machine that no health check looks at. Upstream's name.
const SKIP: &str = "cluster.x-k8s.io/skip-remediation";

/// Machine of a health check.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub machine: Machine,
    pub node: NodeSeen,
    pub verdict: Verdict,
}

/// Observed state.
#[derive(Debug, Clone)]
pub(super) struct Observed {
    pub cluster: Cluster,
    /// By name.
    pub targets: Vec<Target>,
    /// Requests for external remediation; `None` without a template.
    pub requests: Option<Requests>,
    /// Reason why the Nodes cannot be read. For people.
    pub unreachable: Option<String>,
    pub now: Timestamp,
}

/// Reads the Cluster of a health check.
///
/// # Errors
/// The API's own failure.
pub(super) async fn cluster(
    context: &ControllerContext,
    check: &MachineHealthCheck,
) -> Result<Option<Cluster>, ReconcileError> {
    let namespace = check.namespace().unwrap_or_default();
    let api: Api<Cluster> = Api::namespaced(context.client.clone(), &namespace);
    Ok(api.get_opt(&check.spec.cluster_name).await?)
}

/// Reads and judges the Machines of a health check.
///
/// # Errors
/// The API's own failure.
pub(super) async fn observe(
    context: &ControllerContext,
    sightings: &Sightings,
    check: &MachineHealthCheck,
    cluster: Cluster,
    now: Timestamp,
) -> Result<Observed, ReconcileError> {
    let machines = machines(context, check).await?;
    let requests = requests::observe(context, check, &machines).await?;
    let mut observed = Observed { cluster, targets: Vec::new(), requests, unreachable: None, now };
    let key = ClusterKey {
        namespace: check.namespace().unwrap_or_default(),
        name: check.spec.cluster_name.clone(),
    };
    if !judge::is_initialized(&observed.cluster) {
        observed.targets = machines.into_iter().map(|it| target(it, NodeSeen::Unread)).collect();
        for target in &mut observed.targets {
            let is_named = target.machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
            target.node = if is_named { NodeSeen::Unread } else { NodeSeen::Missing };
        }
        judge_all(check, &mut observed, sightings);
        return Ok(observed);
    }
    observed.targets = machines.into_iter().map(|it| target(it, NodeSeen::Unread)).collect();
    match nodes::watched(context, &key) {
        Err(reason) => observed.unreachable = Some(reason),
        Ok(found) => {
            observed.targets.iter_mut().for_each(|it| it.node = nodes::of(&it.machine, &found));
            judge_all(check, &mut observed, sightings);
            confirm(context, &key, check, &mut observed, sightings).await;
        }
    }
    Ok(observed)
}

/// Judges again by Nodes that are read directly, if a Node makes a Machine unhealthy that was not unhealthy before.
async fn confirm(
    context: &ControllerContext,
    key: &ClusterKey,
    check: &MachineHealthCheck,
    observed: &mut Observed,
    sightings: &Sightings,
) {
    if !observed.targets.iter().any(is_news) {
        return;
    }
    match nodes::live(context, key).await {
        Err(reason) => observed.unreachable = Some(reason),
        Ok(found) => {
            observed.targets.iter_mut().for_each(|it| it.node = nodes::of(&it.machine, &found));
            judge_all(check, observed, sightings);
        }
    }
}

/// Returns true if a Machine is unhealthy by its Node, and is not marked so.
fn is_news(target: &Target) -> bool {
    let Verdict::Unhealthy { cause, .. } = &target.verdict else { return false };
    cause.is_of_node() && !crate::replica_status::is_unhealthy(&target.machine)
}

fn target(machine: Machine, node: NodeSeen) -> Target {
    Target { machine, node, verdict: Verdict::NotJudged("") }
}

fn judge_all(check: &MachineHealthCheck, observed: &mut Observed, sightings: &Sightings) {
    let seen = observed.targets.iter().filter_map(|target| match &target.node {
        NodeSeen::Found { node, .. } => Some::<&Node>(node),
        _ => None,
    });
    let mut times = sightings.observe(&check.uid().unwrap_or_default(), seen, observed.now);
    let checks = check.spec.checks.clone().unwrap_or_default();
    let scene = Scene { cluster: &observed.cluster, checks: &checks, now: observed.now };
    for target in &mut observed.targets {
        let uid = nodes::uid(&target.node).unwrap_or_default();
        if let NodeSeen::Found { sighted, .. } = &mut target.node {
            *sighted = times.remove(&uid).unwrap_or_default();
        }
        target.verdict = judge::judge(&scene, &target.machine, &target.node);
    }
}

/// Returns the Machines of a health check, by name.
async fn machines(
    context: &ControllerContext,
    check: &MachineHealthCheck,
) -> Result<Vec<Machine>, ReconcileError> {
    let api: Api<Machine> = Api::namespaced(context.client.clone(), &check.namespace().unwrap_or_default());
    let label = format!("{CLUSTER_NAME_LABEL}={}", check.spec.cluster_name);
    let mut machines = api.list(&ListParams::default().labels(&label)).await?.items;
    machines.retain(|it| is_target(check, it));
    machines.sort_by_key(ResourceExt::name_any);
    Ok(machines)
}

/// Returns true if a health check looks at a Machine.
pub(super) fn is_target(check: &MachineHealthCheck, machine: &Machine) -> bool {
    machine.labels().get(CLUSTER_NAME_LABEL) == Some(&check.spec.cluster_name)
        && selectors::selects(&check.spec.selector, machine.labels())
        && !controllers_runtime::paused(machine, None)
        && !machine.annotations().contains_key(SKIP)
}
