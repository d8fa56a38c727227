//! Tests of a scale-down during a rollout.

use apiserver_types::{
    ConditionStatus, IntOrString, MachineDeploymentSpec, MachineSetSpec, MachineSetStatus, MachineSpec,
    RollingUpdate, RolloutStrategy, RolloutStrategyType, Time,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time as Instant};

use super::super::decide::{Roll, roll};
use super::*;

fn deployment(replicas: i32) -> MachineDeployment {
    let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
    deployment.spec.replicas = Some(replicas);
    deployment.spec.template.spec.version = Some("v2".to_owned());
    deployment
}

/// Returns a set that was last planned for five Machines, and has all its own.
fn set(name: &str, version: &str, replicas: i32) -> MachineSet {
    let mut set = MachineSet::new(name, MachineSetSpec::default());
    set.metadata.uid = Some(name.to_owned());
    set.annotations_mut().insert(DESIRED_REPLICAS.to_owned(), "5".to_owned());
    set.spec.replicas = Some(replicas);
    set.spec.template.spec.version = Some(version.to_owned());
    set.status = Some(MachineSetStatus {
        replicas: Some(replicas),
        available_replicas: Some(replicas),
        ..MachineSetStatus::default()
    });
    set
}

/// Returns a Machine of a set.
fn machine(name: &str, set: &str) -> Machine {
    let mut machine = Machine::new(name, MachineSpec::default());
    machine.metadata.owner_references = Some(vec![OwnerReference {
        controller: Some(true),
        uid: set.to_owned(),
        ..OwnerReference::default()
    }]);
    machine
}

fn marked_machine(name: &str, set: &str) -> Machine {
    let mut machine = machine(name, set);
    machine.annotations_mut().insert(DELETE_FIRST.to_owned(), String::new());
    machine
}

fn deleted(name: &str, set: &str) -> Machine {
    let mut machine = machine(name, set);
    machine.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
    machine
}

/// Returns a rollout with two Machines of the old set and three of the new one.
fn rollout(machines: Vec<Machine>) -> Observed {
    Observed { sets: vec![set("old", "v1", 2), set("new", "v2", 3)], machines, ..Observed::default() }
}

fn planned(deployment: &MachineDeployment, observed: &Observed) -> Vec<(String, i64)> {
    let Roll { new, replicas, .. } = roll(deployment, observed, Timestamp::UNIX_EPOCH);
    assert_eq!(new.as_deref(), Some("new"));
    replicas.into_iter().collect()
}

fn numbers_of(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
    pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
}

#[test]
fn a_scale_down_waits_while_a_rollout_deletes_a_machine() {
    let busy = rollout(vec![deleted("a", "old")]);
    let new = &busy.sets[1];
    assert_eq!(planned(&deployment(2), &busy), numbers_of(&[]));
    let now = Timestamp::UNIX_EPOCH;
    assert_eq!(held(&deployment(2), &busy, new, now), Some(5), "the number that the sets were planned for");
    assert_eq!(planned(&deployment(2), &rollout(Vec::new())), numbers_of(&[("new", 2), ("old", 0)]));
    let mut paused = deployment(2);
    paused.spec.paused = Some(true);
    let mut complete = busy.clone();
    complete.sets.remove(0);
    for (case, deployment, observed) in [
        ("to zero", deployment(0), &busy),
        ("not smaller", deployment(5), &busy),
        ("larger", deployment(6), &busy),
        ("paused", paused, &busy),
        ("no rollout", deployment(2), &complete),
    ] {
        assert_eq!(held(&deployment, observed, new, now), None, "{case}");
    }
}

#[test]
fn a_scale_down_does_not_wait_for_ever_for_a_deletion_that_does_not_end() {
    let after = |seconds| Timestamp::from_second(seconds).unwrap();
    let (stuck, wanted) = (rollout(vec![deleted("a", "old"), machine("b", "new")]), deployment(2));
    let new = &stuck.sets[1];
    let left = |seconds| wait(&wanted, &stuck, new, after(seconds));
    assert_eq!(left(0), Some(Duration::from_mins(15)));
    assert_eq!((left(899), left(900)), (Some(Duration::from_secs(1)), None));
    assert_eq!(roll(&wanted, &stuck, after(899)).replicas, Plan::new());
    assert_eq!(roll(&wanted, &stuck, after(900)).replicas.get("new"), Some(&2));
    // A younger deletion holds it still, and only that one is named.
    let mut younger = deleted("c", "old");
    younger.metadata.deletion_timestamp = Some(Instant(after(600)));
    let both = rollout(vec![deleted("a", "old"), younger]);
    assert_eq!(wait(&wanted, &both, new, after(900)), Some(Duration::from_mins(10)));
    let condition =
        Condition::new("ScalingDown", ConditionStatus::True, "ScalingDown", "Scaling down", Time::default());
    let message = explained(condition, &wanted, &both, after(900)).message;
    assert!(message.contains("until Machine c is deleted"), "{message}");
}

