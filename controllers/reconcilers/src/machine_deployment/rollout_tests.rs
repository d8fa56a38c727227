//! Tests of the rollout planner: cases, and a model of all small rollouts.

use super::*;

fn set(name: &str, (desired, existing, available): (i64, i64, i64)) -> Set {
    Set { name: name.to_owned(), desired, existing, available }
}

type Numbers = (i64, i64, i64);

/// Limits, old sets in order of creation, new set, planned sets: the examples of the specification.
type Row = (Numbers, &'static [Numbers], Numbers, &'static [(&'static str, i64)]);

const ROLLING: &[Row] = &[
    ((3, 1, 0), &[(3, 3, 3)], (0, 0, 0), &[("new", 1)]),
    ((3, 1, 0), &[(3, 3, 3)], (1, 1, 0), &[]),
    ((3, 1, 0), &[(3, 3, 3)], (1, 1, 1), &[("0", 2)]),
    ((3, 1, 0), &[(2, 3, 3)], (1, 1, 1), &[]),
    ((3, 1, 0), &[(3, 3, 2)], (1, 1, 1), &[("0", 2)]),
    ((3, 1, 0), &[(3, 3, 0)], (1, 1, 0), &[]),
    ((3, 1, 0), &[(3, 3, 0)], (1, 1, 1), &[("0", 2)]),
    ((10, 3, 2), &[(10, 10, 10)], (0, 0, 0), &[("new", 3), ("0", 8)]),
    ((10, 3, 2), &[(8, 8, 8)], (3, 3, 0), &[("new", 5)]),
    ((6, 3, 1), &[(5, 4, 4)], (1, 1, 1), &[("new", 4), ("0", 4)]),
    ((5, 1, 1), &[(2, 2, 1), (3, 3, 3)], (1, 1, 1), &[("0", 1)]),
    ((1, 0, 1), &[(1, 1, 1)], (0, 0, 0), &[("0", 0)]),
    ((2, 1, 0), &[(3, 3, 3)], (1, 1, 1), &[("0", 1)]),
    ((3, 1, 0), &[], (0, 0, 0), &[("new", 3)]),
    ((2, 1, 0), &[], (3, 3, 3), &[("new", 2)]),
    ((3, 1, 0), &[], (3, 3, 1), &[]),
    // The surplus Machine waits for quota: the rollout goes on without it if a Machine may be unavailable.
    ((3, 1, 1), &[(3, 3, 3)], (1, 1, 0), &[("0", 2)]),
    ((10, 3, 2), &[(10, 10, 10)], (3, 3, 0), &[("0", 8)]),
];

const ON_DELETE: &[Row] = &[
    ((3, 0, 0), &[(3, 3, 3)], (0, 0, 0), &[]),
    // A user deleted a Machine.
    ((3, 0, 0), &[(3, 2, 2)], (0, 0, 0), &[("0", 2)]),
    ((3, 0, 0), &[(2, 2, 2)], (0, 0, 0), &[("new", 1)]),
    ((5, 0, 0), &[(2, 2, 2)], (1, 1, 1), &[("new", 3)]),
    // The MachineDeployment is scaled down: the oldest set shrinks first.
    ((2, 0, 0), &[(1, 1, 1), (2, 2, 2)], (1, 1, 1), &[("0", 0), ("1", 1)]),
    ((1, 0, 0), &[], (2, 2, 2), &[("new", 1)]),
];

fn check(plan: fn(Limits, &Set, &[Set]) -> Plan, rows: &[Row]) {
    for row @ ((replicas, surge, unavailable), old, new, expected) in rows {
        let limits = Limits { replicas: *replicas, surge: *surge, unavailable: *unavailable };
        let old: Vec<Set> =
            old.iter().enumerate().map(|(at, numbers)| set(&at.to_string(), *numbers)).collect();
        let expected: Plan = expected.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        assert_eq!(plan(limits, &set("new", *new), &old), expected, "{row:?}");
    }
}

#[test]
fn a_rolling_update_stays_within_its_limits() {
    check(rolling_update, ROLLING);
}

/// Case, limits, old set, new set, Machines that are up to date in it, whether one is being updated, and planned sets.
type InPlaceRow = (&'static str, Numbers, Numbers, Numbers, i64, bool, &'static [(&'static str, i64)]);

const IN_PLACE: &[InPlaceRow] = &[
    ("one surplus Machine begins", (3, 1, 0), (3, 3, 3), (0, 0, 0), 0, false, &[("new", 1)]),
    ("also if several are allowed", (6, 10, 0), (6, 6, 6), (0, 0, 0), 0, false, &[("new", 1)]),
    ("it boots", (3, 1, 0), (3, 3, 3), (1, 1, 0), 0, false, &[]),
    ("an old one moves", (3, 1, 0), (3, 3, 3), (1, 1, 1), 1, false, &[("0", 2)]),
    ("it is being updated", (3, 1, 0), (2, 2, 2), (2, 2, 1), 1, true, &[]),
    ("the next one moves", (3, 1, 0), (2, 2, 2), (2, 2, 2), 2, false, &[("0", 1)]),
    ("without a surplus Machine", (3, 0, 1), (3, 3, 3), (0, 0, 0), 0, false, &[("0", 2)]),
    ("one after the other", (3, 0, 1), (2, 2, 2), (1, 1, 0), 0, true, &[]),
    ("a failed one stays unavailable", (3, 0, 1), (2, 2, 2), (1, 1, 0), 1, true, &[]),
    ("the surplus is spared", (6, 3, 1), (6, 6, 6), (0, 0, 0), 0, false, &[("0", 5)]),
    ("and stays spared", (6, 3, 1), (5, 5, 5), (1, 1, 0), 0, true, &[]),
    ("not yet available again", (6, 3, 0), (3, 3, 3), (3, 3, 2), 3, false, &[]),
    ("not up to date yet", (6, 3, 0), (3, 3, 3), (3, 3, 3), 2, false, &[]),
    ("more replicas", (6, 3, 0), (3, 3, 3), (1, 1, 1), 1, false, &[("new", 3)]),
    // Cluster API 1.14.0 took this growth for a surplus, and waited for the update. Later releases do not.
    ("one Machine is missing during an update", (3, 10, 0), (1, 1, 1), (1, 1, 0), 0, true, &[("new", 2)]),
];

#[test]
fn updates_in_place_come_before_surplus_machines() {
    for (case, (replicas, surge, unavailable), old, new, up_to_date, in_progress, expected) in IN_PLACE {
        let limits = Limits { replicas: *replicas, surge: *surge, unavailable: *unavailable };
        let updates = Updates { up_to_date: *up_to_date, in_progress: *in_progress };
        let plan = rolling_update_in_place(limits, &set("new", *new), &[set("0", *old)], updates);
        let expected: Plan = expected.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        assert_eq!(plan, expected, "{case}");
    }
}

#[test]
fn with_on_delete_a_machine_that_a_user_deletes_is_replaced_in_the_new_set() {
    check(on_delete, ON_DELETE);
}

/// Generator of numbers for the model, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

/// Brings one set closer to what is desired, as its controller does. It deletes any Machines that it likes.
fn work(set: &mut Set, dice: &mut Dice) {
    if set.existing < set.desired {
        set.existing = set.desired;
    } else if set.existing > set.desired {
        let gone = 1 + dice.below(set.existing - set.desired);
        let idle = set.existing - set.available;
        let least = (gone - idle).max(0);
        let available = least + dice.below(gone.min(set.available) - least + 1);
        set.existing -= gone;
        set.available -= available;
    }
}

/// Runs a rollout to its end, with passes and progress in any order.
fn roll(limits: Limits, dice: &mut Dice) {
    let (mut old, mut new) =
        (set("old", (limits.replicas, limits.replicas, limits.replicas)), set("new", (0, 0, 0)));
    let least = limits.replicas - limits.unavailable;
    for _ in 0..2000 {
        match dice.below(5) {
            0 | 1 => {
                let plan = rolling_update(limits, &new, std::slice::from_ref(&old));
                for set in [&mut new, &mut old] {
                    set.desired = plan.get(&set.name).copied().unwrap_or(set.desired);
                }
            }
            2 => work(&mut old, dice),
            3 => work(&mut new, dice),
            _ => new.available = (new.available + 1).min(new.existing),
        }
        assert!(new.existing + old.existing <= limits.replicas + limits.surge, "{limits:?} {old:?} {new:?}");
        assert!(new.available + old.available >= least, "{limits:?} {old:?} {new:?}");
        if old.existing == 0 && old.desired == 0 && new.available == limits.replicas {
            return;
        }
    }
    panic!("the rollout with {limits:?} does not end: {old:?} {new:?}");
}

#[test]
fn every_small_rollout_ends_and_never_leaves_its_limits() {
    let mut dice = Dice(1);
    for replicas in 0..=6 {
        for surge in 0..=3 {
            for unavailable in 0..=3.min(replicas) {
                if surge + unavailable > 0 {
                    for _ in 0..10 {
                        roll(Limits { replicas, surge, unavailable }, &mut dice);
                    }
                }
            }
        }
    }
}

#[test]
fn a_rollout_whose_old_machines_are_all_unavailable_ends() {
    for unavailable in 0..=1 {
        let limits = Limits { replicas: 3, surge: 1, unavailable };
        let (mut old, mut new) = (set("old", (3, 3, 0)), set("new", (0, 0, 0)));
        for _ in 0..20 {
            let plan = rolling_update(limits, &new, std::slice::from_ref(&old));
            for set in [&mut new, &mut old] {
                set.desired = plan.get(&set.name).copied().unwrap_or(set.desired);
                set.existing = set.desired;
            }
            new.available = new.existing;
        }
        assert_eq!((old.desired, new.desired), (0, 3), "{limits:?}");
    }
}
