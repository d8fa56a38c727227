//! Tests of the decisions on a MachineDeployment.

use apiserver_types::{
    Cluster, ClusterSpec, IntOrString, MachineDeploymentRollout, MachineDeploymentSpec, MachineSetSpec,
    MachineSetStatus, RollingUpdate, RolloutStrategy,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;
use crate::templates::Missing;

fn cluster() -> Cluster {
    let mut cluster = Cluster::new("c", ClusterSpec::default());
    cluster.metadata.uid = Some("u".to_owned());
    cluster
}

fn deployment(replicas: i32) -> MachineDeployment {
    let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
    deployment.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    deployment.metadata.owner_references = Some(vec![ownership::reference(&cluster(), false)]);
    deployment.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), "c".to_owned());
    deployment.spec.cluster_name = "c".to_owned();
    deployment.spec.replicas = Some(replicas);
    deployment.spec.template.spec.version = Some("v2".to_owned());
    deployment
}

fn strategy(kind: RolloutStrategyType, surge: &str, unavailable: &str) -> Option<MachineDeploymentRollout> {
    let number = |text: &str| {
        Some(text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int))
    };
    let rolling = RollingUpdate { max_surge: number(surge), max_unavailable: number(unavailable) };
    let strategy = Some(RolloutStrategy { kind, rolling_update: Some(rolling) });
    Some(MachineDeploymentRollout { strategy, ..MachineDeploymentRollout::default() })
}

