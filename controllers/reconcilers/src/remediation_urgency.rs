//! Urgency of a remediation: whether an unhealthy Machine is replaced outside the maintenance window, too. Pure.

use apiserver_types::{Condition, ConditionStatus, Machine};
use kube::ResourceExt;

use crate::machine_labels::REMEDIATE;

/// Reason of a condition that says nothing about the Node: it cannot be read.
const UNREAD: &str = "ConnectionDown";

/// Returns true if an unhealthy Machine is to be replaced at once. One whose server and Node work can wait, unless a
/// person has marked it for a remediation.
pub(crate) fn is_urgent(machine: &Machine) -> bool {
    let has_server = machine.condition("InfrastructureReady").is_some_and(Condition::holds);
    let has_node = machine
        .condition("NodeReady")
        .is_some_and(|it| it.holds() || (it.status == ConditionStatus::Unknown && it.reason == UNREAD));
    machine.annotations().contains_key(REMEDIATE) || !has_server || !has_node
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineSpec, MachineStatus, Time};

    use super::*;

    #[test]
    fn only_a_machine_whose_server_and_node_work_can_wait() {
        use ConditionStatus::{False, True, Unknown};
        let machine = |conditions: &[(&str, ConditionStatus, &str)]| {
            let of = |(kind, status, reason): &(&str, ConditionStatus, &str)| {
                Condition::new(kind, *status, reason, "", Time::default())
            };
            let conditions = Some(conditions.iter().map(of).collect());
            let mut machine = Machine::new("m", MachineSpec::default());
            machine.status = Some(MachineStatus { conditions, ..MachineStatus::default() });
            machine
        };
        let server = ("InfrastructureReady", True, "Ready");
        let table = [
            ("both work", vec![server, ("NodeReady", True, "NodeReady")], false),
            ("the Node is not ready", vec![server, ("NodeReady", False, "NodeNotReady")], true),
            ("the kubelet is silent", vec![server, ("NodeReady", Unknown, "NodeReadyUnknown")], true),
            ("the Node is gone", vec![server, ("NodeReady", False, "NodeDeleted")], true),
            ("no connection", vec![server, ("NodeReady", Unknown, "ConnectionDown")], false),
            (
                "the server is gone",
                vec![("InfrastructureReady", False, "NotReady"), ("NodeReady", True, "NodeReady")],
                true,
            ),
            ("nothing is known", vec![], true),
        ];
        for (case, conditions, expected) in table {
            assert_eq!(is_urgent(&machine(&conditions)), expected, "{case}");
        }
        let mut marked = machine(&[server, ("NodeReady", True, "NodeReady")]);
        marked.annotations_mut().insert(REMEDIATE.to_owned(), String::new());
        assert!(is_urgent(&marked));
    }
}
