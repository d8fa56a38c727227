//! Hook phase of a Machine's deletion: the Machine is drained, and its pre-terminate hooks remain.

use apiserver_types::Machine;

/// Reason of the condition `Deleting` in the hook phase. Upstream's.
pub(crate) const REASON: &str = "WaitingForPreTerminateHook";

/// Returns true if a Machine waits for its pre-terminate hooks.
pub(crate) fn waits(machine: &Machine) -> bool {
    machine.condition("Deleting").is_some_and(|it| it.holds() && it.reason == REASON)
}
