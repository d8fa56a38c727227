//! Rollout planner: the number of Machines of every MachineSet of a MachineDeployment. Pure and total.
//!
//! The rules are Cluster API's. A plan contains only the MachineSets that change. What is deleted already, and what
//! became of earlier plans, is read from the MachineSets, so that a plan may be made at any time.

use std::collections::BTreeMap;

/// Numbers of one MachineSet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    pub name: String,
    /// Desired Machines.
    pub desired: i64,
    /// Existing Machines, those that are being deleted included.
    pub existing: i64,
    /// Available Machines.
    pub available: i64,
}

/// Limits of a rollout, in Machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Desired Machines of the MachineDeployment.
    pub replicas: i64,
    /// Machines above the desired number while a rollout is in progress.
    pub surge: i64,
    /// Machines below the desired number while a rollout is in progress.
    pub unavailable: i64,
}

/// State of the updates in place of Machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Updates {
    /// Machines of the present set that are up to date.
    pub up_to_date: i64,
    /// A Machine is being updated in place.
    pub in_progress: bool,
}

/// Planned number of Machines by MachineSet. One that is not in the plan stays as it is.
pub(super) type Plan = BTreeMap<String, i64>;

/// Plans a step of a rolling update. `old` is in order of creation, the oldest first.
pub(super) fn rolling_update(limits: Limits, new: &Set, old: &[Set]) -> Plan {
    let mut plan = Plan::new();
    grow(limits, new, old, &mut plan);
    shrink(limits, new, old, &mut plan);
    unblock(new, old, &mut plan);
    plan
}

/// Plans a step of a rolling update in which Machines of old sets are updated in place where they would be deleted. They take
/// the place of surplus Machines, of which there is one at most: without it, nothing could go on.
pub(super) fn rolling_update_in_place(limits: Limits, new: &Set, old: &[Set], updates: Updates) -> Plan {
    let mut plan = Plan::new();
    grow(limits, new, old, &mut plan);
    shrink(limits, new, old, &mut plan);
    spare_surge(limits, new, old, updates, &mut plan);
    unblock(new, old, &mut plan);
    plan
}

/// Plans a step of a rollout in which users delete the old Machines. `old` is in order of creation.
pub(super) fn on_delete(limits: Limits, new: &Set, old: &[Set]) -> Plan {
    let mut plan = Plan::new();
    let total: i64 = all(new, old).map(|set| set.desired.max(set.existing)).sum();
    if new.desired > limits.replicas {
        plan.insert(new.name.clone(), limits.replicas);
    } else if total < limits.replicas {
        plan.insert(new.name.clone(), new.desired + limits.replicas - total);
    }
    let desired: i64 = old.iter().map(|set| set.desired).sum();
    let mut excess = desired + planned(&plan, new) - limits.replicas;
    // What users deleted is not created again.
    for set in old.iter().filter(|set| set.desired > set.existing) {
        plan.insert(set.name.clone(), set.existing);
        excess -= set.desired - set.existing;
    }
    for set in old {
        let less = planned(&plan, set).min(excess);
        if less > 0 {
            plan.insert(set.name.clone(), planned(&plan, set) - less);
            excess -= less;
        }
    }
    plan
}

fn all<'a>(new: &'a Set, old: &'a [Set]) -> impl Iterator<Item = &'a Set> {
    old.iter().chain([new])
}

/// Returns the number of Machines of a set after the plan.
fn planned(plan: &Plan, set: &Set) -> i64 {
    plan.get(&set.name).copied().unwrap_or(set.desired)
}

/// Plans the new set: it grows as far as the surge allows.
fn grow(limits: Limits, new: &Set, old: &[Set], plan: &mut Plan) {
    if new.desired > limits.replicas {
        plan.insert(new.name.clone(), limits.replicas);
        return;
    }
    let total: i64 = all(new, old).map(|set| set.desired.max(set.existing)).sum();
    let room = limits.replicas + limits.surge - total;
    let more = room.min(limits.replicas - new.desired);
    if more > 0 {
        plan.insert(new.name.clone(), new.desired + more);
    }
}

