//! Decision on whether one Machine is healthy, by the criteria of its health check. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_types::{Cluster, Condition, ConditionStatus, HealthChecks, Machine};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::machine_labels::REMEDIATE;
use crate::{CONTROL_PLANE_LABEL, replica_status};

/// Time in which a Node must appear, if the health check sets none. Upstream's. Unit: seconds.
const STARTUP_SECONDS: i32 = 600;

/// Delay of the pass after a limit, so that the limit has passed for certain. Upstream's.
const MARGIN: SignedDuration = SignedDuration::from_secs(1);

/// Cause of an unhealthy Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// A user wants the Machine to be replaced.
    Annotation,
    /// A condition of the Machine.
    Machine,
    /// A condition of the Node.
    Node,
    /// The Node does not exist any more.
    NodeDeleted,
    /// The Node did not appear in time.
    NodeStartup,
}

impl Cause {
    /// Returns the reason of the condition.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Annotation => "HasRemediateAnnotation",
            Self::Machine => "UnhealthyMachine",
            Self::Node => "UnhealthyNode",
            Self::NodeDeleted => "NodeDeleted",
            Self::NodeStartup => "NodeStartupTimeout",
        }
    }

    /// Returns the reason of the condition in the form of v1beta1.
    pub(super) fn old_reason(self) -> &'static str {
        match self {
            Self::Annotation => "HasRemediateMachineAnnotation",
            Self::NodeDeleted => "NodeNotFound",
            other => other.reason(),
        }
    }

    /// Returns true if the cause was read from the workload cluster.
    pub(super) fn is_of_node(self) -> bool {
        !matches!(self, Self::Annotation | Self::Machine)
    }
}

/// Verdict about a Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Healthy,
    /// Healthy up to now. A criterion takes effect after this time unless something changes.
    Later(SignedDuration),
    /// The text says what has to happen first.
    NotJudged(&'static str),
    Unhealthy {
        cause: Cause,
        /// One for each criterion.
        messages: Vec<String>,
    },
}

impl Verdict {
    /// Returns true if the Machine is unhealthy.
    pub(super) fn is_unhealthy(&self) -> bool {
        matches!(self, Self::Unhealthy { .. })
    }
}

/// Node of a Machine as it was read.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeSeen {
    /// There is no workload cluster yet.
    Unread,
    /// No Node belongs to the Machine yet.
    Missing,
    /// The Node of this name does not exist any more.
    Gone(String),
    Found {
        node: Arc<Node>,
        /// Begin of the present status of conditions, by type, where the time of the Node cannot be used.
        sighted: BTreeMap<String, Timestamp>,
    },
}

/// Circumstances that all Machines of a health check share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene<'a> {
    pub cluster: &'a Cluster,
    pub checks: &'a HealthChecks,
    pub now: Timestamp,
}

/// Findings about one Machine.
#[derive(Debug, Default)]
struct Findings {
    messages: Vec<String>,
    /// Time until the first criterion takes effect, and its message.
    later: Option<(SignedDuration, String)>,
}

impl Findings {
    fn wait(&mut self, rest: SignedDuration, message: String) {
        if self.later.as_ref().is_none_or(|(known, _)| rest < *known) {
            self.later = Some((rest, message));
        }
    }

    /// Adds a condition that is bad from `since` on, if it lasts for longer than `seconds`.
    fn add(
        &mut self,
        scene: &Scene<'_>,
        since: Timestamp,
        seconds: i32,
        message: impl FnOnce(&str) -> String,
    ) {
        let limit = SignedDuration::from_secs(i64::from(seconds));
        let elapsed = scene.now.duration_since(since);
        let message = message(&duration(seconds));
        if elapsed > limit {
            self.messages.push(message);
        } else {
            self.wait(limit.saturating_sub(elapsed).saturating_add(MARGIN), message);
        }
    }
}

/// Judges a Machine.
pub(super) fn judge(scene: &Scene<'_>, machine: &Machine, node: &NodeSeen) -> Verdict {
    if machine.annotations().contains_key(REMEDIATE) {
        let message = format!("Machine has the annotation {REMEDIATE}");
        return Verdict::Unhealthy { cause: Cause::Annotation, messages: vec![message] };
    }
    if !is_initialized(scene.cluster) && !machine.labels().contains_key(CONTROL_PLANE_LABEL) {
        return Verdict::NotJudged("The control plane of the Cluster is not initialized");
    }
    if !holds(scene.cluster.condition("InfrastructureReady")) {
        return Verdict::NotJudged("The infrastructure of the Cluster is not ready");
    }
    let (of_machine, of_node, cause) = find(scene, machine, node);
    let is_of_machine = !of_machine.messages.is_empty();
    let messages = [of_machine.messages, of_node.messages].concat();
    if !messages.is_empty() {
        let cause = if is_of_machine { Cause::Machine } else { cause };
        return Verdict::Unhealthy { cause, messages };
    }
    match of_machine.later.into_iter().chain(of_node.later).map(|(rest, _)| rest).min() {
        Some(rest) => Verdict::Later(rest),
        None if replica_status::is_deleting(machine) => Verdict::NotJudged("The Machine is being deleted"),
        None if matches!(node, NodeSeen::Found { .. }) => Verdict::Healthy,
        None => Verdict::NotJudged("The Machine has no Node yet"),
    }
}

