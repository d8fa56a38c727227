//! Health of Nodes and of control plane Pods, as conditions of Machines. Pure functions.

mod node;
mod pod;

use apiserver_types::ConditionStatus;
use k8s_openapi::api::core::v1::Node;

pub use node::{NodeCondition, node_healthy, node_ready};
pub use pod::{Component, MachineView, PodCondition, PodRead, PodView, V1Beta1Condition, pod_condition};

/// Says whether the node controller has tainted a Node because its kubelet does not report.
pub fn has_unreachable_taint(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    taints.iter().any(|taint| taint.key == "node.kubernetes.io/unreachable" && taint.effect == "NoExecute")
}

/// Returns status and message of a condition of a Node. A Node that has not reported it yet has no message.
fn reported<'a>(node: &'a Node, kind: &str) -> Option<&'a k8s_openapi::api::core::v1::NodeCondition> {
    let conditions = node.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

fn status(text: &str) -> ConditionStatus {
    match text {
        "True" => ConditionStatus::True,
        "False" => ConditionStatus::False,
        _ => ConditionStatus::Unknown,
    }
}
