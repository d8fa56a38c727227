//! Nodes of sets of Machines: control planes, MachineDeployments and MachineSets.

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment, MachineSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::infrastructure::settle;
use super::machine::machine;
use super::node::{Cause, Counts, Node};
use super::severity::Severity;
use crate::objects::ClusterObjects;

/// Conditions that explain the state of a control plane, from the cause to its effects.
const CONTROL_PLANE_CAUSES: [&str; 5] = [
    "CertificatesAvailable",
    "Initialized",
    "EtcdClusterHealthy",
    "ControlPlaneComponentsHealthy",
    "Available",
];

/// Words of a set that cannot scale, before the reason.
const BLOCKED: &str = " blocked because";

/// Returns the node of the control plane with its Machines.
pub(super) fn control_plane(plane: &KubeadmControlPlane, objects: &ClusterObjects) -> Node {
    let status = plane.status.clone().unwrap_or_default();
    let mut node = Node::new(plane, &status.conditions.unwrap_or_default());
    node.version.clone_from(&plane.spec.version);
    let desired = plane.spec.replicas.unwrap_or_default();
    node.counts = Some(Counts { ready: status.ready_replicas.unwrap_or_default(), desired });
    settle(&mut node, &CONTROL_PLANE_CAUSES);
    node.children = machines_of(&plane.metadata, "KubeadmControlPlane", objects);
    let etcd = etcd(&node.children);
    let numbers = Numbers { desired, present: status.replicas, up_to_date: status.up_to_date_replicas };
    progress(&mut node, numbers, etcd.as_deref());
    node.note = etcd.unwrap_or_default();
    node.override_state(plane);
    node
}

/// Returns the node of a MachineDeployment with its MachineSets and their Machines.
pub(super) fn deployment(deployment: &MachineDeployment, objects: &ClusterObjects) -> Node {
    let status = deployment.status.clone().unwrap_or_default();
    let mut node = Node::new(deployment, &status.conditions.unwrap_or_default());
    node.version = deployment.spec.template.spec.version.clone().unwrap_or_default();
    let desired = deployment.spec.replicas.unwrap_or_default();
    node.counts = Some(Counts { ready: status.ready_replicas.unwrap_or_default(), desired });
    settle(&mut node, &["Available"]);
    if node.severity == Severity::Done {
        node.state = status.phase.map(|phase| format!("{phase:?}")).unwrap_or(node.state);
    }
    let numbers = Numbers { desired, present: status.replicas, up_to_date: status.up_to_date_replicas };
    progress(&mut node, numbers, None);
    let sets = objects.sets.iter().filter(|set| is_owned(&set.metadata, "MachineDeployment", &node.name));
    node.children = sets.map(|set| machine_set(set, objects)).collect();
    // The MachineSet knows what holds it up. Its own line is left out while it has no Machines.
    let is_blocked = |cause: &&Cause| cause.message.contains(BLOCKED);
    let cause = node.children.iter().filter_map(|set| set.cause.as_ref()).find(is_blocked);
    if let Some(cause) = cause.filter(|_| node.state == "ScalingUp") {
        node.cause = Some(cause.clone());
    }
    node.override_state(deployment);
    node
}

/// Returns the node of a MachineSet with its Machines.
pub(super) fn machine_set(set: &MachineSet, objects: &ClusterObjects) -> Node {
    let status = set.status.clone().unwrap_or_default();
    let mut node = Node::new(set, &status.conditions.unwrap_or_default());
    node.version = set.spec.template.spec.version.clone().unwrap_or_default();
    let desired = set.spec.replicas.unwrap_or_default();
    node.counts = Some(Counts { ready: status.ready_replicas.unwrap_or_default(), desired });
    settle(&mut node, &["MachinesReady"]);
    if node.severity == Severity::Waiting && node.cause.is_none() && node.holds("MachinesReady") {
        node.severity = Severity::Done;
    }
    if node.severity == Severity::Done {
        node.state = "Running".to_owned();
    }
    node.children = machines_of(&set.metadata, "MachineSet", objects);
    node.override_state(set);
    node
}

/// Returns true if the owner references name this owner.
pub(super) fn is_owned(metadata: &ObjectMeta, kind: &str, name: &str) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.kind == kind && owner.name == name)
}

fn machines_of(owner: &ObjectMeta, kind: &str, objects: &ClusterObjects) -> Vec<Node> {
    let name = owner.name.as_deref().unwrap_or_default();
    let mut machines: Vec<&Machine> =
        objects.machines.iter().filter(|it| is_owned(&it.metadata, kind, name)).collect();
    machines.sort_by_key(|machine| machine.name_any());
    machines.into_iter().map(|it| machine(it, objects)).collect()
}

/// Numbers of Machines in a rollout.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    desired: i32,
    present: Option<i32>,
    up_to_date: Option<i32>,
}

impl Numbers {
    /// Returns the number of Machines that are still to be made, else of those that are still to be deleted.
    fn text(self) -> String {
        let up_to_date = self.up_to_date.unwrap_or_default();
        let remaining = self.desired.saturating_sub(up_to_date).max(0);
        let old = self.present.unwrap_or_default().saturating_sub(up_to_date).max(0);
        match (remaining, old) {
            (0, 1) => "1 old Machine remains".to_owned(),
            (0, 2..) => format!("{old} old Machines remain"),
            _ => format!("{remaining} of {} to go", self.desired),
        }
    }
}

/// Replaces the message of a rollout, which repeats what the Machines below say, by the number of Machines to go, and by
/// the obstacle that ScalingUp names.
fn progress(node: &mut Node, numbers: Numbers, etcd: Option<&str>) {
    if node.state != "RollingOut" {
        return;
    }
    let mut message = numbers.text();
    if let Some(etcd) = etcd {
        message.push_str("; ");
        message.push_str(etcd);
    }
    let scaling = node.condition("ScalingUp").and_then(|it| it.message.split_once(BLOCKED));
    if let Some((_, obstacle)) = scaling {
        message = format!("{message}; blocked because{obstacle}");
        node.severity = Severity::Failed;
    }
    node.cause = Some(Cause { reason: String::new(), message });
}

/// Returns the health of etcd according to the Machines, or `None` if none reports it.
fn etcd(machines: &[Node]) -> Option<String> {
    let members = machines.iter().filter_map(|machine| machine.condition("EtcdMemberHealthy"));
    let members: Vec<bool> = members.map(apiserver_types::Condition::holds).collect();
    let healthy = members.iter().filter(|healthy| **healthy).count();
    (!members.is_empty()).then(|| format!("etcd {healthy} of {} healthy", members.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text was "0 of 1 to go".
    #[test]
    fn a_rollout_that_has_its_new_machines_counts_the_old_ones_that_remain() {
        let text = |desired, present, up_to_date| {
            Numbers { desired, present: Some(present), up_to_date: Some(up_to_date) }.text()
        };
        assert_eq!(text(3, 4, 1), "2 of 3 to go");
        assert_eq!(text(1, 2, 1), "1 old Machine remains");
        assert_eq!(text(2, 4, 2), "2 old Machines remain");
        assert_eq!(text(1, 1, 1), "0 of 1 to go");
    }
}
