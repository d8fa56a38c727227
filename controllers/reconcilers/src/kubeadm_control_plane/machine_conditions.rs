//! Conditions of the control plane's components on its Machines.

use apiserver_types::{Condition, ConditionStatus, KubeadmConfig, TaintEffect, Time};
use controllers_workload::health::{
    Component, MachineView, PodRead, PodView, has_unreachable_taint, pod_condition,
};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::ResourceExt;

use super::etcd_members::belongs;
use super::etcd_projection::Member;
use super::inspection::{Inspection, Workload};
use super::replica::{NODE_LABELS, Replica};
use super::{join_stage, machine_conditions_v1beta1};
use crate::deprecated_conditions::Old;
use crate::in_place;

/// Label that kubeadm sets on control plane Nodes, and key of the taint.
pub(super) const CONTROL_PLANE_ROLE: &str = "node-role.kubernetes.io/control-plane";

/// Status, reason and message of a condition.
type Verdict = (ConditionStatus, &'static str, String);

/// Condition of a Machine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Update {
    pub condition: Condition,
    /// A condition that the Machine has already is replaced.
    pub replaces: bool,
    /// State of the condition in the form of v1beta1, if it has one.
    pub old: Option<Old>,
}

/// Returns the conditions of the components on a Machine, and whether it matches the control plane.
pub(super) fn updates(replica: &Replica, workload: &Workload, managed_etcd: bool, now: &Time) -> Vec<Update> {
    let kinds = std::iter::once(NODE_LABELS).chain(Replica::components(managed_etcd));
    let verdict = |kind: &'static str| -> Option<(Verdict, bool)> {
        match workload {
            Workload::NotInspected => None,
            Workload::NotInitialized { message, .. } => {
                Some(((ConditionStatus::Unknown, "InspectionFailed", message.clone()), true))
            }
            Workload::Unreachable { message, is_over, reason } => {
                Some(((ConditionStatus::Unknown, reason, message.clone()), *is_over))
            }
            Workload::Reached(inspection) => Some((inspected(kind, replica, inspection), true)),
        }
    };
    let components = kinds.filter_map(|kind| {
        let ((status, reason, message), replaces) = verdict(kind)?;
        let condition = Condition::new(kind, status, reason, &message, now.clone());
        let old = machine_conditions_v1beta1::state(&condition, replica, workload);
        Some(Update { condition, replaces, old })
    });
    let up_to_date = Update { condition: up_to_date(replica, now), replaces: true, old: None };
    components.chain([up_to_date]).collect()
}

fn up_to_date(replica: &Replica, now: &Time) -> Condition {
    let kubelet = replica.machine.status.as_ref().and_then(|status| status.node_info.as_ref());
    let kubelet = kubelet.map(|info| info.kubelet_version.as_str()).filter(|version| !version.is_empty());
    let version = replica.machine.spec.version.as_deref();
    let (status, reason, message) = if !replica.causes.is_empty() {
        let lines: Vec<String> = replica.causes.iter().map(|cause| format!("* {cause}")).collect();
        (ConditionStatus::False, "NotUpToDate", lines.join("\n"))
    } else if replica.holds("Updating") || in_place::is_updating(&replica.machine) {
        let condition = replica.machine.condition("Updating");
        let failure = condition.filter(|it| it.reason == "InPlaceUpdateFailed");
        let text = failure.map_or("In-place update in progress", |it| it.message.as_str());
        (ConditionStatus::False, "Updating", format!("* {text}"))
    } else if let Some(kubelet) = kubelet.filter(|kubelet| version.is_some_and(|version| version != *kubelet))
    {
        // The image of the server has another version than the Machine. No rollout ends that.
        let wanted = version.unwrap_or_default();
        let message = format!("* Node.status.nodeInfo.kubeletVersion {kubelet}, {wanted} required");
        (ConditionStatus::False, "Updating", message)
    } else {
        (ConditionStatus::True, "UpToDate", String::new())
    };
    Condition::new("UpToDate", status, reason, &message, now.clone())
}

/// Returns the verdict on one component of a Machine, if the workload cluster responds.
fn inspected(kind: &'static str, replica: &Replica, inspection: &Inspection) -> Verdict {
    let nodes = inspection.nodes.as_deref().map_err(String::as_str);
    let find = |name: &str| nodes.map(|nodes| nodes.iter().find(|node| node.name_any() == name));
    let node = replica.node().map_or(Ok(None), find);
    match Component::ALL.into_iter().find(|component| component.condition() == kind) {
        Some(component) => pod(component, replica, node, inspection),
        None if kind == NODE_LABELS => of_node(replica, node),
        None => member(replica, node, inspection),
    }
}

