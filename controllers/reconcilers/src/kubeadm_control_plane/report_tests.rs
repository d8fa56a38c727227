//! Tests of the status of a control plane (D.10).

use apiserver_types::{KubeadmControlPlaneStatus, StatusVersion};
use serde_json::json;

use super::super::replica::examples::{healthy, outdated, replica, set};
use super::*;

fn observed(replicas: Vec<Replica>) -> Observed {
    let mut observed = Observed { replicas, ..Observed::default() };
    observed.cluster.metadata.name = Some("blue".to_owned());
    observed
}

fn reported(
    control_plane: &mut KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
) -> KubeadmControlPlaneStatus {
    report(control_plane, observed, outcome, &Time("2026-11-26T10:00:00Z".to_owned()));
    control_plane.status.clone().unwrap()
}

#[test]
fn d10_the_counters_are_those_of_the_conditions_of_the_machines() {
    let machine = |name: &str, holds: &[&str]| {
        let mut replica = healthy(name, 1);
        replica.machine.spec.version = Some("v1.33.0".to_owned());
        for kind in holds {
            set(&mut replica, kind, ConditionStatus::True);
        }
        replica
    };
    let mut upgraded = machine("c", &["Ready"]);
    let info = json!({"kubeletVersion": "v1.34.0"});
    let status = upgraded.machine.status.as_mut().unwrap();
    status.node_info = serde_json::from_value(with_defaults(info)).unwrap();
    let replicas = vec![
        machine("a", &["Ready", "Available", "UpToDate"]),
        outdated(machine("b", &["Ready", "Available"])),
        upgraded,
    ];
    let status = reported(&mut KubeadmControlPlane::default(), &observed(replicas), &Ok(Step::Nothing));
    let counts =
        [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
    assert_eq!(counts, [Some(3), Some(3), Some(2), Some(1)]);
    let selector = "cluster.x-k8s.io/cluster-name=blue,cluster.x-k8s.io/control-plane";
    assert_eq!(status.selector.as_deref(), Some(selector));
    let version =
        |version: &str, replicas| StatusVersion { version: version.to_owned(), replicas: Some(replicas) };
    assert_eq!(
        status.versions,
        Some(vec![version("v1.33.0", 2), version("v1.34.0", 1)]),
        "the kubelet's, if known"
    );
    assert_eq!(status.version.as_deref(), Some("v1.33.0"), "the lowest");
}

/// Returns the facts of a Node, whose other fields are required.
fn with_defaults(mut info: serde_json::Value) -> serde_json::Value {
    for field in [
        "architecture",
        "bootID",
        "containerRuntimeVersion",
        "kernelVersion",
        "kubeProxyVersion",
        "machineID",
        "operatingSystem",
        "osImage",
        "systemUUID",
    ] {
        info[field] = "".into();
    }
    info
}

#[test]
fn d10_an_initialized_control_plane_stays_so_and_an_error_keeps_the_observed_generation() {
    let mut control_plane = KubeadmControlPlane::default();
    control_plane.metadata.generation = Some(2);
    let is_initialized = |status: &KubeadmControlPlaneStatus| {
        status.initialization.as_ref().and_then(|it| it.control_plane_initialized) == Some(true)
    };
    let around = observed(vec![healthy("a", 1)]);
    let status = reported(&mut control_plane, &around, &Ok(Step::Nothing));
    assert!(!is_initialized(&status));
    assert_eq!(status.observed_generation, Some(2));
    let mut reached = observed(vec![healthy("a", 1)]);
    let inspection = super::super::inspection::Inspection {
        nodes: Ok(Vec::new()),
        pods: Default::default(),
        members: Ok(Vec::new()),
    };
    reached.workload = super::super::inspection::Workload::Reached(inspection);
    control_plane.metadata.generation = Some(3);
    for failed in [
        Err(ReconcileError::waiting("Because", "because")),
        Ok(Step::WaitForConnection("because".to_owned())),
        Ok(Step::Refuse("because".to_owned())),
        Ok(Step::RefuseAdoption("because".to_owned())),
    ] {
        let status = reported(&mut control_plane, &reached, &failed);
        assert!(is_initialized(&status));
        assert_eq!(status.observed_generation, Some(2), "the pass has failed: {failed:?}");
    }
    let status = reported(&mut control_plane, &observed(Vec::new()), &Ok(Step::Nothing));
    assert!(is_initialized(&status), "it is never taken back");
    assert_eq!(status.observed_generation, Some(3));
}

#[test]
fn d10_there_are_all_conditions_and_no_one_more() {
    let mut control_plane = KubeadmControlPlane::default();
    let status = reported(&mut control_plane, &observed(vec![healthy("a", 1)]), &Ok(Step::Nothing));
    let mut kinds: Vec<String> = status.conditions.unwrap().into_iter().map(|it| it.kind).collect();
    kinds.sort();
    let expected = [
        "Available",
        "Deleting",
        "Initialized",
        "MachinesReady",
        "MachinesUpToDate",
        "Paused",
        "Reconciling",
        "Remediating",
        "RollingOut",
        "ScalingDown",
        "ScalingUp",
    ];
    assert_eq!(kinds, expected, "without certificates and workload cluster");
}

/// The deletion of a control plane took its Machines while Machines without a controller still ran on their etcd.
#[test]
fn a_control_plane_that_goes_names_the_machines_that_no_controller_deletes() {
    let mut control_plane = KubeadmControlPlane::default();
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
    control_plane.metadata.deletion_timestamp = Some(time.clone());
    let standalone = vec![replica("x", 1)];
    let mut observed = Observed { standalone, ..Observed::default() };
    let waits = Ok(Step::WaitForOthers(vec!["Machine x".to_owned(), "Machine w".to_owned()]));
    let found = |observed: &Observed| {
        let conditions = conditions(&control_plane, observed, &waits, true, &Time::default());
        let deleting = apiserver_types::condition(&conditions, "Deleting").unwrap().clone();
        assert_eq!(deleting.reason, "WaitingForWorkersDeletion");
        deleting.message
    };
    let first = "Waiting for the deletion of Machine w, Machine x";
    let rest =
        "No controller deletes the control plane Machine x: delete what you do not need, or the Cluster";
    assert_eq!(found(&observed), format!("{first}. {rest}"));
    observed.cluster.metadata.deletion_timestamp = Some(time);
    assert_eq!(found(&observed), first, "the controller of the Cluster deletes it");
}
