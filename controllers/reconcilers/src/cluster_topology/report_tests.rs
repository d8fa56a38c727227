//! Tests of the report.

use apiserver_types::{ClusterSpec, Topology, condition as find};
use kube::ResourceExt;

use super::*;
use crate::cluster_topology::upgrade::hooks::{Hook, PENDING_HOOKS};
use crate::cluster_topology::upgrade::{Upgrade, control_plane};

fn cluster(annotations: &[(&str, &str)]) -> Cluster {
    let topology = Topology { version: "v1.34.0".to_owned(), ..Topology::default() };
    let mut cluster = Cluster::new("c", ClusterSpec { topology: Some(topology), ..ClusterSpec::default() });
    for (key, value) in annotations {
        cluster.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
    }
    cluster
}

fn group(name: &str, version: &str, progress: Progress) -> Decision {
    Decision {
        topology_name: name.to_owned(),
        object: format!("c-{name}-x"),
        version: version.to_owned(),
        progress,
    }
}

fn outcome(
    control_plane: control_plane::Decision,
    workers: Vec<Decision>,
    plan: (&[&str], &[&str]),
) -> Outcome {
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    let plan = Plan { control_plane: owned(plan.0), workers: owned(plan.1) };
    let upgrade = Upgrade { plan, control_plane, workers, hooks: Hooks::default() };
    Outcome { upgrade, control_plane_kind: "KubeadmControlPlane".to_owned(), is_held: false }
}

fn at(version: &str) -> control_plane::Decision {
    control_plane::Decision { version: version.to_owned(), ..Default::default() }
}

fn shown(cluster: &Cluster, report: &Report) -> (ConditionStatus, String, String) {
    let mut cluster = cluster.clone();
    apply(&mut cluster, report, &Time::default());
    let status = cluster.status.unwrap();
    let found = find(status.conditions.as_deref().unwrap(), KIND).unwrap().clone();
    let old = &status.deprecated.unwrap().v1beta1.unwrap().conditions.unwrap()[0];
    let expected = if found.reason == FAILED { "TopologyReconcileFailed" } else { &found.reason };
    let expected = (found.status == ConditionStatus::False).then_some(expected);
    assert_eq!(old.reason.as_deref(), expected, "v1beta1");
    let severity = old.severity.clone().unwrap_or_default();
    assert_eq!(severity == "Error", found.reason == FAILED, "{severity}");
    (found.status, found.reason, found.message)
}

/// Each case is one row of the table in the specification.
#[test]
fn the_condition_has_a_reason_and_a_stable_text_for_every_state() {
    use ConditionStatus::{False, True};
    let plain = cluster(&[]);
    let mut paused = cluster(&[]);
    paused.spec.paused = Some(true);
    let found = shown(&paused, &Report::Paused);
    assert_eq!(found, (False, "Paused".to_owned(), "Cluster spec.paused is set to true".to_owned()));
    let failed = of_error(&ReconcileError::waiting(FAILED, "no class"));
    assert_eq!(shown(&plain, &failed), (False, FAILED.to_owned(), "no class".to_owned()));
    let stale = of_error(&ReconcileError::waiting(CLASS_NOT_RECONCILED, "stale"));
    assert_eq!(shown(&plain, &stale), (False, CLASS_NOT_RECONCILED.to_owned(), "stale".to_owned()));
    let deleting = Report::Deleting(Hooks::default());
    assert_eq!(shown(&plain, &deleting), (False, "Deleting".to_owned(), "Cluster is deleting".to_owned()));
    let held = cluster(&[("before-delete.hook.cluster.cluster.x-k8s.io/backup", "")]);
    let mut hooks = Hooks::of(&held);
    assert!(hooks.blocks(Hook::BeforeClusterDelete));
    let text = "Cluster is deleting. Following hooks are blocking delete: BeforeClusterDelete: annotation \
                before-delete.hook.cluster.cluster.x-k8s.io/backup is set";
    assert_eq!(shown(&held, &Report::Deleting(hooks)).2, text);
    let done = of(&plain, &outcome(at("v1.34.0"), vec![group("a", "v1.34.0", Progress::Done)], (&[], &[])));
    assert_eq!(shown(&plain, &done), (True, "ReconcileSucceeded".to_owned(), String::new()));
}

#[test]
fn a_hook_before_the_creation_is_named() {
    let held = cluster(&[("before-create.hook.cluster.cluster.x-k8s.io/quota", "")]);
    let mut waiting = outcome(at("v1.34.0"), vec![], (&[], &[]));
    waiting.upgrade.hooks = Hooks::of(&held);
    waiting.is_held = waiting.upgrade.hooks.blocks(Hook::BeforeClusterCreate);
    let (_, reason, message) = shown(&held, &of(&held, &waiting));
    assert_eq!(reason, "ClusterCreating");
    let expected = "Following hooks are blocking Cluster topology creation: BeforeClusterCreate: annotation \
                    before-create.hook.cluster.cluster.x-k8s.io/quota is set";
    assert_eq!(message, expected);
}

