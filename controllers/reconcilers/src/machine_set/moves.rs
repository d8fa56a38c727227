//! Moves of Machines between the sets of a MachineDeployment, and the begin of their updates in place. Pure.

use apiserver_types::protection::is_protected;
use apiserver_types::{DeletionOrder, Machine, MachineSet};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::deletion_order;
use super::observe::Observed;
use crate::in_place::{self, ACKNOWLEDGED, MOVE_TO, PENDING_ACKNOWLEDGE};
use crate::machine_labels::UPDATING;
use crate::replica_status::{is_deleting, needs_remediation};

/// Machines that leave a set which moves them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Move {
    /// Name of the set that receives them.
    pub target: String,
    pub machines: Vec<String>,
    /// Unhealthy Machines, which are deleted. The present set replaces them.
    pub deletions: Vec<String>,
}

impl Move {
    /// Returns true if no Machine can leave now.
    pub(super) fn is_empty(&self) -> bool {
        self.machines.is_empty() && self.deletions.is_empty()
    }
}

/// Returns the Machines that leave a set with this number of Machines too many; `None` if the set deletes them. Those without
/// a Node, and those in an update, leave later.
pub(super) fn plan(
    set: &MachineSet,
    machines: &[Machine],
    (order, now): (DeletionOrder, Timestamp),
    excess: usize,
) -> Option<Move> {
    let target = set.annotations().get(MOVE_TO).filter(|name| !name.is_empty())?;
    let mut plan = Move { target: target.clone(), ..Move::default() };
    let mut left = excess;
    for machine in deletion_order::in_order(machines, order, now) {
        if left == 0 {
            break;
        }
        let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
        if is_deleting(machine) {
            left -= 1;
        } else if needs_remediation(machine) && !is_protected(&machine.metadata) {
            plan.deletions.push(machine.name_any());
            left -= 1;
        } else if has_node && !in_place::is_updating(machine) {
            plan.machines.push(machine.name_any());
            left -= 1;
        }
    }
    Some(plan)
}

/// Returns true if a Machine counts in the number of its set. One that was moved to the set does so once the
/// MachineDeployment has acknowledged it.
pub(super) fn counts(set: &MachineSet, observed: &Observed, machine: &Machine) -> bool {
    let is_moved = machine.annotations().contains_key(PENDING_ACKNOWLEDGE);
    let is_acknowledged = || {
        let names = in_place::listed(set.annotations().get(ACKNOWLEDGED));
        names.contains(machine.name_any().as_str())
    };
    // Without a MachineDeployment, none would acknowledge it.
    !is_moved || observed.deployment.is_none() || is_acknowledged()
}

