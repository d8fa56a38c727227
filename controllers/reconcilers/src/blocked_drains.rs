//! Drains that a disruption budget blocks until a person changes it, as the last pass of each Machine has reported them.

use std::collections::BTreeSet;

use apiserver_types::Machine;
use controllers_workload::drain::NEVER;
use kube::ResourceExt;

/// Begin of a sentence about a budget.
const SUBJECT: &str = "PodDisruptionBudget ";

/// Returns a line for each Machine and each budget that will never allow an eviction, in order.
pub(crate) fn blocked_drains<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Vec<String> {
    let lines: BTreeSet<String> = machines.into_iter().flat_map(of).collect();
    lines.into_iter().collect()
}

fn of(machine: &Machine) -> Vec<String> {
    let draining = machine.condition("Deleting").filter(|it| it.holds() && it.reason == "DrainingNode");
    let message = draining.map(|it| it.message.as_str()).unwrap_or_default();
    let lines = message.lines().filter(|line| line.contains(NEVER));
    let sentences = lines.map(|line| line.find(SUBJECT).and_then(|at| line.get(at..)).unwrap_or(line));
    let name = machine.name_any();
    sentences.map(|sentence| format!("Machine {name} is being drained, and {sentence}")).collect()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Condition, ConditionStatus, MachineSpec, Time, set_condition};

    use super::*;

    fn machine(name: &str, reason: &str, message: &str) -> Machine {
        let mut machine = Machine::new(name, MachineSpec::default());
        let condition = Condition::new("Deleting", ConditionStatus::True, reason, message, Time::default());
        set_condition(machine.status.get_or_insert_default().conditions.get_or_insert_default(), condition);
        machine
    }

    #[test]
    fn a_budget_is_named_with_each_machine_whose_drain_it_blocks() {
        let budget = format!("PodDisruptionBudget web/all {NEVER}: it needs 2 healthy Pods");
        let message = format!(
            "Drain not completed yet (started at 2026-01-01T00:00:00Z):\n* Pod web/x: it ends\n\
             * Pods web/a: cannot evict pod. {budget}\n* Pod web/b: cannot evict pod. {budget}"
        );
        let machines = [
            machine("b", "DrainingNode", &message),
            machine("a", "DrainingNode", &message),
            machine("c", "DrainingNode", "* Pod web/x: it ends"),
            machine("d", "WaitingForVolumeDetach", &message),
            Machine::new("e", MachineSpec::default()),
        ];
        let expected = ["a", "b"].map(|name| format!("Machine {name} is being drained, and {budget}"));
        assert_eq!(blocked_drains(&machines), expected);
    }
}
