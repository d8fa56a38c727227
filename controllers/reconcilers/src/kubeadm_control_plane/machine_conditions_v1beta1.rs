//! Conditions of the components on a Machine in the form of v1beta1.

use apiserver_types::{Condition, ConditionStatus};
use kube::ResourceExt;

use super::inspection::Workload;
use super::replica::{NODE_LABELS, Replica};
use crate::deprecated_conditions::Old;

/// Type of the condition of the member of etcd.
const MEMBER: &str = "EtcdMemberHealthy";

/// Returns the state of a condition in the form of v1beta1. It is set only if the workload cluster responds, and once
/// the Machine has a Node.
pub(super) fn state(condition: &Condition, replica: &Replica, workload: &Workload) -> Option<Old> {
    let Workload::Reached(inspection) = workload else { return None };
    let (name, message) = (condition.kind.as_str(), || condition.message.clone());
    // v1beta1 has no condition of the labels.
    if name == NODE_LABELS {
        return None;
    }
    let is_member = name == MEMBER;
    let (failed, unknown) = match is_member {
        true => ("EtcdMemberUnhealthy", "MemberInspectionFailed"),
        false => ("PodFailed", "PodInspectionFailed"),
    };
    match (condition.status, condition.reason.as_str()) {
        (ConditionStatus::True, _) => Some(Old::True),
        (ConditionStatus::False, "Deleting") => Some(Old::no("Info", "Deleting", "")),
        _ if replica.node().is_none() => None,
        (ConditionStatus::False, "DoesNotExist") => Some(Old::no("Error", "PodMissing", message())),
        (ConditionStatus::False, "Provisioning") => Some(Old::no("Info", "PodProvisioning", message())),
        (ConditionStatus::False, _) => Some(Old::no("Error", failed, message())),
        (ConditionStatus::Unknown, _)
            if !is_member && lost_node(replica, inspection.nodes.as_deref().ok()) =>
        {
            Some(Old::no("Error", failed, message()))
        }
        (ConditionStatus::Unknown, _) => Some(Old::Unknown(unknown, message())),
    }
}

/// Reports whether the Nodes are known, and that of a Machine is not among them.
fn lost_node(replica: &Replica, nodes: Option<&[k8s_openapi::api::core::v1::Node]>) -> bool {
    let name = replica.node();
    nodes.is_some_and(|nodes| !nodes.iter().any(|node| Some(node.name_any().as_str()) == name))
}

#[cfg(test)]
mod tests {
    use apiserver_types::Time;
    use serde_json::json;

    use super::super::inspection::Inspection;
    use super::super::replica::examples::{healthy, replica};
    use super::*;

    #[test]
    fn each_state_of_a_component_has_upstreams_reason_and_severity() {
        use ConditionStatus::{False, True, Unknown};
        let nodes = |name: &str| vec![serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()];
        let inspection =
            |name| Inspection { nodes: Ok(nodes(name)), pods: Default::default(), members: Ok(Vec::new()) };
        let (here, elsewhere) = (Workload::Reached(inspection("a")), Workload::Reached(inspection("b")));
        let known = healthy("a", 1);
        let no = |severity, reason: &str| Some(Old::no(severity, reason, "text"));
        let pod = "APIServerPodHealthy";
        let table = [
            (pod, True, "Running", &here, Some(Old::True)),
            (pod, False, "Deleting", &here, Some(Old::no("Info", "Deleting", ""))),
            (pod, False, "DoesNotExist", &here, no("Error", "PodMissing")),
            (pod, False, "Provisioning", &here, no("Info", "PodProvisioning")),
            (pod, False, "Failed", &here, no("Error", "PodFailed")),
            (
                pod,
                Unknown,
                "InspectionFailed",
                &here,
                Some(Old::Unknown("PodInspectionFailed", "text".to_owned())),
            ),
            (pod, Unknown, "InspectionFailed", &elsewhere, no("Error", "PodFailed")),
            (MEMBER, False, "NotHealthy", &here, no("Error", "EtcdMemberUnhealthy")),
            (
                MEMBER,
                Unknown,
                "InspectionFailed",
                &elsewhere,
                Some(Old::Unknown("MemberInspectionFailed", "text".to_owned())),
            ),
            (NODE_LABELS, True, "Set", &here, None),
            (pod, True, "Running", &Workload::NotInspected, None),
        ];
        for (kind, status, reason, workload, expected) in table {
            let condition = Condition::new(kind, status, reason, "text", Time::default());
            assert_eq!(state(&condition, &known, workload), expected, "{kind} {reason}");
        }
        let waits = Condition::new(pod, Unknown, "InspectionFailed", "text", Time::default());
        assert_eq!(state(&waits, &replica("a", 1), &here), None, "it has no Node yet");
    }
}
