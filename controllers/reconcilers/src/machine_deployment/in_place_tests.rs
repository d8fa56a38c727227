//! Tests of the decisions on updates in place.

use apiserver_types::{
    Cluster, ClusterSpec, IntOrString, MachineDeploymentRollout, MachineDeploymentSpec, MachineSetSpec,
    MachineSetStatus, MachineSpec, RollingUpdate, RolloutStrategy, RolloutStrategyType, Time,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;

use super::super::hold;
use super::*;

fn deployment(replicas: i32, policy: Option<&str>) -> MachineDeployment {
    let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
    deployment.spec.replicas = Some(replicas);
    deployment.spec.template.spec.version = Some("v2".to_owned());
    let policy = policy.map(|policy| (ROLLOUT_POLICY.to_owned(), policy.to_owned()));
    deployment.annotations_mut().extend(policy);
    deployment
}

fn with_strategy(
    mut deployment: MachineDeployment,
    kind: RolloutStrategyType,
    unavailable: i32,
) -> MachineDeployment {
    let max_unavailable = Some(IntOrString::Int(unavailable));
    let rolling_update = Some(RollingUpdate { max_unavailable, max_surge: Some(IntOrString::Int(1)) });
    let strategy = Some(RolloutStrategy { kind, rolling_update });
    deployment.spec.rollout =
        Some(MachineDeploymentRollout { strategy, ..MachineDeploymentRollout::default() });
    deployment
}

fn set(name: &str, version: &str, (desired, existing): (i32, i32)) -> MachineSet {
    let mut set = MachineSet::new(name, MachineSetSpec::default());
    set.metadata.uid = Some(format!("uid-{name}"));
    set.metadata.creation_timestamp = Some(Instant(Timestamp::from_second(1000).unwrap()));
    set.spec.replicas = Some(desired);
    set.spec.template.spec.version = Some(version.to_owned());
    set.status = Some(MachineSetStatus {
        replicas: Some(existing),
        available_replicas: Some(existing),
        up_to_date_replicas: Some(existing),
        ..MachineSetStatus::default()
    });
    set
}

fn machine(name: &str, owner: &MachineSet, marks: &[&str]) -> Machine {
    let mut machine = Machine::new(name, MachineSpec::default());
    machine.metadata.owner_references = Some(vec![ownership::reference(owner, true)]);
    machine.annotations_mut().extend(marks.iter().map(|mark| ((*mark).to_owned(), String::new())));
    machine
}

fn observed(sets: Vec<MachineSet>) -> Observed {
    Observed { cluster: Some(Cluster::new("c", ClusterSpec::default())), sets, ..Observed::default() }
}

fn accepted(names: &[&str]) -> InPlace {
    let accepted = names.iter().map(|name| (*name).to_owned()).collect();
    InPlace { is_judged: true, is_served: true, accepted, ..InPlace::default() }
}

fn now() -> Timestamp {
    Timestamp::from_second(2000).unwrap()
}

fn names(deployment: &MachineDeployment, observed: &Observed) -> Vec<String> {
    candidates(deployment, observed, now()).into_iter().map(ResourceExt::name_any).collect()
}

#[test]
fn old_sets_with_machines_are_candidates_until_the_new_one_is_complete() {
    let old = || set("old", "v1", (2, 2));
    let none: [&str; 0] = [];
    let table = [
        ("the new set does not exist yet", deployment(3, None), vec![old()], vec!["old"]),
        ("it exists", deployment(3, None), vec![old(), set("new", "v2", (1, 1))], vec!["old"]),
        ("it is complete", deployment(3, None), vec![old(), set("new", "v2", (3, 3))], none.to_vec()),
        ("no old Machine is left", deployment(3, None), vec![set("old", "v1", (0, 0))], none.to_vec()),
        ("one still leaves", deployment(3, None), vec![set("old", "v1", (0, 1))], vec!["old"]),
        ("nothing differs", deployment(3, None), vec![set("new", "v2", (2, 2))], none.to_vec()),
        ("by policy alone", deployment(3, Some("InPlaceOnly")), vec![old()], vec!["old"]),
        ("by policy first", deployment(3, Some("InPlaceThenReplace")), vec![old()], vec!["old"]),
        ("not by policy", deployment(3, Some("Replace")), vec![old()], none.to_vec()),
        ("the policy cannot be used", deployment(3, Some("Perhaps")), vec![old()], none.to_vec()),
    ];
    for (case, deployment, sets, expected) in table {
        assert_eq!(names(&deployment, &observed(sets)), expected, "{case}");
    }
}

#[test]
fn a_pause_a_window_users_and_a_requested_rollout_leave_no_candidates() {
    let sets = || observed(vec![set("old", "v1", (2, 2))]);
    let mut paused = deployment(3, None);
    paused.spec.paused = Some(true);
    let mut windowed = deployment(3, Some("InPlaceOnly"));
    let key = apiserver_types::maintenance_window::MAINTENANCE_WINDOW.to_owned();
    windowed.annotations_mut().insert(key, "0 2 * * 6 1h UTC".to_owned());
    let on_delete = with_strategy(deployment(3, None), RolloutStrategyType::OnDelete, 0);
    let mut requested = deployment(3, None);
    let after = Some(Time(Timestamp::from_second(1500).unwrap().to_string()));
    requested.spec.rollout = Some(MachineDeploymentRollout { after, ..MachineDeploymentRollout::default() });
    for (case, deployment) in
        [("paused", paused), ("outside", windowed), ("on delete", on_delete), ("requested", requested)]
    {
        assert_eq!(names(&deployment, &sets()), [""; 0], "{case}");
    }
}

#[test]
fn a_moved_machine_is_counted_once_in_the_set_that_has_it() {
    let (old, new) = (set("old", "v1", (2, 2)), set("new", "v2", (0, 1)));
    let machines = vec![
        machine("a", &new, &[UPDATING, PENDING_ACKNOWLEDGE]),
        machine("b", &old, &[]),
        machine("c", &old, &[]),
    ];
    let mut observed = Observed { machines, ..observed(vec![old, new]) };
    observed.in_place = accepted(&["old"]);
    let deployment = with_strategy(deployment(3, None), RolloutStrategyType::RollingUpdate, 1);
    let roll = decide::roll(&deployment, &observed, now());
    assert_eq!(roll.replicas.get("new"), Some(&1), "the moved Machine");
    assert_eq!(roll.marks["new"][ACKNOWLEDGED], "a");
    // It is acknowledged, and its set has not removed the mark yet.
    observed.sets[1].spec.replicas = Some(1);
    observed.sets[1].annotations_mut().insert(ACKNOWLEDGED.to_owned(), "a".to_owned());
    let again = decide::roll(&deployment, &observed, now());
    assert_eq!((again.replicas.get("new"), again.marks["new"][ACKNOWLEDGED].as_str()), (None, "a"));
    // Its set has removed the mark.
    observed.machines[0].annotations_mut().remove(PENDING_ACKNOWLEDGE);
    let last = decide::roll(&deployment, &observed, now());
    assert_eq!(last.marks["new"].get(ACKNOWLEDGED), None);
}

#[test]
fn a_set_that_is_not_the_present_one_any_more_counts_its_machines_too_also_in_a_pause() {
    let (middle, new) = (set("middle", "v1", (0, 1)), set("new", "v2", (3, 3)));
    let machines = vec![machine("a", &middle, &[UPDATING, PENDING_ACKNOWLEDGE])];
    let mut observed = Observed { machines, ..observed(vec![middle, new]) };
    observed.in_place = accepted(&["middle"]);
    let mut deployment = with_strategy(deployment(4, None), RolloutStrategyType::RollingUpdate, 0);
    for paused in [false, true] {
        deployment.spec.paused = Some(paused);
        let roll = decide::roll(&deployment, &observed, now());
        assert_eq!(roll.replicas.get("middle"), Some(&1), "{paused}");
        assert_eq!(roll.marks["middle"][ACKNOWLEDGED], "a");
    }
}

#[test]
fn sets_name_each_other_and_lose_the_marks_at_the_end() {
    let sets = vec![set("a", "v1", (1, 1)), set("b", "v0", (1, 1)), set("new", "v2", (1, 1))];
    let mut observed = observed(sets);
    observed.in_place = accepted(&["b", "a"]);
    let deployment = with_strategy(deployment(3, None), RolloutStrategyType::RollingUpdate, 1);
    let roll = decide::roll(&deployment, &observed, now());
    assert_eq!(roll.marks["new"], BTreeMap::from([(RECEIVE_FROM, "a,b".to_owned())]));
    assert_eq!(roll.marks["a"], BTreeMap::from([(MOVE_TO, "new".to_owned())]));
    assert_eq!(roll.marks["b"], BTreeMap::from([(MOVE_TO, "new".to_owned())]));
    observed.in_place = InPlace::default();
    assert!(decide::roll(&deployment, &observed, now()).marks.is_empty());
}

#[test]
fn the_new_set_exists_before_old_machines_leave_for_it() {
    let mut observed = observed(vec![set("old", "v1", (3, 3))]);
    let deployment = with_strategy(deployment(3, None), RolloutStrategyType::RollingUpdate, 1);
    observed.in_place = accepted(&[]);
    let roll = decide::roll(&deployment, &observed, now());
    assert_eq!((roll.new.as_deref(), roll.replicas.len()), (Some(decide::TO_BE_CREATED), 0));
    observed.in_place = InPlace { is_judged: true, ..InPlace::default() };
    let replaced = decide::roll(&deployment, &observed, now());
    assert!(replaced.replicas.contains_key("old"), "no server decides: {replaced:?}");
}

#[test]
fn a_rollout_waits_for_a_server_that_fails_and_machines_that_leave_still_move() {
    let (mut old, mut new) = (set("old", "v1", (2, 3)), set("new", "v2", (0, 0)));
    old.annotations_mut().insert(MOVE_TO.to_owned(), "new".to_owned());
    new.annotations_mut().insert(RECEIVE_FROM.to_owned(), "old".to_owned());
    let mut observed = observed(vec![old, new]);
    let wait = Duration::from_secs(4);
    let failure = Some(("the server refused: no".to_owned(), wait));
    observed.in_place = InPlace { is_judged: true, failure, ..InPlace::default() };
    let deployment = with_strategy(deployment(2, None), RolloutStrategyType::RollingUpdate, 1);
    let found = hold::hold(&deployment, &observed, now()).unwrap();
    let expected = ("RolloutBlocked", "the server refused: no", Some(wait));
    assert_eq!((found.reason, found.message.as_str(), found.wait), expected);
    let roll = decide::roll(&deployment, &observed, now());
    assert!(roll.replicas.is_empty(), "{roll:?}");
    assert_eq!(roll.marks["old"][MOVE_TO], "new");
    assert_eq!(roll.marks["new"][RECEIVE_FROM], "old");
}

#[test]
fn the_policy_in_place_only_replaces_no_machine_and_needs_one_that_may_be_unavailable() {
    let sets = || observed(vec![set("old", "v1", (3, 3)), set("new", "v2", (0, 0))]);
    let only = |unavailable| {
        with_strategy(deployment(3, Some("InPlaceOnly")), RolloutStrategyType::RollingUpdate, unavailable)
    };
    let hold_of = |deployment: &MachineDeployment, in_place: InPlace| {
        let observed = Observed { in_place, ..sets() };
        let replicas = decide::roll(deployment, &observed, now()).replicas;
        (hold::hold(deployment, &observed, now()).map(|hold| hold.message), replicas)
    };
    let (message, replicas) = hold_of(&only(1), accepted(&["old"]));
    let moves_one = BTreeMap::from([("old".to_owned(), 2)]);
    assert_eq!((message, replicas), (None, moves_one), "without a surplus Machine");
    let mut refused = accepted(&[]);
    refused.note(&set("old", "v1", (3, 3)), vec!["T t spec.template.spec.flavor".to_owned()]);
    let unserved = InPlace { is_judged: true, ..InPlace::default() };
    for (case, deployment, in_place, expected) in [
        ("refused", only(1), refused, "not make all changes in place: T t spec.template.spec.flavor"),
        ("no server", only(1), unserved, "these changes need new Machines"),
        ("none may be unavailable", only(0), accepted(&["old"]), "maxUnavailable to 1 or more"),
    ] {
        let (message, replicas) = hold_of(&deployment, in_place);
        assert!(message.as_ref().is_some_and(|it| it.contains(expected)), "{case}: {message:?}");
        assert!(replicas.is_empty(), "{case}: {replicas:?}");
    }
}

#[test]
fn a_plan_counts_moved_machines_and_has_no_updates() {
    let (old, new) = (set("old", "v1", (2, 2)), set("new", "v2", (0, 1)));
    let machines = vec![machine("a", &new, &[UPDATING, PENDING_ACKNOWLEDGE]), machine("b", &old, &[])];
    let mut observed = Observed { machines, ..observed(vec![old, new]) };
    settle(&mut observed);
    let replicas: Vec<_> = observed.sets.iter().map(|set| set.spec.replicas).collect();
    assert_eq!(replicas, [Some(2), Some(1)]);
    assert!(observed.machines.iter().all(|it| it.annotations().is_empty()));
}

#[test]
fn machines_that_have_yet_to_leave_are_not_replaced_while_a_rollout_waits_and_surplus_ones_are_deleted() {
    let (mut old, mut new) = (set("old", "v1", (2, 3)), set("new", "v2", (0, 0)));
    old.annotations_mut().insert(MOVE_TO.to_owned(), "new".to_owned());
    new.annotations_mut().insert(RECEIVE_FROM.to_owned(), "old".to_owned());
    let machines: Vec<Machine> = ["a", "b", "c"].iter().map(|name| machine(name, &old, &[])).collect();
    let mut observed = Observed { machines, ..observed(vec![old, new]) };
    let failure = Some(("no".to_owned(), Duration::from_secs(4)));
    observed.in_place = InPlace { is_judged: true, failure, ..InPlace::default() };
    for paused in [false, true] {
        let rolled = |replicas: i32| {
            let mut deployment =
                with_strategy(deployment(replicas, None), RolloutStrategyType::RollingUpdate, 1);
            deployment.spec.paused = Some(paused);
            let roll = decide::roll(&deployment, &observed, now());
            (roll.replicas, roll.marks["old"].contains_key(MOVE_TO))
        };
        assert_eq!(rolled(3), (BTreeMap::new(), true), "the third one moves: {paused}");
        assert_eq!(rolled(1), (BTreeMap::from([("old".to_owned(), 1)]), false), "two are deleted: {paused}");
    }
}

#[test]
fn without_a_server_the_policy_in_place_only_does_not_change_the_numbers() {
    let sets = vec![set("old", "v1", (0, 1)), set("new", "v2", (1, 1))];
    let of = |policy: Option<&str>| {
        let deployment = with_strategy(deployment(2, policy), RolloutStrategyType::RollingUpdate, 1);
        decide::roll(&deployment, &observed(sets.clone()), now()).replicas
    };
    assert_eq!(of(Some("InPlaceOnly")), of(None));
    assert_eq!(of(None), BTreeMap::from([("new".to_owned(), 2)]));
}
