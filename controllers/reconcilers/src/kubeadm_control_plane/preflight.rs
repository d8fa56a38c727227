//! Preflight checks before the control plane gets or loses a Machine.

use std::time::Duration;

use apiserver_types::{Cluster, KubeadmControlPlane};
use kube::ResourceExt;

use super::etcd_projection::{self, Change};
use super::observe::Observed;
use super::replica::{Replica, managed_etcd};
use super::{join_stage, remediation_record};

/// Interval until a check that failed is made again.
pub(super) const UNHEALTHY: Duration = Duration::from_secs(15);

/// Interval while a Machine is being deleted.
pub(super) const DELETING: Duration = Duration::from_secs(30);

/// Annotation of a Cluster with the version that the controller of topologies lets the control plane go to.
const UPGRADE_STEP: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";

/// Operation that the checks are for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operation<'a> {
    /// A Machine is made.
    ScaleUp,
    /// The Machine of this name is deleted. Its own health does not count.
    ScaleDown(&'a str),
    /// A Machine is updated in place. One that is unhealthy is replaced.
    Update,
}

/// Reasons that forbid an operation now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Blocked {
    /// Reasons, one line each.
    pub reasons: Vec<String>,
    /// Interval until the checks are made again.
    pub interval: Duration,
    /// Machines are unhealthy, which an Event reports.
    pub is_unhealthy: bool,
    /// The operation would make a Machine, and not delete one.
    pub is_up: bool,
}

/// Returns the reasons that forbid an operation, or `None` if it is allowed.
pub(super) fn check(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    operation: Operation<'_>,
) -> Option<Blocked> {
    let replicas = &observed.replicas;
    if replicas.is_empty() {
        return None;
    }
    let is_up = matches!(operation, Operation::ScaleUp);
    let blocked = |reasons, interval, is_unhealthy| Some(Blocked { reasons, interval, is_unhealthy, is_up });
    if let Some(reason) = topology(control_plane, &observed.cluster) {
        return blocked(vec![reason], UNHEALTHY, false);
    }
    if is_up && !observed.certificates.is_available() {
        return blocked(vec!["Waiting for the cluster certificates".to_owned()], UNHEALTHY, false);
    }
    let deleting: Vec<String> = replicas.iter().filter(|it| it.is_deleting()).map(Replica::name).collect();
    if !deleting.is_empty() {
        let reason = format!("Waiting for the deletion of Machine {}", deleting.join(", "));
        return blocked(vec![reason], DELETING, false);
    }
    let leaving = match operation {
        Operation::ScaleDown(name) => Some(name),
        Operation::ScaleUp | Operation::Update => None,
    };
    let stay = replicas.iter().filter(|it| Some(it.machine.name_any().as_str()) != leaving);
    let managed = managed_etcd(control_plane);
    let stay: Vec<&Replica> = stay.collect();
    let reasons: Vec<String> = stay.iter().flat_map(|it| unhealthy(it, managed, observed)).collect();
    let is_unhealthy = stay.iter().any(|it| is_broken(it, managed));
    if reasons.is_empty() || (is_up && replaces_safely(control_plane, observed)) {
        return None;
    }
    blocked(reasons, UNHEALTHY, is_unhealthy)
}

/// Reports whether unhealthy Machines keep a new one from joining, also one that replaces a remediated Machine.
pub(super) fn waits_for_health(control_plane: &KubeadmControlPlane, observed: &Observed) -> bool {
    let managed = managed_etcd(control_plane);
    let all_are_healthy = observed.replicas.iter().all(|it| unhealthy(it, managed, observed).is_empty());
    !all_are_healthy && !replaces_safely(control_plane, observed)
}

/// Reports whether the replacement of a remediated Machine may join although other Machines are unhealthy: one works, and
/// etcd keeps its quorum with a new member that has not started yet.
fn replaces_safely(control_plane: &KubeadmControlPlane, observed: &Observed) -> bool {
    let (replicas, managed) = (&observed.replicas, managed_etcd(control_plane));
    let keeps_quorum = || {
        let members = observed.workload.members();
        members.is_some_and(|it| etcd_projection::project(it, replicas, Change::Join).is_safe())
    };
    remediation_record::in_progress(control_plane).is_some()
        && replicas.iter().any(|it| it.is_healthy(managed))
        && (!managed || keeps_quorum())
}