/// Returns the Machines of a set whose updates are to begin.
pub(super) fn to_begin(set: &MachineSet, observed: &Observed) -> Vec<String> {
    let is_due = |machine: &&Machine| {
        machine.annotations().contains_key(UPDATING)
            && !in_place::is_pending(machine)
            && !is_deleting(machine)
            && counts(set, observed, machine)
    };
    observed.machines.iter().filter(is_due).map(ResourceExt::name_any).collect()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        Condition, ConditionStatus, MachineDeployment, MachineDeploymentSpec, MachineSetSpec, MachineSpec,
        MachineStatus, NodeReference, Time,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;

    use super::*;
    use crate::in_place::PENDING_HOOKS;

    fn set(annotations: &[(&str, &str)]) -> MachineSet {
        let mut set = MachineSet::new("ms", MachineSetSpec::default());
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        set.annotations_mut().extend(annotations.iter().map(owned));
        set
    }

    fn machine(name: &str, annotations: &[&str]) -> Machine {
        let mut machine = Machine::new(name, MachineSpec::default());
        let node_ref = Some(NodeReference { name: name.to_owned() });
        machine.status = Some(MachineStatus { node_ref, ..MachineStatus::default() });
        machine.annotations_mut().extend(annotations.iter().map(|key| ((*key).to_owned(), String::new())));
        machine
    }

    fn unhealthy(mut machine: Machine) -> Machine {
        let no = ConditionStatus::False;
        let of = |kind: &str| Condition::new(kind, no, "Reason", "", Time::default());
        let conditions = Some(vec![of("HealthCheckSucceeded"), of("OwnerRemediated")]);
        machine.status.get_or_insert_default().conditions = conditions;
        machine
    }

    fn planned(machines: &[Machine], excess: usize) -> (Vec<String>, Vec<String>) {
        let order = (DeletionOrder::Random, Timestamp::UNIX_EPOCH);
        let plan = plan(&set(&[(MOVE_TO, "new")]), machines, order, excess).unwrap();
        assert_eq!(plan.target, "new");
        (plan.machines, plan.deletions)
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_a_set_that_is_told_to_moves_its_machines() {
        let order = (DeletionOrder::Random, Timestamp::UNIX_EPOCH);
        assert_eq!(plan(&set(&[]), &[machine("a", &[])], order, 1), None);
        assert_eq!(plan(&set(&[(MOVE_TO, "")]), &[machine("a", &[])], order, 1), None);
        assert!(plan(&set(&[(MOVE_TO, "new")]), &[machine("a", &[])], order, 0).unwrap().is_empty());
    }

    #[test]
    fn as_many_machines_leave_as_there_are_too_many() {
        let mut going = machine("z-going", &[]);
        going.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
        let mut booting = machine("a-booting", &[]);
        booting.status = None;
        let updating = machine("b-updating", &[UPDATING]);
        let broken = unhealthy(machine("c-broken", &[]));
        let machines = [machine("d", &[]), machine("e", &[]), going, booting, updating, broken];
        for (excess, moved, deleted) in [
            (0, vec![], vec![]),
            (1, vec![], vec![]),
            (2, vec![], vec!["c-broken"]),
            (3, vec!["d"], vec!["c-broken"]),
            (4, vec!["d", "e"], vec!["c-broken"]),
            (6, vec!["d", "e"], vec!["c-broken"]),
        ] {
            assert_eq!(planned(&machines, excess), (names(&moved), names(&deleted)), "{excess}");
        }
    }

    #[test]
    fn the_server_would_refuse_to_delete_a_protected_machine_so_it_is_moved() {
        let protected = unhealthy(machine("a", &[]));
        let mut kept = protected.clone();
        let key = apiserver_types::protection::PROTECTED.to_owned();
        kept.annotations_mut().insert(key, "true".to_owned());
        assert_eq!(planned(&[kept], 1), (names(&["a"]), names(&[])));
        assert_eq!(planned(&[protected], 1), (names(&[]), names(&["a"])));
    }

    #[test]
    fn the_update_of_a_moved_machine_begins_once_it_counts() {
        let moved = || machine("a", &[UPDATING, PENDING_ACKNOWLEDGE]);
        let mut begun = machine("b", &[UPDATING]);
        begun.annotations_mut().insert(PENDING_HOOKS.to_owned(), "UpdateMachine".to_owned());
        let deployment = Some(MachineDeployment::new("md", MachineDeploymentSpec::default()));
        let machines = vec![moved(), begun, machine("c", &[])];
        let mut observed = Observed { deployment, machines, ..Observed::default() };
        let (unknown, other, known) =
            (set(&[]), set(&[(ACKNOWLEDGED, "aa,b")]), set(&[(ACKNOWLEDGED, "a,b")]));
        for set in [&unknown, &other] {
            assert!(!counts(set, &observed, &moved()));
            assert_eq!(to_begin(set, &observed), names(&[]));
        }
        assert!(counts(&known, &observed, &moved()));
        assert_eq!(to_begin(&known, &observed), names(&["a"]));
        observed.deployment = None;
        assert_eq!(to_begin(&unknown, &observed), names(&["a"]), "none would acknowledge it");
        observed.machines[0].metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
        assert_eq!(to_begin(&unknown, &observed), names(&[]));
    }
}
