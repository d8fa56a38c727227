//! Scaling of a MachineDeployment whose rollout is paused: all MachineSets grow or shrink in proportion. Pure.

use std::cmp::Reverse;

use k8s_openapi::jiff::Timestamp;

use super::rollout::{Limits, Plan, Set};

/// A MachineSet with what its annotations say of the time when it was last scaled.
#[derive(Debug, Clone)]
pub(super) struct Scaled {
    pub set: Set,
    pub created: Option<Timestamp>,
    /// Desired Machines of the MachineDeployment.
    pub desired: Option<i64>,
    /// Most Machines of the MachineDeployment.
    pub most: Option<i64>,
}

/// Plans the numbers of all sets. `new` is the name of the set with the present template; `existing` is the number of
/// Machines of the MachineDeployment.
pub(super) fn plan(limits: Limits, sets: &[Scaled], new: Option<&str>, rolls: bool, existing: i64) -> Plan {
    let mut plan = Plan::new();
    let active: Vec<&Scaled> = sets.iter().filter(|it| it.set.desired > 0).collect();
    let newest = sets.iter().max_by_key(|it| (it.created, &it.set.name));
    let single = if active.len() > 1 { None } else { active.first().copied().or(newest) };
    if let Some(single) = single {
        put(&mut plan, &single.set, limits.replicas);
        return plan;
    }
    let saturated = |it: &&Scaled| {
        let wanted = limits.replicas;
        Some(it.set.name.as_str()) == new
            && it.set.desired == wanted
            && it.desired == Some(wanted)
            && it.set.available == wanted
    };
    if let Some(new) = active.iter().find(|it| saturated(it)) {
        for old in active.iter().filter(|it| it.set.name != new.set.name) {
            put(&mut plan, &old.set, 0);
        }
    } else if rolls {
        proportionally(limits, active, existing, &mut plan);
    }
    plan
}

fn put(plan: &mut Plan, set: &Set, replicas: i64) {
    if set.desired != replicas {
        plan.insert(set.name.clone(), replicas);
    }
}

fn proportionally(limits: Limits, mut active: Vec<&Scaled>, existing: i64, plan: &mut Plan) {
    let most = limits.replicas + limits.surge;
    let allowed = if limits.replicas > 0 { most } else { 0 };
    let add = allowed - active.iter().map(|it| it.set.desired).sum::<i64>();
    active.sort_by_key(|it| {
        let time = it.created.map(Timestamp::as_second).unwrap_or_default();
        (Reverse(it.set.desired), if add > 0 { -time } else { time }, it.set.name.clone())
    });
    let mut added = 0;
    let mut numbers: Vec<(&Set, i64)> = Vec::new();
    for it in active {
        let left = add - added;
        let share = if left == 0 { 0 } else { share(limits, it, most, existing) };
        let share = if add > 0 { share.min(left) } else { share.max(left) };
        added += share;
        numbers.push((&it.set, it.set.desired + share));
    }
    // What rounding left goes to the first.
    if let Some((_, first)) = numbers.first_mut() {
        *first += add - added;
    }
    for (set, number) in numbers {
        put(plan, set, number.max(0));
    }
}

/// Returns by how much a set grows, so that its share of all Machines stays the same.
fn share(limits: Limits, it: &Scaled, most: i64, existing: i64) -> i64 {
    if limits.replicas == 0 {
        return -it.set.desired;
    }
    let before = it.most.filter(|most| *most > 0).unwrap_or(existing).max(1);
    // Rounded to the nearest number: twice the numerator plus the denominator, by twice the denominator.
    (2 * it.set.desired * most + before).div_euclid(2 * before) - it.set.desired
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(name: &str, desired: i64, most: i64) -> Scaled {
        let set = Set { name: name.to_owned(), desired, existing: desired, available: desired };
        let created = Some(Timestamp::from_second(i64::try_from(name.len()).unwrap()).unwrap());
        Scaled { set, created, desired: Some(most - 1), most: Some(most) }
    }

    fn planned(replicas: i64, surge: i64, sets: &[Scaled], new: Option<&str>) -> Vec<(String, i64)> {
        let limits = Limits { replicas, surge, unavailable: 0 };
        plan(limits, sets, new, true, 0).into_iter().collect()
    }

    fn of(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
        pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
    }

    #[test]
    fn a_single_set_takes_the_whole_number() {
        assert_eq!(planned(3, 1, &[], None), of(&[]));
        assert_eq!(planned(3, 1, &[scaled("o", 2, 3)], None), of(&[("o", 3)]));
        assert_eq!(planned(3, 1, &[scaled("o", 0, 3), scaled("oo", 0, 3)], None), of(&[("oo", 3)]));
    }

    #[test]
    fn several_sets_are_scaled_in_proportion() {
        // From 10 to 20: the larger set grows more. A surge of 1 belongs to the whole.
        let sets = [scaled("old", 8, 11), scaled("n", 3, 11)];
        assert_eq!(planned(20, 1, &sets, Some("n")), of(&[("n", 6), ("old", 15)]));
        assert_eq!(planned(5, 1, &sets, Some("n")), of(&[("n", 2), ("old", 4)]));
        assert_eq!(planned(0, 1, &sets, Some("n")), of(&[("n", 0), ("old", 0)]));
        assert_eq!(planned(10, 1, &sets, Some("n")), of(&[]), "nothing to scale");
        let sets = [scaled("old", 3, 4), scaled("n", 3, 4)];
        assert_eq!(planned(5, 1, &sets, Some("n")), of(&[]), "nothing to scale, whatever the last limit was");
    }

    #[test]
    fn the_old_sets_go_when_the_new_one_is_complete() {
        let mut new = scaled("n", 3, 4);
        new.set.existing = 3;
        assert_eq!(planned(3, 1, &[scaled("old", 2, 4), new], Some("n")), of(&[("old", 0)]));
    }
}