/// Returns the reason to wait for the version of the Cluster's topology.
pub(super) fn topology(control_plane: &KubeadmControlPlane, cluster: &Cluster) -> Option<String> {
    let version = &cluster.spec.topology.as_ref()?.version;
    let step = cluster.annotations().get(UPGRADE_STEP);
    let here = &control_plane.spec.version;
    (version != here && step != Some(here))
        .then(|| format!("Waiting for a version upgrade to {version} to be propagated"))
}

/// Returns what keeps a Machine from being healthy, one line each.
fn unhealthy(replica: &Replica, managed_etcd: bool, observed: &Observed) -> Vec<String> {
    let name = replica.name();
    if replica.node().is_none() {
        let stage = join_stage::of(replica, observed);
        return vec![format!(
            "Machine {name} does not have a corresponding Node yet (Machine.status.nodeRef not set): {stage}"
        )];
    }
    let broken = |kind: &&str| !replica.holds(kind);
    let line = |kind: &str| match replica.machine.condition(kind) {
        Some(it) if !it.message.is_empty() => format!("Machine {name}: {kind}: {}", it.message),
        Some(it) => format!("Machine {name}: {kind}: {}", it.reason),
        None => format!("Machine {name}: {kind}: condition not yet reported"),
    };
    Replica::components(managed_etcd).filter(broken).map(line).collect()
}

/// Reports whether a component of a Machine is broken. One that has yet to start is not: a Machine that joins would
/// record an Event in every pass.
fn is_broken(replica: &Replica, managed_etcd: bool) -> bool {
    let starts = |reason: &str| matches!(reason, "Provisioning" | "DoesNotExist");
    let of_pods = Replica::components(managed_etcd).filter(|kind| *kind != "EtcdMemberHealthy");
    let broken = |kind: &str| replica.machine.condition(kind).filter(|_| replica.fails(kind));
    let mut pods = of_pods.filter_map(broken);
    let member_fails = replica.holds("EtcdPodHealthy") && replica.fails("EtcdMemberHealthy");
    replica.node().is_some() && (pods.any(|it| !starts(&it.reason)) || (managed_etcd && member_fails))
}

#[cfg(test)]
mod tests {
    use apiserver_types::ConditionStatus;

    use super::super::etcd_projection::Member;
    use super::super::inspection::{Inspection, Workload};
    use super::super::replica::examples::{going, healthy, replica, set};
    use super::*;

