//! Tests of the decisions, and of the report.

use apiserver_types::{KubeadmControlPlane, MachineDeployment, Time};
use serde_json::json;

use super::super::upgrade::hooks::PENDING_HOOKS;
use super::observe::Deployment;
use super::*;

fn cluster(annotations: &[(&str, &str)]) -> Cluster {
    let mut cluster = Cluster::new("c", ClusterSpec::default());
    for (key, value) in annotations {
        cluster.annotations_mut().insert((*key).to_owned(), (*value).to_owned());
    }
    cluster
}

fn requested(versions: &str) -> Request {
    Request::of(&cluster(&[(UPGRADE, versions)])).unwrap().unwrap()
}

/// Returns a cluster whose Machines all have the versions of their objects.
fn observed(plane: &str, workers: &[(&str, &str)]) -> Observed {
    let mut control_plane = KubeadmControlPlane::default();
    control_plane.metadata.name = Some("plane".to_owned());
    control_plane.spec.version = plane.to_owned();
    control_plane.status = serde_json::from_value(json!({"version": plane})).unwrap();
    let of = |(name, version): &(&str, &str)| {
        let mut object = MachineDeployment::default();
        object.metadata.name = Some((*name).to_owned());
        object.spec.template.spec.version = Some((*version).to_owned());
        Deployment { object, is_upgrading: false }
    };
    Observed { control_plane, deployments: workers.iter().map(of).collect() }
}

/// Plays passes until the upgrade is done. Returns the changes of versions, one text for each pass with some.
fn played(mut cluster: Cluster, versions: &str, mut state: Observed) -> Vec<String> {
    let request = requested(versions);
    let mut log = Vec::new();
    for _ in 0..20 {
        let upgrade = decide(&cluster, &request, &state).unwrap();
        if is_done(&upgrade) {
            log.push("done".to_owned());
            return log;
        }
        let mut changes = Vec::new();
        let version = upgrade.control_plane.version.clone();
        if state.control_plane.spec.version != version {
            changes.push(format!("plane {version}"));
        }
        let mut workers = Vec::new();
        for (decision, deployment) in upgrade.workers.iter().zip(&state.deployments) {
            if decision.version != deployment.version() {
                changes.push(format!("{} {}", decision.object, decision.version));
            }
            workers.push((decision.object.as_str(), decision.version.as_str()));
        }
        state = observed(&version, &workers);
        log.extend((!changes.is_empty()).then(|| changes.join(", ")));
        let pending = upgrade.hooks.pending().unwrap_or_default();
        cluster.annotations_mut().insert(PENDING_HOOKS.to_owned(), pending);
    }
    log
}

#[test]
fn the_control_plane_takes_one_minor_after_the_other_and_the_workers_follow_one_by_one() {
    let state = || observed("v1.33.0", &[("a", "v1.33.0"), ("b", "v1.33.0")]);
    assert_eq!(
        played(cluster(&[]), "v1.34.2,v1.35.1", state()),
        ["plane v1.34.2", "plane v1.35.1", "a v1.35.1", "b v1.35.1", "done"]
    );
    assert_eq!(played(cluster(&[]), "v1.33.4", state()), ["plane v1.33.4", "a v1.33.4", "b v1.33.4", "done"]);
    let at_once = cluster(&[("topology.cluster.x-k8s.io/upgrade-concurrency", "2")]);
    assert_eq!(played(at_once, "v1.33.4", state()), ["plane v1.33.4", "a v1.33.4, b v1.33.4", "done"]);
    // Workers do not become more than three minors older.
    let chain = "v1.34.0,v1.35.0,v1.36.0,v1.37.0";
    let expected = ["plane v1.34.0", "plane v1.35.0", "plane v1.36.0", "a v1.36.0", "plane v1.37.0"];
    assert_eq!(played(cluster(&[]), chain, observed("v1.33.0", &[("a", "v1.33.0")]))[..5], expected);
    // Cancelled at its first version, which the control plane has already.
    let midway = observed("v1.34.2", &[("a", "v1.33.0"), ("b", "v1.33.0")]);
    assert_eq!(played(cluster(&[]), "v1.34.2", midway), ["a v1.34.2", "b v1.34.2", "done"]);
    assert_eq!(played(cluster(&[]), "v1.33.0", state()), ["done"]);
}

