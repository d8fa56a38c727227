//! Scaling of a MachineDeployment whose rollout is held: only as far as its own number of replicas says. Pure.
//!
//! A rollout that was interrupted keeps its surplus Machines, within the limits of the rollout.

use super::rollout::{Limits, Plan, Set};

/// Plans the numbers of all sets. `old` are the sets with other templates, oldest first.
pub(super) fn plan(limits: Limits, new: Option<&Set>, old: &[Set]) -> Plan {
    let sets = || old.iter().chain(new);
    let total: i64 = sets().map(|set| set.desired).sum();
    let is_under_way = sets().filter(|set| set.desired > 0).count() > 1;
    let surplus = if is_under_way && limits.replicas > 0 { limits.surge } else { 0 };
    let mut plan = Plan::new();
    let missing = limits.replicas - total;
    let largest = old.iter().max_by_key(|set| set.desired);
    if let Some(grows) = new.or(largest).filter(|_| missing > 0) {
        plan.insert(grows.name.clone(), grows.desired + missing);
    }
    let mut excess = total - (limits.replicas + surplus);
    for set in sets() {
        let less = excess.clamp(0, set.desired.max(0));
        if less > 0 {
            plan.insert(set.name.clone(), set.desired - less);
            excess -= less;
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, wished replicas, Machines of the new set, those of the old sets, and the changes.
    type Case = (&'static str, i64, Option<i64>, &'static [i64], &'static [(&'static str, i64)]);

    fn set(name: &str, desired: i64) -> Set {
        Set { name: name.to_owned(), desired, existing: desired, available: desired }
    }

    #[test]
    fn only_the_number_of_replicas_changes_the_sets() {
        let limits = |replicas| Limits { replicas, surge: 1, unavailable: 0 };
        let table: [Case; 10] = [
            ("not begun", 3, None, &[3], &[]),
            ("not begun, more replicas", 5, None, &[3], &[("old-0", 5)]),
            ("not begun, fewer replicas", 1, None, &[3], &[("old-0", 1)]),
            ("the new set is empty", 1, Some(0), &[3], &[("old-0", 1)]),
            ("interrupted", 3, Some(1), &[2], &[]),
            ("interrupted with a surplus Machine", 3, Some(1), &[3], &[]),
            ("all new Machines are there", 3, Some(3), &[1], &[]),
            ("interrupted, more replicas", 5, Some(1), &[2], &[("new", 3)]),
            ("interrupted, fewer replicas", 1, Some(1), &[1, 2], &[("old-0", 0), ("old-1", 1)]),
            ("no replicas", 0, Some(1), &[2], &[("old-0", 0), ("new", 0)]),
        ];
        for (case, replicas, new, old, expected) in table {
            let old: Vec<Set> = old
                .iter()
                .enumerate()
                .map(|(index, desired)| set(&format!("old-{index}"), *desired))
                .collect();
            let new = new.map(|desired| set("new", desired));
            let expected: Plan =
                expected.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
            assert_eq!(plan(limits(replicas), new.as_ref(), &old), expected, "{case}");
        }
    }
}
