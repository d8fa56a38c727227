//! The order in which a Machine goes.

use apiserver_types::{Machine, OpenStackMachine};
use kube::ResourceExt;

use crate::ownership;

/// Annotations that hold a deletion before the node is drained.
const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";

/// Annotations that hold a deletion before the server goes.
const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";

/// What to do next with a Machine that is being deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// Somebody wants to do something first: reason and annotation.
    WaitForHook(&'static str, String),
    /// Delete the server's object.
    DeleteInfrastructure,
    /// The server is on its way.
    WaitForInfrastructure(String),
    /// Nothing holds it.
    Release,
}

/// Says what to do next. Pure and total.
///
/// Nodes are not drained: nothing looks into workload clusters yet.
pub(super) fn next_step(machine: &Machine, infrastructure: Option<&OpenStackMachine>) -> Step {
    let hook = |prefix: &str| {
        let mut annotations = machine.annotations().keys();
        let name = |key: &&String| {
            key.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        annotations.find(name).cloned()
    };
    if let Some(annotation) = hook(PRE_DRAIN) {
        return Step::WaitForHook("WaitingForPreDrainHook", annotation);
    }
    if let Some(annotation) = hook(PRE_TERMINATE) {
        return Step::WaitForHook("WaitingForPreTerminateHook", annotation);
    }
    // An object that another Machine controls is not ours to delete.
    let ours = infrastructure.filter(|it| ownership::is_owned(*it, machine));
    match ours {
        None => Step::Release,
        Some(it) if it.metadata.deletion_timestamp.is_none() => Step::DeleteInfrastructure,
        Some(it) => {
            let ready = it.condition("Ready").map(|ready| ready.message.clone()).unwrap_or_default();
            Step::WaitForInfrastructure(format!("OpenStackMachine {}: {ready}", it.name_any()))
        }
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineSpec, OpenStackMachineSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn hooks_hold_and_the_server_goes_before_the_machine() {
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.metadata.uid = Some("u".to_owned());
        let mut infrastructure = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        assert_eq!(next_step(&machine, Some(&infrastructure)), Step::Release, "of somebody else");
        infrastructure.metadata.owner_references = Some(vec![ownership::reference(&machine, true)]);
        assert_eq!(next_step(&machine, Some(&infrastructure)), Step::DeleteInfrastructure);
        infrastructure.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        assert!(matches!(next_step(&machine, Some(&infrastructure)), Step::WaitForInfrastructure(_)));
        assert_eq!(next_step(&machine, None), Step::Release);
        let hook = format!("{PRE_TERMINATE}/backup");
        machine.annotations_mut().insert(hook.clone(), String::new());
        assert_eq!(next_step(&machine, None), Step::WaitForHook("WaitingForPreTerminateHook", hook));
    }
}
