//! Conditions of the control plane's components on its Machines.

use apiserver_types::{Condition, ConditionStatus, KubeadmConfig, TaintEffect, Time};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;

use super::inspection::{Inspection, Workload};
use super::pods;
use super::replica::{NODE_LABELS, Replica};

/// Label that kubeadm sets on control plane Nodes, and key of the taint.
pub(super) const CONTROL_PLANE_ROLE: &str = "node-role.kubernetes.io/control-plane";

/// Status, reason and message of a condition.
pub(super) type Verdict = (ConditionStatus, &'static str, String);

/// Condition of a Machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Update {
    pub condition: Condition,
    /// A condition that the Machine has already is replaced.
    pub replaces: bool,
}

/// Returns the conditions of the components on a Machine, and whether it matches the control plane.
pub(super) fn updates(replica: &Replica, workload: &Workload, managed_etcd: bool, now: &Time) -> Vec<Update> {
    let kinds = std::iter::once(NODE_LABELS).chain(Replica::components(managed_etcd));
    let verdict = |kind: &'static str| -> Option<(Verdict, bool)> {
        match workload {
            Workload::NotInspected => None,
            Workload::NotInitialized(message) => {
                Some(((ConditionStatus::Unknown, "InspectionFailed", (*message).to_owned()), true))
            }
            Workload::Unreachable { message, is_over, reason } => {
                Some(((ConditionStatus::Unknown, reason, message.clone()), *is_over))
            }
            Workload::Reached(inspection) => Some((inspected(kind, replica, inspection), true)),
        }
    };
    let components = kinds.filter_map(|kind| {
        let ((status, reason, message), replaces) = verdict(kind)?;
        Some(Update { condition: Condition::new(kind, status, reason, &message, now.clone()), replaces })
    });
    components.chain([Update { condition: up_to_date(replica, now), replaces: true }]).collect()
}

fn up_to_date(replica: &Replica, now: &Time) -> Condition {
    let kubelet = replica.machine.status.as_ref().and_then(|status| status.node_info.as_ref());
    let kubelet = kubelet.map(|info| info.kubelet_version.as_str()).filter(|version| !version.is_empty());
    let version = replica.machine.spec.version.as_deref();
    let (status, reason, message) = if !replica.causes.is_empty() {
        let lines: Vec<String> = replica.causes.iter().map(|cause| format!("* {cause}")).collect();
        (ConditionStatus::False, "NotUpToDate", lines.join("\n"))
    } else if let Some(kubelet) = kubelet.filter(|kubelet| version.is_some_and(|version| version != *kubelet))
    {
        let message = format!("* Version {kubelet}, {} required", version.unwrap_or_default());
        (ConditionStatus::False, "Updating", message)
    } else {
        (ConditionStatus::True, "UpToDate", String::new())
    };
    Condition::new("UpToDate", status, reason, &message, now.clone())
}

/// Returns the verdict on one component of a Machine, if the workload cluster responds.
fn inspected(kind: &'static str, replica: &Replica, inspection: &Inspection) -> Verdict {
    let nodes = match &inspection.nodes {
        Ok(nodes) => nodes,
        Err(error) => return unknown(format!("The Nodes cannot be listed: {error}")),
    };
    let node = replica.node().and_then(|name| nodes.iter().find(|node| node.name_any() == name));
    let is_deleting = replica.is_deleting();
    if is_deleting && (kind != NODE_LABELS || node.is_none()) {
        return (ConditionStatus::False, "Deleting", "Machine is deleting".to_owned());
    }
    let Some(name) = replica.node() else {
        return unknown(match replica.machine.spec.provider_id.as_deref() {
            None | Some("") => {
                let kind = &replica.machine.spec.infrastructure_ref.kind;
                format!("Waiting for {kind} to report spec.providerID")
            }
            Some(id) => format!("Waiting for a Node with spec.providerID {id} to exist"),
        });
    };
    if kind == "EtcdMemberHealthy" {
        return member(name, inspection);
    }
    let Some(node) = node else { return unknown(format!("Node {name} does not exist")) };
    if is_unreachable(node) {
        return unknown(format!("Node {name} is unreachable"));
    }
    if kind == NODE_LABELS {
        return labels(replica, node);
    }
    if is_ready_unknown(node) {
        return unknown(format!("Node {name} does not report whether it is ready"));
    }
    let pod = pods::name(kind, name);
    inspection.pods.get(&pod).map_or_else(
        || unknown(format!("Pod {pod} is not inspected yet")),
        |outcome| pods::verdict(&pod, outcome),
    )
}

fn unknown(message: String) -> Verdict {
    (ConditionStatus::Unknown, "InspectionFailed", message)
}

/// Returns the verdict on the member of etcd that runs on a Node.
fn member(node: &str, inspection: &Inspection) -> Verdict {
    let members = match &inspection.members {
        Ok(members) => members,
        Err(error) => return unknown(format!("Failed to connect to etcd: {error}")),
    };
    let broken = |message: String| (ConditionStatus::False, "NotHealthy", message);
    match members.iter().find(|member| member.name == node) {
        None => broken(format!("Etcd member list does not contain a member {node}")),
        Some(member) if member.is_learner => {
            broken(format!("Etcd member {node} is a learner without a vote"))
        }
        Some(member) if member.has_alarm => broken(format!("Etcd member {node} reports an alarm")),
        Some(_) => (ConditionStatus::True, "Healthy", String::new()),
    }
}

/// Returns the verdict on the label and the taint of kubeadm.
fn labels(replica: &Replica, node: &Node) -> Verdict {
    let name = node.name_any();
    let not_set =
        |what: &str| (ConditionStatus::False, "NotSet", format!("Node {name} does not have the {what}"));
    if !node.labels().contains_key(CONTROL_PLANE_ROLE) {
        return not_set(&format!("{CONTROL_PLANE_ROLE} label"));
    }
    if wants_taint(replica) && !has_taint(node, CONTROL_PLANE_ROLE, "NoSchedule") {
        return not_set(&format!("{CONTROL_PLANE_ROLE}:NoSchedule taint"));
    }
    (ConditionStatus::True, "Set", String::new())
}

/// Reports whether kubeadm, or the Machine, sets the taint of control plane Nodes.
fn wants_taint(replica: &Replica) -> bool {
    let mut taints = replica.machine.spec.taints.iter().flatten();
    let of_machine = taints.any(|it| it.key == CONTROL_PLANE_ROLE && it.effect == TaintEffect::NoSchedule);
    of_machine || replica.config.as_ref().is_some_and(sets_taint)
}

fn sets_taint(config: &KubeadmConfig) -> bool {
    let init = config.spec.init_configuration.as_ref().and_then(|it| it.node_registration.as_ref());
    let join = config.spec.join_configuration.as_ref().and_then(|it| it.node_registration.as_ref());
    let taints = init.or(join).and_then(|registration| registration.taints.as_ref());
    let ours = |taints: &Vec<apiserver_types::NodeTaint>| {
        taints.iter().any(|it| it.key == CONTROL_PLANE_ROLE && it.effect == "NoSchedule")
    };
    taints.is_none_or(ours)
}

fn has_taint(node: &Node, key: &str, effect: &str) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint: &Taint| taint.key == key && taint.effect == effect)
}

fn is_unreachable(node: &Node) -> bool {
    has_taint(node, "node.kubernetes.io/unreachable", "NoExecute")
}

fn is_ready_unknown(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown")
}