#[test]
fn the_present_set_grows_although_a_deletion_in_it_does_not_end() {
    let mut stuck = rollout(vec![deleted("a", "new"), marked_machine("b", "new")]);
    stuck.sets[1].spec.replicas = Some(2);
    assert!(!is_pending(&stuck, &stuck.sets[1]), "only the deletion in progress is above the number");
    stuck.machines.remove(0);
    assert!(is_pending(&stuck, &stuck.sets[1]));
}

#[test]
fn marked_machines_of_the_present_set_go_first() {
    let marks = |names: &[&str]| names.iter().map(|name| marked_machine(name, "new")).collect::<Vec<_>>();
    let one = rollout(marks(&["a"]));
    // One marked Machine goes. The old Machines stay until the new number needs them no more.
    assert_eq!(planned(&deployment(4), &one), numbers_of(&[("new", 2)]));
    assert_eq!(marked(&deployment(4), &rollout(marks(&["a", "b"])), &one.sets[1]), 1, "one less is wanted");
    assert_eq!(marked(&deployment(1), &rollout(marks(&["a", "b"])), &one.sets[1]), 2);
    assert_eq!(marked(&deployment(5), &one, &one.sets[1]), 0, "no scale-down");
    assert_eq!(marked(&deployment(4), &rollout(vec![marked_machine("a", "old")]), &one.sets[1]), 0);
    // A larger surge would let the present set grow, and keep the marked Machine.
    let mut surging = deployment(4);
    let rolling = RollingUpdate { max_surge: Some(IntOrString::Int(3)), max_unavailable: None };
    let strategy =
        RolloutStrategy { kind: RolloutStrategyType::RollingUpdate, rolling_update: Some(rolling) };
    surging.spec.rollout.get_or_insert_default().strategy = Some(strategy);
    assert_eq!(planned(&surging, &one), numbers_of(&[("new", 2)]));
    let mut later = one.clone();
    for set in &mut later.sets {
        set.annotations_mut().insert(DESIRED_REPLICAS.to_owned(), "4".to_owned());
    }
    later.sets[1].spec.replicas = Some(2);
    assert_eq!(planned(&surging, &later), numbers_of(&[("new", 2)]), "it is not deleted yet");
    later.machines.clear();
    assert_eq!(planned(&surging, &later), numbers_of(&[("new", 4)]));
    let strategy = RolloutStrategy { kind: RolloutStrategyType::OnDelete, ..RolloutStrategy::default() };
    let mut on_delete = deployment(4);
    on_delete.spec.rollout.get_or_insert_default().strategy = Some(strategy);
    assert_eq!(planned(&on_delete, &one), numbers_of(&[("new", 2)]));
    assert_eq!(planned(&on_delete, &rollout(Vec::new())), numbers_of(&[("old", 1)]));
}

#[test]
fn the_condition_names_the_machines_that_a_scale_down_waits_for() {
    let text = |replicas: i32, observed: &Observed| {
        let yes = ConditionStatus::True;
        let condition = Condition::new("ScalingDown", yes, "ScalingDown", "Scaling down", Time::default());
        explained(condition, &deployment(replicas), observed, Timestamp::UNIX_EPOCH).message
    };
    let busy = rollout(vec![deleted("a", "old"), machine("b", "new")]);
    let limit = wait(&deployment(2), &busy, &busy.sets[1], Timestamp::UNIX_EPOCH).unwrap();
    let line = format!(
        "A rollout is in progress: waiting until Machine a is deleted, for at most {} minutes",
        limit.as_secs() / 60
    );
    assert_eq!(text(2, &busy), format!("Scaling down\n* {line}"));
    assert_eq!(text(2, &rollout(Vec::new())), "Scaling down");
    assert_eq!(text(0, &busy), "Scaling down");
}