fn set(name: &str, version: &str, desired: i32, existing: i32) -> MachineSet {
    let mut set = MachineSet::new(name, MachineSetSpec::default());
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

fn observed(sets: Vec<MachineSet>) -> Observed {
    Observed { cluster: Some(cluster()), sets, ..Observed::default() }
}

fn rolls(new: Option<&str>, replicas: &[(&str, i64)]) -> Step {
    let replicas = replicas.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
    Step::Roll(Roll { new: new.map(str::to_owned), replicas, ..Roll::default() })
}

#[test]
fn the_limits_of_a_rollout_let_it_always_take_a_step() {
    use RolloutStrategyType::{OnDelete, RollingUpdate};
    let table = [
        (10, RollingUpdate, "1", "0", (1, 0)),
        (10, RollingUpdate, "25%", "25%", (3, 2)),
        (3, RollingUpdate, "0", "0%", (0, 1)),
        (1, RollingUpdate, "0", "33%", (0, 1)),
        (2, RollingUpdate, "1", "5", (1, 2)),
        (0, RollingUpdate, "0", "1", (0, 0)),
        (3, OnDelete, "1", "1", (0, 0)),
    ];
    for (replicas, kind, surge, unavailable, expected) in table {
        let mut deployment = deployment(replicas);
        deployment.spec.rollout = strategy(kind, surge, unavailable);
        let limits = limits(&deployment);
        assert_eq!((limits.surge, limits.unavailable), expected, "{replicas} {surge} {unavailable}");
    }
    let default = limits(&MachineDeployment::new("md", MachineDeploymentSpec::default()));
    assert_eq!(default, Limits { replicas: 1, surge: 1, unavailable: 0 });
}

#[test]
fn a_new_set_is_created_only_if_its_templates_exist_and_the_rollout_is_not_paused() {
    let now = Timestamp::now();
    assert_eq!(
        next_step(&deployment(2), &observed(Vec::new()), now),
        rolls(Some(TO_BE_CREATED), &[(TO_BE_CREATED, 2)])
    );
    let old = || observed(vec![set("old", "v1", 2, 2)]);
    assert_eq!(next_step(&deployment(2), &old(), now), rolls(Some(TO_BE_CREATED), &[(TO_BE_CREATED, 1)]));
    let absent = Missing { kind: "T".to_owned(), name: "t".to_owned(), field: "infrastructureRef" };
    let missing = Observed { missing: vec![absent], ..old() };
    assert_eq!(next_step(&deployment(2), &missing, now), rolls(None, &[]));
    let mut paused = deployment(3);
    paused.spec.paused = Some(true);
    assert_eq!(next_step(&paused, &observed(Vec::new()), now), rolls(None, &[]));
    assert_eq!(next_step(&paused, &old(), now), rolls(None, &[("old", 3)]));
}

#[test]
fn a_rollout_without_room_for_its_surge_goes_on_without_if_machines_may_be_unavailable() {
    let now = Timestamp::now();
    let rolling = |surge, unavailable| {
        let mut deployment = deployment(3);
        deployment.spec.rollout = strategy(RolloutStrategyType::RollingUpdate, surge, unavailable);
        deployment
    };
    let old = || observed(vec![set("old", "v1", 3, 3)]);
    let short = || Observed { shortage: Some("short".to_owned()), ..old() };
    let (both, surge_only) = (rolling("1", "1"), rolling("1", "0"));
    let with_surge = rolls(Some(TO_BE_CREATED), &[(TO_BE_CREATED, 1), ("old", 2)]);
    assert_eq!(next_step(&both, &old(), now), with_surge);
    assert_eq!(next_step(&both, &short(), now), rolls(Some(TO_BE_CREATED), &[("old", 2)]));
    let needed = rolls(Some(TO_BE_CREATED), &[(TO_BE_CREATED, 1)]);
    assert_eq!(next_step(&surge_only, &short(), now), needed, "nothing else could go on");
    assert!(surges(&both, &old(), now) && surges(&both, &short(), now));
    assert_eq!(interval(&both, &Step::Nothing, &short(), now), Some(Duration::from_secs(31)));
    let complete = observed(vec![set("new", "v2", 3, 3)]);
    let waits = observed(vec![set("old", "v1", 3, 3), set("new", "v2", 1, 1)]);
    for (case, deployment, observed) in [
        ("the surge is needed", &surge_only, old()),
        ("no surge", &rolling("0", "1"), old()),
        ("first Machines", &both, observed(Vec::new())),
        ("no rollout", &both, complete),
        ("the surge is used up", &both, waits),
    ] {
        assert!(!surges(deployment, &observed, now), "{case}");
    }
}

#[test]
fn old_sets_are_deleted_after_a_complete_rollout() {
    let now = Timestamp::now();
    let after = |sets| {
        let observed = Observed { rolled: true, ..observed(sets) };
        let mut deployment = deployment(2);
        let Step::Progress(record) = next_step(&deployment, &observed, now) else {
            panic!("the progress is not recorded")
        };
        deployment.annotations_mut().insert("capstan.dev/progress".to_owned(), record.text());
        next_step(&deployment, &observed, now)
    };
    let new = || set("new", "v2", 2, 2);
    assert_eq!(after(vec![set("old", "v1", 0, 0), new()]), Step::CleanUp(vec!["old".to_owned()]));
    assert_eq!(after(vec![set("old", "v1", 0, 1), new()]), Step::Nothing);
    assert_eq!(after(vec![set("old", "v1", 0, 0), set("new", "v2", 2, 1)]), Step::Nothing);
    let mut unseen = set("old", "v1", 0, 0);
    unseen.metadata.generation = Some(2);
    assert_eq!(after(vec![unseen, new()]), Step::Nothing, "its controller has not seen the number yet");
    assert_eq!(after(vec![new()]), Step::Nothing);
}

#[test]
fn a_deleted_deployment_goes_after_its_sets() {
    let now = Timestamp::now();
    let deleted = Some(Time(Timestamp::UNIX_EPOCH));
    let mut deployment = deployment(1);
    deployment.metadata.deletion_timestamp.clone_from(&deleted);
    let mut observed = observed(vec![set("a", "v1", 1, 1)]);
    assert_eq!(next_step(&deployment, &observed, now), Step::DeleteAll(vec!["a".to_owned()]));
    observed.sets[0].metadata.deletion_timestamp = deleted;
    assert_eq!(next_step(&deployment, &observed, now), Step::WaitForSets);
    observed.sets.clear();
    assert_eq!(next_step(&deployment, &observed, now), Step::Release);
    deployment.metadata.finalizers = None;
    assert_eq!(next_step(&deployment, &observed, now), Step::Ignore);
}

#[test]
fn a_deployment_is_prepared_before_it_rolls() {
    let now = Timestamp::now();
    let mut bare = deployment(1);
    bare.metadata.owner_references = None;
    assert_eq!(next_step(&bare, &observed(Vec::new()), now), Step::Claim);
    bare.metadata.finalizers = None;
    assert_eq!(next_step(&bare, &observed(Vec::new()), now), Step::AddFinalizer);
    let orphans = vec![set("o", "v1", 1, 1)];
    assert_eq!(next_step(&deployment(1), &Observed { orphans, ..observed(Vec::new()) }, now), Step::Adopt);
    let mut paused = deployment(1);
    paused.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new());
    assert_eq!(next_step(&paused, &observed(Vec::new()), now), Step::Pause);
}

