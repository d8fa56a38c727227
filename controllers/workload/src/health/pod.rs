//! Conditions of a Machine that report on the static Pods of its control plane.

use std::fmt;

use apiserver_types::ConditionStatus;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod};

use super::{has_unreachable_taint, reported};

/// Component of a control plane that runs as a static Pod in kube-system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Component {
    /// The API server.
    ApiServer,
    /// The controller manager.
    ControllerManager,
    /// The scheduler.
    Scheduler,
    /// The etcd member.
    Etcd,
}

impl Component {
    /// All components of a stacked control plane.
    pub const ALL: [Self; 4] = [Self::ApiServer, Self::ControllerManager, Self::Scheduler, Self::Etcd];

    /// Type of the condition.
    pub fn condition(self) -> &'static str {
        match self {
            Self::ApiServer => "APIServerPodHealthy",
            Self::ControllerManager => "ControllerManagerPodHealthy",
            Self::Scheduler => "SchedulerPodHealthy",
            Self::Etcd => "EtcdPodHealthy",
        }
    }

    /// Name of the Pod on a Node.
    pub fn pod(self, node: &str) -> String {
        format!("{self}-{node}")
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
            Self::Etcd => "etcd",
        })
    }
}

/// Facts about a Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineView<'a> {
    /// The Machine is being deleted.
    pub deleting: bool,
    /// Provider id, from `spec.providerID`.
    pub provider_id: Option<&'a str>,
    /// Name of the Node, from `status.nodeRef.name`.
    pub node_name: Option<&'a str>,
}

/// Result of the read of a Pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PodRead<'a> {
    /// The Pod.
    Found(&'a Pod),
    /// The Pod does not exist.
    Missing,
    /// The read failed, with its error.
    Failed(&'a str),
}

/// Facts read from the workload cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PodView<'a> {
    /// The Node of the Machine, `None` if it does not exist, or the error of the list of Nodes.
    pub node: Result<Option<&'a Node>, &'a str>,
    /// The Pod. Not used if an earlier rule decides.
    pub pod: PodRead<'a>,
}

/// The same condition in the form of v1beta1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V1Beta1Condition {
    /// Status.
    pub status: ConditionStatus,
    /// Reason, empty if the status is True.
    pub reason: &'static str,
    /// Severity, empty unless the status is False.
    pub severity: &'static str,
}

/// Condition that reports on a Pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCondition {
    /// Status.
    pub status: ConditionStatus,
    /// Reason.
    pub reason: &'static str,
    /// Message, empty if the status is True.
    pub message: String,
    /// The form of v1beta1.
    pub v1beta1: V1Beta1Condition,
}

/// Returns the condition of a component on a Machine: the first rule that applies.
pub fn pod_condition(component: Component, machine: MachineView<'_>, view: &PodView<'_>) -> PodCondition {
    let node = match view.node {
        Err(error) => return unknown(format!("Failed to list Nodes: {error}")),
        Ok(_) if machine.deleting => {
            return bad("Deleting", "Machine is deleting".to_owned(), "Deleting", "Info");
        }
        Ok(node) => node,
    };
    let Some(name) = machine.node_name else {
        return unknown(machine.provider_id.map_or_else(
            || "Waiting for the infrastructure to report spec.providerID".to_owned(),
            |id| format!("Waiting for a Node with spec.providerID {id} to exist"),
        ));
    };
    let Some(node) = node else {
        let v1beta1 =
            V1Beta1Condition { status: ConditionStatus::False, reason: "PodFailed", severity: "Error" };
        return PodCondition { v1beta1, ..unknown(format!("Node {name} does not exist")) };
    };
    let not_reporting = reported(node, "Ready").is_some_and(|ready| ready.status == "Unknown");
    if has_unreachable_taint(node) || not_reporting {
        return unknown(format!("Node {name} is unreachable"));
    }
    let pod_name = component.pod(name);
    match view.pod {
        PodRead::Missing => {
            bad("DoesNotExist", format!("Pod {pod_name} does not exist"), "PodMissing", "Error")
        }
        PodRead::Failed(error) => unknown(format!("Failed to get Pod {pod_name}: {error}")),
        PodRead::Found(pod) => of_pod(pod),
    }
}

/// Judges a Pod that exists.
fn of_pod(pod: &Pod) -> PodCondition {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    match phase {
        "Pending" => provisioning(pending_message(pod)),
        "Running" => of_running(pod),
        "Succeeded" | "Failed" => failed(format!("All the containers have been terminated, phase {phase}")),
        _ => unknown("Pod is reporting Unknown status".to_owned()),
    }
}

fn of_running(pod: &Pod) -> PodCondition {
    if is(pod, "Ready", "True") {
        let v1beta1 = V1Beta1Condition { status: ConditionStatus::True, reason: "", severity: "" };
        return PodCondition {
            status: ConditionStatus::True,
            reason: "Running",
            message: String::new(),
            v1beta1,
        };
    }
    let containers = containers(pod);
    if let Some((container, reason)) = containers.iter().find_map(waiting) {
        let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        return match last.filter(|last| last.exit_code != 0) {
            Some(last) => failed(format!("{reason}, last exit code {}", last.exit_code)),
            None => provisioning(reason.to_owned()),
        };
    }
    let terminated = |container: &ContainerStatus| {
        container.state.as_ref().and_then(|state| state.terminated.as_ref()).map(|end| end.exit_code)
    };
    match containers.iter().find_map(terminated) {
        Some(code) => failed(format!("A container has ended with exit code {code}")),
        None => provisioning("Waiting for startup or readiness probes".to_owned()),
    }
}

/// Returns a container that waits, and for what.
fn waiting(container: &ContainerStatus) -> Option<(&ContainerStatus, &str)> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    Some((container, waiting.reason.as_deref().unwrap_or("Waiting")))
}

fn pending_message(pod: &Pod) -> String {
    if !is(pod, "PodScheduled", "True") {
        return "Waiting to be scheduled".to_owned();
    }
    if !is(pod, "Initialized", "True") {
        return "Waiting for init containers to complete".to_owned();
    }
    "Waiting for startup".to_owned()
}

fn is(pod: &Pod, kind: &str, wanted: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == kind && condition.status == wanted)
}

fn containers(pod: &Pod) -> &[ContainerStatus] {
    pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default()
}

fn provisioning(message: String) -> PodCondition {
    bad("Provisioning", message, "PodProvisioning", "Info")
}

fn failed(message: String) -> PodCondition {
    bad("Failed", message, "PodFailed", "Error")
}

fn bad(reason: &'static str, message: String, v1beta1: &'static str, severity: &'static str) -> PodCondition {
    let v1beta1 = V1Beta1Condition { status: ConditionStatus::False, reason: v1beta1, severity };
    PodCondition { status: ConditionStatus::False, reason, message, v1beta1 }
}

fn unknown(message: String) -> PodCondition {
    let status = ConditionStatus::Unknown;
    let v1beta1 = V1Beta1Condition { status, reason: "PodInspectionFailed", severity: "" };
    PodCondition { status, reason: "InspectionFailed", message, v1beta1 }
}

#[cfg(test)]
mod tests;