#[test]
fn hooks_and_annotations_of_workers_hold_an_upgrade_as_that_of_a_topology() {
    let state = || observed("v1.33.0", &[("a", "v1.33.0")]);
    let held = |hook: &str| played(cluster(&[(hook, "")]), "v1.34.0,v1.35.0", state());
    assert_eq!(held("before-upgrade.hook.cluster.cluster.x-k8s.io/x"), [""; 0]);
    assert_eq!(held("after-control-plane.hook.cluster.cluster.x-k8s.io/x"), ["plane v1.34.0"]);
    let at_the_end = held("after-upgrade.hook.cluster.cluster.x-k8s.io/x");
    assert_eq!(at_the_end, ["plane v1.34.0", "plane v1.35.0", "a v1.35.0"], "it is not done");
    let mut deferred = state();
    let annotations = deferred.deployments[0].object.annotations_mut();
    annotations.insert("topology.cluster.x-k8s.io/defer-upgrade".to_owned(), String::new());
    let upgrade = decide(&cluster(&[]), &requested("v1.34.0"), &deferred).unwrap();
    assert_eq!(upgrade.workers[0].progress, Progress::Deferred);
}

#[test]
fn a_version_that_cannot_be_reached_is_refused() {
    let state = || observed("v1.33.2", &[("a", "v1.33.2")]);
    let newer = observed("v1.33.2", &[("a", "v1.34.0")]);
    for (versions, state, expected) in [
        ("v1.33.1", state(), "version v1.33.1 is not above v1.33.2"),
        ("v1.32.9", state(), "version v1.32.9 is not above v1.33.2"),
        ("v1.35.0", state(), "a minor version is left out"),
        ("v1.34.0,v1.36.0", state(), "a minor version is left out"),
        ("v2.0.0", state(), "a minor version is left out"),
        ("v1.34.0", newer, "a has version v1.34.0, and the control plane plane only has v1.33.2"),
    ] {
        let error = decide(&cluster(&[]), &requested(versions), &state).unwrap_err();
        assert!(error.contains(expected), "{versions}: {error}");
    }
    let wrong = Request::of(&cluster(&[(UPGRADE, "new")])).unwrap().unwrap_err();
    assert!(wrong.starts_with("annotation capstan.dev/upgrade must be "), "{wrong}");
}

#[test]
fn the_condition_has_the_words_of_a_topology_and_the_plan_is_published() {
    let (now, request) = (Time::default(), requested("v1.34.0,v1.35.0"));
    let mut cluster = cluster(&[(UPGRADE, "v1.34.0,v1.35.0")]);
    let upgrade = decide(&cluster, &request, &observed("v1.33.0", &[("a", "v1.33.0")])).unwrap();
    let under_way = Report::of(&cluster, &request, &upgrade);
    report::apply(&mut cluster, &under_way, &now);
    let found = cluster.condition(UPGRADING).unwrap();
    assert!(found.holds() && found.reason == "ClusterUpgrading", "{found:?}");
    let expected = "Cluster is upgrading to v1.35.0\n  * KubeadmControlPlane upgrading to version v1.34.0 (v1.35.0 \
                    pending)\n  * MachineDeployment a pending upgrade to version v1.35.0";
    assert_eq!(found.message, expected);
    let plans = |cluster: &Cluster| {
        let status = cluster.status.clone().unwrap();
        let count = |plan: Option<apiserver_types::ReplicaCounts>| {
            plan.and_then(|it| it.upgrade_plan).map_or(0, |plan| plan.len())
        };
        [count(status.control_plane), count(status.workers)]
    };
    assert_eq!(plans(&cluster), [2, 1]);
    report::apply(&mut cluster, &Report::Blocked("no such control plane".to_owned()), &now);
    let found = cluster.condition(UPGRADING).unwrap();
    assert!(found.holds() && found.reason == "UpgradeBlocked", "{found:?}");
    assert_eq!(plans(&cluster), [2, 1]);
    assert!(concerns(&cluster));
    cluster.annotations_mut().remove(UPGRADE);
    assert!(concerns(&cluster), "the condition says that an upgrade is in progress");
    report::apply(&mut cluster, &Report::Ended, &now);
    let found = cluster.condition(UPGRADING).unwrap();
    assert!(!found.holds() && found.reason == "NotUpgrading", "{found:?}");
    assert_eq!(plans(&cluster), [0, 0]);
    assert!(!concerns(&cluster));
}
