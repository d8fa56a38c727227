//! Scale-down of a MachineDeployment during a rollout: it waits for deletions in progress, and takes Machines of the
//! present set that a user has marked, e.g. an autoscaler. Pure.

use std::time::Duration;

use apiserver_types::{Condition, Machine, MachineDeployment, MachineSet};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::decide::numbers;
use super::observe::Observed;
use super::rollout::{Limits, Plan, Set};
use super::sameness;
use crate::aggregate::{NAMES, list_names, plural};
use crate::machine_labels::{DELETE_FIRST, DESIRED_REPLICAS};
use crate::replica_status::{SLOW_DELETION_MINUTES, is_deleting, until_slow};

/// Returns the number of Machines before a scale-down that waits, because a rollout is in progress and a Machine is being
/// deleted. `new` is the set with the present template. A scale-down to 0 never waits: all Machines go. Nothing waits for
/// a slow deletion, which may never end.
pub(super) fn held(
    deployment: &MachineDeployment,
    observed: &Observed,
    new: &MachineSet,
    now: Timestamp,
) -> Option<i32> {
    let before = before(deployment, new)?;
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let is_held = wanted > 0
        && deployment.spec.paused != Some(true)
        && deployment.metadata.deletion_timestamp.is_none()
        && is_rolling(observed, new)
        && observed.machines.iter().any(|it| holds(it, now));
    is_held.then_some(before)
}

/// Returns the time after which a scale-down waits no longer; `None` if it does not wait.
pub(super) fn wait(
    deployment: &MachineDeployment,
    observed: &Observed,
    new: &MachineSet,
    now: Timestamp,
) -> Option<Duration> {
    held(deployment, observed, new, now)?;
    observed.machines.iter().filter_map(|it| until_slow(it, now)).max()
}

/// Returns true if a scale-down waits for the deletion of a Machine.
fn holds(machine: &Machine, now: Timestamp) -> bool {
    until_slow(machine, now).is_some_and(|left| !left.is_zero())
}

/// Returns a copy of a MachineDeployment with another number of Machines.
pub(super) fn with_replicas(deployment: &MachineDeployment, replicas: i32) -> MachineDeployment {
    let mut sized = deployment.clone();
    sized.spec.replicas = Some(replicas);
    sized
}

/// Returns the number of Machines of the present set that a scale-down during a rollout takes first: those that a user has
/// marked. The rollout replaces them later, as far as the new number of Machines needs it.
pub(super) fn marked(deployment: &MachineDeployment, observed: &Observed, new: &MachineSet) -> i64 {
    let Some(before) = before(deployment, new).filter(|_| is_rolling(observed, new)) else { return 0 };
    let less = i64::from(before) - i64::from(deployment.spec.replicas.unwrap_or(1));
    let marked = marked_machines(observed, new);
    i64::try_from(marked).unwrap_or(i64::MAX).min(less).min(numbers(new).desired)
}

/// Returns true if the present set still has to delete Machines that a user has marked. If it grew, it would keep them.
pub(super) fn is_pending(observed: &Observed, new: &MachineSet) -> bool {
    let Set { desired, existing, .. } = numbers(new);
    // A deletion may never end, and is no reason to wait.
    let going = observed.machines.iter().filter(|it| is_of(it, new) && is_deleting(it)).count();
    let staying = existing - i64::try_from(going).unwrap_or(i64::MAX);
    staying > desired && is_rolling(observed, new) && marked_machines(observed, new) > 0
}

/// Returns how many Machines of a set a user has marked, without those that are being deleted.
fn marked_machines(observed: &Observed, set: &MachineSet) -> usize {
    let is_marked =
        |it: &&Machine| is_of(it, set) && !is_deleting(it) && it.annotations().contains_key(DELETE_FIRST);
    observed.machines.iter().filter(is_marked).count()
}

/// Plans the numbers of all sets by a `planner`. The present one has `marked` Machines less. If there are any, or if
/// `is_pending`, it does not grow.
pub(super) fn plan(
    planner: impl FnOnce(Limits, &Set, &[Set]) -> Plan,
    limits: Limits,
    new: Set,
    old: &[Set],
    (marked, is_pending): (i64, bool),
) -> Plan {
    let new = Set { desired: new.desired - marked, ..new };
    let mut plan = planner(limits, &new, old);
    if marked > 0 || is_pending {
        let number = plan.entry(new.name).or_insert(new.desired);
        *number = new.desired.min(*number);
    }
    plan
}

/// Adds to the condition ScalingDown the Machines that a scale-down waits for.
pub(super) fn explained(
    mut condition: Condition,
    deployment: &MachineDeployment,
    observed: &Observed,
    now: Timestamp,
) -> Condition {
    let new = sameness::find_new(deployment, &observed.sets, now);
    let is_held = new.is_some_and(|new| held(deployment, observed, new, now).is_some());
    if is_held && condition.holds() {
        let names =
            observed.machines.iter().filter(|it| holds(it, now)).map(|it| it.metadata.name.as_deref());
        let names: Vec<&str> = names.map(Option::unwrap_or_default).collect();
        let (noun, verb) = (plural("Machine", names.len()), if names.len() == 1 { "is" } else { "are" });
        let line = format!(
            "A rollout is in progress: waiting until {noun} {} {verb} deleted, for at most \
             {SLOW_DELETION_MINUTES} minutes",
            list_names(names, NAMES)
        );
        condition.message = format!("{}\n* {line}", condition.message);
    }
    condition
}

/// Returns the number of Machines that the sets were last planned for, if it is above the present one.
fn before(deployment: &MachineDeployment, new: &MachineSet) -> Option<i32> {
    let before: i32 = new.annotations().get(DESIRED_REPLICAS)?.parse().ok()?;
    Some(before).filter(|before| *before > deployment.spec.replicas.unwrap_or(1))
}

/// Returns true if a set with another template than the present one has Machines.
fn is_rolling(observed: &Observed, new: &MachineSet) -> bool {
    let mut old = observed.sets.iter().filter(|set| set.metadata.name != new.metadata.name).map(numbers);
    old.any(|set| set.desired > 0 || set.existing > 0)
}

fn is_of(machine: &Machine, set: &MachineSet) -> bool {
    let mut owners = machine.owner_references().iter();
    owners.any(|owner| owner.controller == Some(true) && Some(&owner.uid) == set.metadata.uid.as_ref())
}

#[cfg(test)]
#[path = "scale_down_tests.rs"]
mod tests;