/// Returns the verdict on a static pod.
fn pod(
    component: Component,
    replica: &Replica,
    node: Result<Option<&Node>, &str>,
    inspection: &Inspection,
) -> Verdict {
    let outcome = replica.node().and_then(|node| inspection.pods.get(&component.pod(node)));
    let pod = match outcome {
        Some(Ok(Some(pod))) => PodRead::Found(pod),
        Some(Ok(None)) => PodRead::Missing,
        Some(Err(error)) => PodRead::Failed(error),
        None => PodRead::Failed("it was not read"),
    };
    let machine = MachineView {
        deleting: replica.is_deleting(),
        provider_id: replica.machine.spec.provider_id.as_deref().filter(|id| !id.is_empty()),
        node_name: replica.node(),
    };
    let found = pod_condition(component, machine, &PodView { node, pod });
    (found.status, found.reason, found.message)
}

/// Returns why a Machine has no Node.
fn without_node(replica: &Replica) -> Verdict {
    unknown(match replica.machine.spec.provider_id.as_deref() {
        None | Some("") => {
            format!("Waiting for {} to report spec.providerID", replica.machine.spec.infrastructure_ref.kind)
        }
        Some(id) => format!("Waiting for a Node with spec.providerID {id} to exist"),
    })
}

fn deleting() -> Verdict {
    (ConditionStatus::False, "Deleting", "Machine is deleting".to_owned())
}

fn unknown(message: String) -> Verdict {
    (ConditionStatus::Unknown, "InspectionFailed", message)
}

/// Returns the verdict on the member of etcd that runs on a Node. The list of members does not say which of them run, so
/// that of a Node which does not exist or report, or whose server is off, is unknown: etcd could not spare another member.
fn member(replica: &Replica, node: Result<Option<&Node>, &str>, inspection: &Inspection) -> Verdict {
    if replica.is_deleting() {
        return deleting();
    }
    let Some(name) = replica.node() else {
        let members = inspection.members.as_deref().ok();
        let stage = join_stage::describe(replica, members, inspection.nodes.as_deref().ok());
        let (status, reason, message) = without_node(replica);
        return (status, reason, format!("{message}: {stage}"));
    };
    match node {
        Ok(None) => return unknown(format!("Node {name} does not exist")),
        Ok(Some(node)) if has_unreachable_taint(node) => {
            return unknown(format!("Node {name} is unreachable"));
        }
        _ => {}
    }
    if let Some(state) = replica.off_state() {
        return unknown(format!("Nova has last reported the server of Node {name} as {state}"));
    }
    let members = match &inspection.members {
        Ok(members) => members,
        Err(error) => return unknown(format!("Failed to connect to etcd: {error}")),
    };
    let broken = |message: String| (ConditionStatus::False, "NotHealthy", message);
    let is_unstarted = |member: &&Member| member.name.is_empty() && belongs(member, replica);
    let unstarted = || match members.iter().find(is_unstarted) {
        Some(member) => format!(": its member {:x} has not started", member.id),
        None => String::new(),
    };
    match members.iter().find(|member| member.name == name) {
        None => broken(format!("Etcd member list does not contain a member {name}{}", unstarted())),
        Some(member) if member.is_learner => {
            broken(format!("Etcd member {name} is a learner without a vote"))
        }
        Some(member) if member.has_alarm => broken(format!("Etcd member {name} reports an alarm")),
        Some(_) => (ConditionStatus::True, "Healthy", String::new()),
    }
}