/// Returns the cause and the message of the criterion that takes effect first on a Machine with the verdict
/// [`Verdict::Later`].
pub(super) fn pending(scene: &Scene<'_>, machine: &Machine, node: &NodeSeen) -> Option<(Cause, String)> {
    let (of_machine, of_node, cause) = find(scene, machine, node);
    let of_machine = of_machine.later.map(|(rest, message)| (rest, Cause::Machine, message));
    let of_node = of_node.later.map(|(rest, message)| (rest, cause, message));
    let first = of_machine.into_iter().chain(of_node).min_by_key(|(rest, _, _)| *rest);
    first.map(|(_, cause, message)| (cause, message))
}

/// Returns the findings about a Machine and about its Node, and the cause that those about the Node stand for.
fn find(scene: &Scene<'_>, machine: &Machine, node: &NodeSeen) -> (Findings, Findings, Cause) {
    let (mut of_machine, mut of_node) = (Findings::default(), Findings::default());
    judge_machine(scene, machine, &mut of_machine);
    let cause = judge_node(scene, machine, node, &mut of_node);
    (of_machine, of_node, cause)
}

fn judge_machine(scene: &Scene<'_>, machine: &Machine, findings: &mut Findings) {
    for check in scene.checks.unhealthy_machine_conditions.iter().flatten() {
        let Some(found) = machine.condition(&check.kind).filter(|it| it.status == check.status) else {
            continue;
        };
        let Some(since) = transition(found) else { continue };
        findings.add(scene, since, check.timeout_seconds, |limit| {
            format!(
                "Condition {} on Machine is reporting status {} with reason {} for more than {limit}",
                check.kind,
                text(check.status),
                found.reason
            )
        });
    }
}

/// Judges the Node, and returns the cause that a message stands for.
fn judge_node(scene: &Scene<'_>, machine: &Machine, node: &NodeSeen, findings: &mut Findings) -> Cause {
    match node {
        NodeSeen::Unread => Cause::Node,
        NodeSeen::Gone(name) => {
            findings.messages.push(format!("Node {name} has been deleted"));
            Cause::NodeDeleted
        }
        NodeSeen::Missing => {
            judge_startup(scene, machine, findings);
            Cause::NodeStartup
        }
        NodeSeen::Found { node, sighted } => {
            judge_conditions(scene, node, sighted, findings);
            Cause::Node
        }
    }
}

fn judge_startup(scene: &Scene<'_>, machine: &Machine, findings: &mut Findings) {
    let seconds = scene.checks.node_startup_timeout_seconds.unwrap_or(STARTUP_SECONDS);
    if seconds == 0 {
        return;
    }
    let Some(from) = startup(scene.cluster, machine) else { return };
    findings.add(scene, from, seconds, |limit| format!("Node failed to report startup in {limit}"));
}

/// Returns the time from which on the start-up of a Machine's Node is measured.
pub(super) fn startup(cluster: &Cluster, machine: &Machine) -> Option<Timestamp> {
    let created = machine.metadata.creation_timestamp.as_ref().map(|created| created.0);
    let milestones = [
        cluster.condition("ControlPlaneInitialized"),
        cluster.condition("InfrastructureReady"),
        machine.condition("InfrastructureReady"),
    ];
    let reached = milestones.into_iter().flatten().filter(|it| it.holds()).filter_map(transition);
    created.into_iter().chain(reached).max()
}

fn judge_conditions(
    scene: &Scene<'_>,
    node: &Node,
    sighted: &BTreeMap<String, Timestamp>,
    findings: &mut Findings,
) {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    for check in scene.checks.unhealthy_node_conditions.iter().flatten() {
        let mut reported = conditions.into_iter().flatten();
        let is_meant = |it: &&k8s_openapi::api::core::v1::NodeCondition| {
            it.type_ == check.kind && it.status == check.status
        };
        let Some(found) = reported.find(is_meant) else { continue };
        let own = found.last_transition_time.as_ref().map(|time| time.0);
        let Some(since) = sighted.get(&check.kind).copied().or(own) else { continue };
        findings.add(scene, since, check.timeout_seconds, |limit| {
            let (kind, status) = (&check.kind, &check.status);
            let reason = found.reason.as_deref().unwrap_or_default();
            format!("Condition {kind} on Node is reporting status {status} with reason {reason} for more than {limit}")
        });
    }
}

/// Returns true if the control plane of a Cluster was initialized once.
pub(super) fn is_initialized(cluster: &Cluster) -> bool {
    let initialization = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
    holds(cluster.condition("ControlPlaneInitialized"))
        || initialization.and_then(|it| it.control_plane_initialized) == Some(true)
}

fn holds(condition: Option<&Condition>) -> bool {
    condition.is_some_and(Condition::holds)
}

fn transition(condition: &Condition) -> Option<Timestamp> {
    condition.last_transition_time.0.parse().ok()
}

fn text(status: ConditionStatus) -> &'static str {
    match status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    }
}

/// Returns a number of seconds in Go's form, e.g. `5m0s`.
pub(super) fn duration(seconds: i32) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest}s"),
        _ => format!("{hours}h{minutes}m{rest}s"),
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