    /// Returns these Machines, each with a member of etcd.
    fn around(replicas: Vec<Replica>, certificates: bool) -> Observed {
        let member = |it: &Replica| Member { name: it.name(), ..Member::default() };
        let members = Ok(replicas.iter().map(member).collect());
        let reached = Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members };
        let mut observed = Observed { replicas, workload: Workload::Reached(reached), ..Observed::default() };
        observed.certificates.examined = true;
        if !certificates {
            observed.certificates.missing.push("ca".to_owned());
        }
        observed
    }

    #[test]
    fn d5_the_replacement_of_a_remediated_machine_joins_beside_unhealthy_ones_if_etcd_stands_it() {
        let mut control_plane = KubeadmControlPlane::default();
        let record = remediation_record::Record::new("gone".to_owned(), Default::default(), 0);
        let machines = |healthy_ones: usize, count: usize| -> Vec<Replica> {
            let machine = |index: usize| {
                let mut machine = healthy(&index.to_string(), 1);
                if index >= healthy_ones {
                    set(&mut machine, "EtcdMemberHealthy", ConditionStatus::Unknown);
                }
                machine
            };
            (0..count).map(machine).collect()
        };
        let table = [
            ("four of five are left, and one more is unhealthy", machines(3, 4), true),
            ("two more are unhealthy", machines(2, 4), false),
            ("two of three are left, and one is unhealthy", machines(1, 2), false),
        ];
        for (case, replicas, expected) in table {
            let observed = around(replicas, true);
            control_plane.annotations_mut().clear();
            assert!(check(&control_plane, &observed, Operation::ScaleUp).is_some(), "{case}: no remediation");
            let noted = (remediation_record::IN_PROGRESS.to_owned(), record.text());
            control_plane.annotations_mut().extend([noted]);
            let found = check(&control_plane, &observed, Operation::ScaleUp);
            assert_eq!(found.is_none(), expected, "{case}: {found:?}");
            let down = check(&control_plane, &observed, Operation::ScaleDown("0"));
            assert!(down.is_some(), "{case}: it is for new Machines only");
        }
    }

    #[test]
    fn a_control_plane_changes_only_while_every_machine_that_stays_is_healthy() {
        let mut unhealthy = healthy("2", 1);
        set(&mut unhealthy, "EtcdMemberHealthy", ConditionStatus::Unknown);
        let (up, down) = (Operation::ScaleUp, Operation::ScaleDown("2"));
        let table = [
            ("no Machines", vec![], false, up, None),
            ("healthy", vec![healthy("1", 1), healthy("2", 1)], true, up, None),
            ("no certificates", vec![healthy("1", 1)], false, up, Some("certificates")),
            ("they do not matter", vec![healthy("1", 1), healthy("2", 1)], false, down, None),
            ("unhealthy", vec![healthy("1", 1), unhealthy.clone()], true, up, Some("EtcdMemberHealthy")),
            ("the unhealthy one goes", vec![healthy("1", 1), unhealthy.clone()], true, down, None),
            (
                "another one is unhealthy",
                vec![healthy("1", 1), unhealthy],
                true,
                Operation::ScaleDown("1"),
                Some("2"),
            ),
            (
                "deleting",
                vec![healthy("1", 1), going(healthy("2", 1))],
                true,
                up,
                Some("deletion of Machine 2"),
            ),
            ("without a Node", vec![replica("1", 1)], true, up, Some("does not have a corresponding Node")),
        ];
        for (case, replicas, certificates, operation, expected) in table {
            let control_plane = KubeadmControlPlane::default();
            let found = check(&control_plane, &around(replicas, certificates), operation);
            let matches = match (&found, expected) {
                (None, None) => true,
                (Some(found), Some(expected)) => found.reasons.join("\n").contains(expected),
                _ => false,
            };
            assert!(matches, "{case}: {found:?}");
        }
    }

    #[test]
    fn a_machine_that_joins_blocks_without_an_event_and_a_broken_one_blocks_with_one() {
        let mut joins = healthy("2", 1);
        set(&mut joins, "EtcdMemberHealthy", ConditionStatus::False);
        set(&mut joins, "EtcdPodHealthy", ConditionStatus::Unknown);
        let mut broken = healthy("2", 1);
        set(&mut broken, "SchedulerPodHealthy", ConditionStatus::False);
        for (case, replica, expected) in
            [("no Node", replica("2", 1), false), ("joins", joins, false), ("broken", broken, true)]
        {
            let replicas = [healthy("1", 1), replica];
            let control_plane = KubeadmControlPlane::default();
            let found = check(&control_plane, &around(replicas.to_vec(), true), Operation::ScaleUp);
            assert_eq!(found.map(|it| it.is_unhealthy), Some(expected), "{case}");
        }
    }

    #[test]
    fn a_control_plane_of_a_topology_waits_for_its_version() {
        let mut observed = around(vec![healthy("1", 1)], true);
        let topology = serde_json::json!({"classRef": {"name": "c"}, "version": "v1.34.0"});
        observed.cluster.spec.topology = serde_json::from_value(topology).unwrap();
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.version = "v1.33.0".to_owned();
        let passes = |control_plane: &KubeadmControlPlane, observed: &Observed| {
            check(control_plane, observed, Operation::ScaleUp).is_none()
        };
        assert!(!passes(&control_plane, &observed));
        observed.cluster.annotations_mut().insert(UPGRADE_STEP.to_owned(), "v1.33.0".to_owned());
        assert!(passes(&control_plane, &observed));
        observed.cluster.annotations_mut().clear();
        control_plane.spec.version = "v1.34.0".to_owned();
        assert!(passes(&control_plane, &observed));
    }
}