#[test]
fn an_upgrade_is_told_part_by_part() {
    let plain = cluster(&[]);
    let starting = control_plane::Decision { is_starting: true, ..at("v1.33.0") };
    let pending = control_plane::Decision { is_pending: true, waits_for_workers: true, ..at("v1.33.0") };
    let old = |name: &str, progress| group(name, "v1.32.0", progress);
    let table = [
        (
            starting,
            vec![old("a", Progress::Pending), old("b", Progress::Pending)],
            (&["v1.33.0", "v1.34.0"][..], &["v1.34.0"][..]),
            "ClusterUpgrading",
            "\n  * KubeadmControlPlane upgrading to version v1.33.0 (v1.34.0 pending)\
             \n  * MachineDeployments c-a-x, c-b-x pending upgrade to version v1.34.0",
        ),
        (
            pending,
            vec![group("a", "v1.33.0", Progress::Starting), old("b", Progress::Deferred)],
            (&["v1.34.0"], &["v1.33.0", "v1.34.0"]),
            "ClusterUpgrading",
            "\n  * KubeadmControlPlane pending upgrade to version v1.34.0\
             \n  * MachineDeployment c-a-x upgrading to version v1.33.0\
             \n  * MachineDeployment c-b-x upgrade to version v1.34.0 deferred using defer-upgrade or \
             hold-upgrade-sequence annotations",
        ),
        (
            control_plane::Decision { is_upgrading: true, ..at("v1.34.0") },
            vec![
                group("a", "v1.34.0", Progress::PendingCreate),
                group("b", "v1.34.0", Progress::PendingCreate),
            ],
            (&[], &["v1.34.0"]),
            "ClusterUpgrading",
            "\n  * KubeadmControlPlane upgrading to version v1.34.0\
             \n  * MachineDeploymentTopologies a, b creation deferred while control plane upgrade is in progress",
        ),
        (
            at("v1.34.0"),
            vec![old("a", Progress::Deferred)],
            (&[], &["v1.34.0"]),
            "MachineDeploymentsUpgradeDeferred",
            "\n  * MachineDeployment c-a-x upgrade to version v1.34.0 deferred using defer-upgrade or \
             hold-upgrade-sequence annotations",
        ),
    ];
    for (control_plane, workers, plan, reason, lines) in table {
        let found = shown(&plain, &of(&plain, &outcome(control_plane, workers, plan)));
        let message = format!("Cluster is upgrading to v1.34.0{lines}");
        assert_eq!(found, (ConditionStatus::False, reason.to_owned(), message));
    }
    let held = cluster(&[
        (PENDING_HOOKS, "AfterControlPlaneUpgrade"),
        ("after-control-plane.hook.cluster.cluster.x-k8s.io/check", ""),
    ]);
    let mut waiting = outcome(at("v1.34.0"), vec![old("a", Progress::Pending)], (&[], &["v1.34.0"]));
    waiting.upgrade.hooks = Hooks::of(&held);
    assert!(waiting.upgrade.hooks.blocks(Hook::AfterControlPlaneUpgrade));
    let (_, _, message) = shown(&held, &of(&held, &waiting));
    let hook = "\n  * Following hooks are blocking upgrade: AfterControlPlaneUpgrade: annotation \
                after-control-plane.hook.cluster.cluster.x-k8s.io/check is set\n";
    assert!(message.contains(hook), "{message}");
}

#[test]
fn the_plan_is_published_and_cleared() {
    let mut published = cluster(&[]);
    let plan = outcome(at("v1.32.0"), vec![], (&["v1.33.0", "v1.34.0"], &["v1.34.0"]));
    let report = of(&published, &plan);
    apply(&mut published, &report, &Time::default());
    let versions = |counts: &Option<ReplicaCounts>| {
        let plan = counts.as_ref().and_then(|it| it.upgrade_plan.clone()).unwrap_or_default();
        plan.into_iter().map(|it| it.version).collect::<Vec<_>>()
    };
    let status = published.status.clone().unwrap();
    assert_eq!(versions(&status.control_plane), ["v1.33.0", "v1.34.0"]);
    assert_eq!(versions(&status.workers), ["v1.34.0"]);
    let report = of(&published, &outcome(at("v1.34.0"), vec![], (&[], &[])));
    apply(&mut published, &report, &Time::default());
    let status = published.status.unwrap();
    assert_eq!((versions(&status.control_plane), versions(&status.workers)), (vec![], vec![]));
}