#[test]
fn a_requested_rollout_wakes_the_deployment() {
    let now = Timestamp::from_second(100).unwrap();
    let mut deployment = deployment(1);
    let none = observed(Vec::new());
    assert_eq!(interval(&deployment, &Step::Nothing, &none, now), Some(RESYNC));
    let after = Some(apiserver_types::Time(Timestamp::from_second(130).unwrap().to_string()));
    deployment.spec.rollout = Some(MachineDeploymentRollout { after, ..MachineDeploymentRollout::default() });
    assert_eq!(interval(&deployment, &Step::Nothing, &none, now), Some(Duration::from_secs(31)));
    assert_eq!(interval(&deployment, &Step::Pause, &none, now), None);
    deployment.spec.rollout = None;
    deployment.annotations_mut().insert("capstan.dev/progress-deadline".to_owned(), "2m".to_owned());
    let found = interval(&deployment, &Step::Nothing, &none, now);
    assert_eq!(found, Some(Duration::from_secs(121)), "the deadline wakes it, too");
    deployment.spec.replicas = Some(0);
    assert_eq!(interval(&deployment, &Step::Nothing, &none, now), Some(RESYNC), "nothing is left to do");
}

#[test]
fn a_held_rollout_makes_no_set_and_deletes_no_machine_but_follows_the_number() {
    let now = Timestamp::now();
    let settings =
        [("capstan.dev/rollout-policy", "InPlaceOnly"), ("capstan.dev/maintenance-window", "no window")];
    for (key, value) in settings {
        let held = |replicas| {
            let mut deployment = deployment(replicas);
            deployment.annotations_mut().insert(key.to_owned(), value.to_owned());
            deployment
        };
        let old = || observed(vec![set("old", "v1", 2, 2)]);
        assert_eq!(next_step(&held(2), &old(), now), rolls(None, &[]), "{key}");
        assert_eq!(next_step(&held(5), &old(), now), rolls(None, &[("old", 5)]), "{key}");
        assert_eq!(next_step(&held(1), &old(), now), rolls(None, &[("old", 1)]), "{key}");
        let both = observed(vec![set("old", "v1", 1, 1), set("new", "v2", 2, 2)]);
        assert_eq!(next_step(&held(2), &both, now), rolls(Some("new"), &[]), "{key}: it has begun");
        let first = rolls(Some(TO_BE_CREATED), &[(TO_BE_CREATED, 2)]);
        assert_eq!(next_step(&held(2), &observed(Vec::new()), now), first, "{key}: no rollout");
        let mut on_delete = held(2);
        on_delete.spec.rollout = strategy(RolloutStrategyType::OnDelete, "1", "0");
        assert_eq!(next_step(&on_delete, &old(), now), rolls(Some(TO_BE_CREATED), &[]), "{key}: OnDelete");
    }
}

#[test]
fn the_start_of_the_window_wakes_the_deployment() {
    let now = "2026-05-02T12:00:00Z".parse().unwrap();
    let mut deployment = deployment(2);
    let window = "5 12 * * * 1h UTC".to_owned();
    deployment.annotations_mut().insert("capstan.dev/maintenance-window".to_owned(), window);
    let old = observed(vec![set("old", "v1", 2, 2)]);
    assert_eq!(interval(&deployment, &Step::Nothing, &old, now), Some(Duration::from_secs(301)));
}
