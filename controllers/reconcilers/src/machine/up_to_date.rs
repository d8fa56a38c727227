//! Condition `UpToDate` of a Machine of a MachineDeployment. The control plane writes that of its own Machines.

use apiserver_types::{Condition, ConditionStatus, Machine, Time};

use super::conditions::{self, is_updating};
use super::observe::Observed;
use crate::machine_deployment::sameness;

/// Returns the condition; `None` for a Machine that no MachineDeployment owns.
pub(super) fn condition(machine: &Machine, observed: &Observed, now: &Time) -> Option<Condition> {
    let (set, deployment) = observed.set.as_ref().zip(observed.deployment.as_ref())?;
    let mut lines = sameness::differences(set, deployment);
    let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let expired = sameness::rollout_after(deployment, observed.now);
    if expired.is_some_and(|after| created.is_none_or(|created| created < after)) {
        lines.push(sameness::EXPIRED.to_owned());
    }
    let (status, reason) = match (lines.is_empty(), other_kubelet(machine)) {
        (false, _) => (ConditionStatus::False, "NotUpToDate"),
        (true, _) if is_updating(machine, observed) => {
            let failure = conditions::update_failure(machine, observed);
            lines.push(failure.unwrap_or_else(|| "In-place update in progress".to_owned()));
            (ConditionStatus::False, "Updating")
        }
        (true, Some(line)) => {
            lines.push(line);
            (ConditionStatus::False, "Updating")
        }
        (true, None) => (ConditionStatus::True, "UpToDate"),
    };
    let message = lines.iter().map(|line| format!("* {line}")).collect::<Vec<_>>().join("\n");
    Some(Condition::new("UpToDate", status, reason, &message, now.clone()))
}

/// Describes a kubelet that does not run the Machine's version.
fn other_kubelet(machine: &Machine) -> Option<String> {
    let running = machine.status.as_ref()?.node_info.as_ref().map(|info| info.kubelet_version.as_str())?;
    let wanted = machine.spec.version.as_deref()?;
    (!running.is_empty() && running != wanted)
        .then(|| format!("Node.status.nodeInfo.kubeletVersion {running}, {wanted} required"))
}