/// Plans the old sets: they shrink as far as enough Machines stay available. Unavailable ones go first.
fn shrink(limits: Limits, new: &Set, old: &[Set], plan: &mut Plan) {
    if old.iter().all(|set| set.desired == 0) {
        return;
    }
    let least = (limits.replicas - limits.unavailable).max(0);
    // Deletions that are planned, but not done yet.
    let pending: i64 =
        all(new, old).map(|set| (set.existing - set.desired.min(planned(plan, set))).max(0)).sum();
    let desired: i64 = all(new, old).map(|set| set.desired).sum();
    let mut down = desired - pending - least - (new.desired - new.available).max(0);
    let mut available: i64 = all(new, old).map(|set| set.available).sum();
    for only_unavailable in [true, false] {
        for set in old {
            let now = planned(plan, set);
            let most = if only_unavailable { (now - set.available).max(0) } else { now };
            let want = harmless(set, now, most.min(down), &mut available, least);
            if want > 0 {
                plan.insert(set.name.clone(), now - want);
                down -= want;
            }
        }
    }
}

/// Takes the surplus Machines out of the growth of the new set. One stays if nothing else goes on.
fn spare_surge(limits: Limits, new: &Set, old: &[Set], updates: Updates, plan: &mut Plan) {
    let more = planned(plan, new) - new.desired;
    let total: i64 = all(new, old).map(|set| planned(plan, set).max(set.existing)).sum();
    let surplus = more.min(total - limits.replicas);
    if more <= 0 || surplus <= 0 {
        return;
    }
    let kept = match more - surplus {
        0 if !is_moving(new, old, updates, plan) => 1,
        kept => kept,
    };
    if kept > 0 {
        plan.insert(new.name.clone(), new.desired + kept);
    } else {
        plan.remove(&new.name);
    }
}

/// Returns true if the rollout goes on without another Machine: sets change their numbers, or a Machine is updated, or it has
/// yet to become available after that.
fn is_moving(new: &Set, old: &[Set], updates: Updates, plan: &Plan) -> bool {
    let shrinks = |set: &Set| set.desired < set.existing || planned(plan, set) < set.desired;
    updates.in_progress
        || [new.existing, new.available, updates.up_to_date].iter().any(|number| *number != new.desired)
        || old.iter().any(shrinks)
}

/// Returns how many Machines of an old set may go. The set chooses which, so its available Machines are assumed to go
/// first; their number is taken from `available`.
fn harmless(set: &Set, now: i64, want: i64, available: &mut i64, least: i64) -> i64 {
    if want <= 0 || set.available <= 0 {
        return want;
    }
    let (mut want, mut target) = (want, now - want);
    let mut dying = (set.existing - target).max(0);
    let spare = *available - least;
    if dying > 0 && spare < dying {
        target = (set.existing - spare.max(0)).min(now);
        want = (now - target).max(0);
        dying = (set.existing - target).max(0);
    }
    *available -= set.available.min(dying);
    want
}

/// Plans one Machine less in an old set whose Machines do not become available. Without this, a rollout would wait for
/// ever, because health checks do not replace the Machines of old sets.
fn unblock(new: &Set, old: &[Set], plan: &mut Plan) {
    let existing: i64 = old.iter().map(|set| set.existing).sum();
    let available: i64 = old.iter().map(|set| set.available).sum();
    let settled = plan.is_empty() && all(new, old).all(|set| set.desired == set.existing);
    if existing <= 0 || existing == available || !settled || new.available != new.existing {
        return;
    }
    if let Some(set) = old.iter().find(|set| set.available != set.existing && set.desired > 0) {
        plan.insert(set.name.clone(), set.desired - 1);
    }
}

#[cfg(test)]
#[path = "rollout_tests.rs"]
mod tests;
