//! Labels and annotations of updates in place. Upstream's names.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::Machine;
use controllers_extensions::Hook;
use kube::ResourceExt;

use crate::machine_labels::UPDATING;

/// Annotation of an old MachineSet with the name of the set to which it moves Machines, in place of deleting them.
pub(crate) const MOVE_TO: &str = "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset";

/// Annotation of a MachineSet with the names of the sets from which it receives Machines, sorted and separated by commas.
pub(crate) const RECEIVE_FROM: &str =
    "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets";

/// Annotation of a Machine that was moved, and does not count in its new set yet.
pub(crate) const PENDING_ACKNOWLEDGE: &str =
    "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";

/// Annotation of a MachineSet with the names of the moved Machines that its number counts, sorted and separated by commas.
pub(crate) const ACKNOWLEDGED: &str = "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move";

/// Annotation of a Machine with the hooks that are to be called, sorted and separated by commas.
pub(crate) const PENDING_HOOKS: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// Marks of a Machine.
const OF_MACHINES: [&str; 3] = [UPDATING, PENDING_ACKNOWLEDGE, PENDING_HOOKS];

/// Returns the annotations of a template without marks. Only the controllers mark Machines, because they have an update begin
/// that an extension server has accepted.
pub(crate) fn without_marks(mut annotations: BTreeMap<String, String>) -> BTreeMap<String, String> {
    annotations.retain(|key, _| !OF_MACHINES.contains(&key.as_str()));
    annotations
}

/// Returns the names in an annotation.
pub(crate) fn listed(text: Option<&String>) -> BTreeSet<&str> {
    let names = text.into_iter().flat_map(|text| text.split(','));
    names.map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Returns the content of an annotation with these names.
pub(crate) fn joined(names: BTreeSet<&str>) -> String {
    names.into_iter().collect::<Vec<_>>().join(",")
}

/// Returns true if the update of a Machine is begun, so that an extension server is called for it.
pub(crate) fn is_pending(machine: &Machine) -> bool {
    hooks(machine).contains(Hook::UpdateMachine.name().as_str())
}

/// Returns true if a Machine is being updated in place: from its first mark to its last one.
pub(crate) fn is_updating(machine: &Machine) -> bool {
    machine.annotations().contains_key(UPDATING) || is_pending(machine)
}

/// Returns the pending hooks of a Machine with that of its update.
pub(crate) fn with_hook(machine: &Machine) -> String {
    let hook = Hook::UpdateMachine.name();
    let mut hooks = hooks(machine);
    hooks.insert(&hook);
    joined(hooks)
}

/// Returns the pending hooks of a Machine without that of its update, if there are others.
pub(crate) fn without_hook(machine: &Machine) -> Option<String> {
    let hook = Hook::UpdateMachine.name();
    let mut hooks = hooks(machine);
    hooks.remove(hook.as_str());
    (!hooks.is_empty()).then(|| joined(hooks))
}

fn hooks(machine: &Machine) -> BTreeSet<&str> {
    listed(machine.annotations().get(PENDING_HOOKS))
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;

    use super::*;

    fn machine(annotations: &[(&str, &str)]) -> Machine {
        let mut machine = Machine::new("m", MachineSpec::default());
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        machine.annotations_mut().extend(annotations.iter().map(owned));
        machine
    }

    #[test]
    fn an_update_lasts_from_the_first_mark_to_the_last_one() {
        for (annotations, updating, pending) in [
            (vec![], false, false),
            (vec![(UPDATING, "")], true, false),
            (vec![(UPDATING, ""), (PENDING_HOOKS, "UpdateMachine")], true, true),
            (vec![(PENDING_HOOKS, "Other,UpdateMachine")], true, true),
            (vec![(PENDING_HOOKS, "Other")], false, false),
        ] {
            let machine = machine(&annotations);
            assert_eq!((is_updating(&machine), is_pending(&machine)), (updating, pending), "{annotations:?}");
        }
    }

    #[test]
    fn a_template_marks_no_machine() {
        let keys = ["own", UPDATING, PENDING_ACKNOWLEDGE, PENDING_HOOKS];
        let template = keys.map(|key| (key.to_owned(), String::new()));
        assert_eq!(without_marks(BTreeMap::from(template)).keys().collect::<Vec<_>>(), ["own"]);
    }

    #[test]
    fn the_hook_of_the_update_is_added_to_others_and_removed_alone() {
        assert_eq!(with_hook(&machine(&[])), "UpdateMachine");
        let other = machine(&[(PENDING_HOOKS, "Zoo,UpdateMachine, After")]);
        assert_eq!(with_hook(&other), "After,UpdateMachine,Zoo");
        assert_eq!(without_hook(&other).as_deref(), Some("After,Zoo"));
        assert_eq!(without_hook(&machine(&[(PENDING_HOOKS, "UpdateMachine")])), None);
        assert_eq!(listed(Some(&",".to_owned())), BTreeSet::new());
    }
}