/// Returns the verdict on the Node. That of a Machine which is being deleted is inspected while it exists.
fn of_node(replica: &Replica, node: Result<Option<&Node>, &str>) -> Verdict {
    match (node, replica.node()) {
        (Err(error), _) => unknown(format!("Failed to list Nodes: {error}")),
        (Ok(None), _) if replica.is_deleting() => deleting(),
        (Ok(None), None) => without_node(replica),
        (Ok(None), Some(name)) => unknown(format!("Node {name} does not exist")),
        (Ok(Some(node)), _) if has_unreachable_taint(node) => {
            unknown(format!("Node {} is unreachable", node.name_any()))
        }
        (Ok(Some(node)), _) => labels(replica, node),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::replica::examples::{addressed, going, healthy, off, replica};
    use super::*;

    fn reached(node: serde_json::Value, member: Member) -> Inspection {
        let node: Node = serde_json::from_value(node).unwrap();
        Inspection { nodes: Ok(vec![node]), pods: Default::default(), members: Ok(vec![member]) }
    }

    #[test]
    fn a_machine_that_is_updated_in_place_is_not_up_to_date() {
        let mut replica = healthy("a", 1);
        assert_eq!(up_to_date(&replica, &Time::default()).reason, "UpToDate");
        super::super::replica::examples::set(&mut replica, "Updating", ConditionStatus::True);
        let found = up_to_date(&replica, &Time::default());
        assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::False, "Updating"));
        assert_eq!(found.message, "* In-place update in progress");
        let conditions = replica.machine.status.as_mut().unwrap().conditions.as_mut().unwrap();
        let updating = conditions.iter_mut().find(|it| it.kind == "Updating").unwrap();
        updating.reason = "InPlaceUpdateFailed".to_owned();
        updating.message = "In-place update failed: no disk".to_owned();
        let found = up_to_date(&replica, &Time::default());
        assert_eq!(found.message, "* In-place update failed: no disk");
    }

    #[test]
    fn a_kubelet_of_another_version_is_no_other_version_of_the_machine() {
        let mut replica = healthy("a", 1);
        replica.machine.spec.version = Some("v1.34.1".to_owned());
        let status = replica.machine.status.get_or_insert_default();
        status.node_info.get_or_insert_default().kubelet_version = "v1.34.0".to_owned();
        let found = up_to_date(&replica, &Time::default());
        assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::False, "Updating"));
        assert_eq!(found.message, "* Node.status.nodeInfo.kubeletVersion v1.34.0, v1.34.1 required");
    }

    #[test]
    fn the_member_and_the_labels_of_a_machine_give_status_and_reason() {
        use ConditionStatus::{False, True, Unknown};
        let role = json!({CONTROL_PLANE_ROLE: ""});
        let node = |labels: &serde_json::Value, taints: serde_json::Value| json!({"metadata": {"name": "a", "labels": labels}, "spec": {"taints": taints}});
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let known = |is_learner, has_alarm| Member {
            name: "a".to_owned(),
            is_learner,
            has_alarm,
            ..Member::default()
        };
        let mut tainted = healthy("a", 1);
        tainted.config = Some(KubeadmConfig::default());
        let full = || node(&role, taint(CONTROL_PLANE_ROLE, "NoSchedule"));
        let bare = || node(&role, json!([]));
        let lost = node(&role, taint("node.kubernetes.io/unreachable", "NoExecute"));
        let named = |name: &str| Member { name: name.to_owned(), ..Member::default() };
        let other = named("b");
        let (labels, member) = (NODE_LABELS, "EtcdMemberHealthy");
        let table = [
            (labels, healthy("a", 1), bare(), known(false, false), True, "Set"),
            (labels, tainted.clone(), full(), known(false, false), True, "Set"),
            (labels, tainted, bare(), known(false, false), False, "NotSet"),
            (labels, healthy("a", 1), node(&json!({}), json!([])), known(false, false), False, "NotSet"),
            (labels, healthy("a", 1), lost.clone(), known(false, false), Unknown, "InspectionFailed"),
            (labels, healthy("b", 1), full(), known(false, false), Unknown, "InspectionFailed"),
            (labels, going(healthy("a", 1)), full(), known(false, false), True, "Set"),
            (labels, going(healthy("b", 1)), full(), known(false, false), False, "Deleting"),
            (labels, replica("a", 1), full(), known(false, false), Unknown, "InspectionFailed"),
            (member, healthy("a", 1), full(), known(false, false), True, "Healthy"),
            (member, healthy("a", 1), lost.clone(), known(false, false), Unknown, "InspectionFailed"),
            (member, healthy("a", 1), full(), known(true, false), False, "NotHealthy"),
            (member, healthy("a", 1), full(), known(false, true), False, "NotHealthy"),
            (member, healthy("a", 1), full(), other, False, "NotHealthy"),
            (member, going(healthy("a", 1)), full(), known(false, false), False, "Deleting"),
            (member, replica("a", 1), full(), known(false, false), Unknown, "InspectionFailed"),
            (member, off(healthy("a", 1)), full(), known(false, false), Unknown, "InspectionFailed"),
            (member, healthy("gone", 1), full(), named("gone"), Unknown, "InspectionFailed"),
        ];
        for (kind, replica, node, of_etcd, status, reason) in table {
            let found = inspected(kind, &replica, &reached(node.clone(), of_etcd.clone()));
            assert_eq!((found.0, found.1), (status, reason), "{kind} {node} {of_etcd:?}: {}", found.2);
        }
    }

    /// A server did not join, and no condition said how far it had come.
    #[test]
    fn the_condition_of_the_member_names_the_stage_of_a_join() {
        let peer_urls = vec!["https://10.0.0.1:2380".to_owned()];
        let never_started = Member { id: 255, peer_urls, is_learner: true, ..Member::default() };
        let inspection = reached(json!({"metadata": {"name": "a"}}), never_started);
        let message = |replica: &Replica| inspected("EtcdMemberHealthy", replica, &inspection).2;
        let joined = addressed(healthy("a", 1), "10.0.0.1");
        let absent = "Etcd member list does not contain a member a";
        assert_eq!(message(&joined), format!("{absent}: its member ff has not started"));
        assert_eq!(message(&healthy("a", 1)), absent);
        let mut boots = replica("b", 1);
        boots.machine.spec.provider_id = Some("openstack:///1".to_owned());
        let expected =
            "Waiting for a Node with spec.providerID openstack:///1 to exist: it has no bootstrap data yet";
        assert_eq!(message(&boots), expected);
    }
}
