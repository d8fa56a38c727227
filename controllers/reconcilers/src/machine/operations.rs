//! MachineOperations that update a Machine in place, as their watch reports them. A pass reads none of them itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use apiserver_types::{Machine, MachineAction, MachineOperation, OperationPhase};
use kube::ResourceExt;

/// Namespace and name of a Machine.
type Key = (String, String);

/// Updates in flight: the operation's name and its progress, by the Machine. At most one operation runs on a Machine.
#[derive(Debug, Default)]
pub(super) struct Updates(Mutex<HashMap<Key, (String, String)>>);

impl Updates {
    /// Takes over the state of an operation. Returns true if the condition of its Machine changes.
    pub(super) fn note(&self, operation: &MachineOperation) -> bool {
        let key = (operation.namespace().unwrap_or_default(), operation.spec.machine_name.clone());
        let name = operation.name_any();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match progress(operation) {
            Some(progress) => known.insert(key, (name.clone(), progress.clone())) != Some((name, progress)),
            None => match known.get(&key) {
                Some((running, _)) if *running == name => known.remove(&key).is_some(),
                _ => false,
            },
        }
    }

    /// Returns the progress of the operation that updates a Machine.
    pub(super) fn of(&self, machine: &Machine) -> Option<String> {
        let key = (machine.namespace().unwrap_or_default(), machine.name_any());
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).map(|(_, progress)| progress.clone())
    }
}

/// Returns the progress of a running update; `None` for other actions, and before and after the operation.
fn progress(operation: &MachineOperation) -> Option<String> {
    let status = operation.status.as_ref()?;
    let is_going = operation.metadata.deletion_timestamp.is_some();
    let is_running = status.phase == Some(OperationPhase::Running) && !is_going;
    if operation.spec.action != MachineAction::Upgrade || !is_running {
        return None;
    }
    let name = operation.name_any();
    let steps = status.steps.as_deref().unwrap_or_default();
    let current = status.current_step.as_deref().unwrap_or_default();
    let position = steps.iter().position(|step| step.name == current);
    Some(match position {
        Some(index) => format!("step {}/{} {current} of MachineOperation {name}", index + 1, steps.len()),
        None => format!("MachineOperation {name}"),
    })
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;
    use serde_json::json;

    use super::*;

    fn operation(name: &str, action: &str, phase: &str) -> MachineOperation {
        let object = json!({"metadata": {"name": name, "namespace": "n"},
            "spec": {"action": action, "machineName": "m"},
            "status": {"phase": phase, "currentStep": "ClaimServer",
                "steps": [{"name": "DrainNode", "state": "Done"}, {"name": "ClaimServer", "state": "Running"}]}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_machine_is_updated_while_its_upgrade_runs() {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.namespace = Some("n".to_owned());
        let updates = Updates::default();
        for (action, phase) in [("Upgrade", "Pending"), ("Reboot", "Running"), ("Upgrade", "Complete")] {
            assert!(!updates.note(&operation("a", action, phase)), "{action} {phase}");
        }
        assert!(updates.note(&operation("a", "Upgrade", "Running")));
        assert!(!updates.note(&operation("a", "Upgrade", "Running")), "nothing is new");
        assert_eq!(updates.of(&machine).as_deref(), Some("step 2/2 ClaimServer of MachineOperation a"));
        assert!(!updates.note(&operation("b", "Upgrade", "Failed")), "another operation");
        assert!(updates.of(&machine).is_some());
        assert_eq!(updates.of(&Machine::new("other", MachineSpec::default())), None);
        assert!(updates.note(&operation("a", "Upgrade", "Failed")));
        assert_eq!(updates.of(&machine), None);
    }
}
