//! Status of a Cluster.

use apiserver_types::{
    Cluster, ClusterInitialization, ClusterPhase, ClusterStatus, Condition, ConditionStatus, Gate, Machine,
    Polarity, ReplicaCounts, Time, UPGRADING, condition, set_condition,
};

use super::decide::{Step, is_complete};
use super::observe::Observed;
use super::{conditions, deprecated};
use crate::summary::Obstacle;
use crate::{condition_order, kstatus, machine_versions, paused, summary};

/// Conditions that the availability of a Cluster is made of.
const PARTS: [&str; 4] =
    ["RemoteConnectionProbe", "InfrastructureReady", "ControlPlaneAvailable", "WorkersAvailable"];

/// Condition that the controller of topologies reports.
const TOPOLOGY: &str = "TopologyReconciled";

/// Reasons of that condition with which a Cluster is not available. With others the topology only takes its time.
const TOPOLOGY_ISSUES: [&str; 2] = ["ReconcileFailed", "ClusterClassNotReconciled"];

/// Condition of a Cluster that is being deleted.
const DELETING: &str = "Deleting";

/// Writes the observed state and the pass's last step into the status.
pub(super) fn report(cluster: &mut Cluster, observed: &Observed, step: &Step, now: &Time) {
    let generation = cluster.metadata.generation;
    let gates = cluster.spec.availability_gates.clone().unwrap_or_else(|| observed.class_gates.clone());
    let mut conditions = conditions::all(cluster, observed, step, now);
    conditions.push(paused::condition(cluster, Some(cluster), now));
    let phase = phase(cluster, observed);
    let initialized = observed.initialized(cluster);
    let has_topology = cluster.spec.topology.is_some();
    let with_object = cluster.spec.control_plane_ref.is_some() || cluster.spec.topology.is_some();
    let status = cluster.status.get_or_insert_default();
    copy(status, observed, initialized, with_object);
    let known = status.conditions.get_or_insert_default();
    for condition in conditions {
        set_condition(known, condition.at_generation(generation));
    }
    let available = available(known, &gates, now);
    set_condition(known, available.at_generation(generation));
    let (work, source) = match has_topology {
        true => (work_of_topology(known, generation), "See the condition TopologyReconciled"),
        false => (work_of_upgrade(known), "See the condition Upgrading"),
    };
    let work = work.as_deref().map(|reason| (reason, source));
    kstatus::report(known, work, generation, now);
    condition_order::sort(known);
    status.phase = Some(phase);
    if observed.error.is_none() {
        status.observed_generation = generation;
    }
    deprecated::report(cluster, now);
}

/// Writes only that the Cluster is paused: a paused object is not touched otherwise.
pub(super) fn report_pause(cluster: &mut Cluster, now: &Time) {
    let condition = paused::condition(cluster, Some(cluster), now);
    let condition = condition.at_generation(cluster.metadata.generation);
    let known = cluster.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(known, condition);
    kstatus::remove(known);
}

/// Returns the reason for which the topology of a Cluster is not at rest: that of its condition, or a change of the spec
/// that the topology controller has not seen yet.
fn work_of_topology(conditions: &[Condition], generation: Option<i64>) -> Option<String> {
    match condition(conditions, TOPOLOGY) {
        Some(it) if it.observed_generation == generation => (!it.holds()).then(|| it.reason.clone()),
        _ => Some("Progressing".to_owned()),
    }
}

/// Returns the reason of an upgrade of a Cluster without a topology, while it is in progress. Between two steps, no other
/// condition shows it.
fn work_of_upgrade(conditions: &[Condition]) -> Option<String> {
    condition(conditions, UPGRADING).filter(|it| it.holds()).map(|it| it.reason.clone())
}

/// Returns reason and field of each milestone that is true in `after` and was not in `before`.
pub(super) fn milestones(before: &Cluster, after: &Cluster) -> Vec<(&'static str, &'static str)> {
    let of = |cluster: &Cluster| {
        let initialization = cluster.status.as_ref().and_then(|status| status.initialization.clone());
        let initialization = initialization.unwrap_or_default();
        [initialization.infrastructure_provisioned, initialization.control_plane_initialized]
            .map(|milestone| milestone == Some(true))
    };
    let words = [
        ("InfrastructureReady", "InfrastructureProvisioned"),
        ("ControlPlaneInitialized", "ControlPlaneInitialized"),
    ];
    let reached = of(before).into_iter().zip(of(after)).zip(words);
    reached.filter(|((before, after), _)| *after && !*before).map(|(_, words)| words).collect()
}

fn copy(status: &mut ClusterStatus, observed: &Observed, initialized: bool, with_object: bool) {
    if observed.provisioned() {
        let initialization = status.initialization.get_or_insert_with(ClusterInitialization::default);
        initialization.infrastructure_provisioned = Some(true);
    }
    if initialized {
        let initialization = status.initialization.get_or_insert_with(ClusterInitialization::default);
        initialization.control_plane_initialized = Some(true);
    }
    let from = observed.infrastructure.as_ref().and_then(|it| it.status.as_ref());
    if let Some(mut domains) = from.and_then(|from| from.failure_domains.clone()).filter(|it| !it.is_empty())
    {
        domains.sort_by(|a, b| a.name.cmp(&b.name));
        status.failure_domains = Some(domains);
    }
    let known = status.control_plane.take();
    status.control_plane = match with_object {
        true => Some(control_plane(observed, known.unwrap_or_default())),
        false => Some(counts(&observed.control_plane_machines)),
    };
    // The controller of topologies writes the plan.
    let plan = status.workers.take().and_then(|known| known.upgrade_plan);
    status.workers = Some(ReplicaCounts { upgrade_plan: plan, ..workers(observed) });
}

/// Counts the control plane as its object does. What the object does not report is still as `known`; without the object,
/// nothing is known.
fn control_plane(observed: &Observed, known: ReplicaCounts) -> ReplicaCounts {
    let Some(control_plane) = &observed.control_plane else { return ReplicaCounts::default() };
    let status = control_plane.status.clone().unwrap_or_default();
    ReplicaCounts {
        available_replicas: status.available_replicas.or(known.available_replicas),
        desired_replicas: control_plane.spec.replicas.or(known.desired_replicas),
        ready_replicas: status.ready_replicas.or(known.ready_replicas),
        replicas: status.replicas.or(known.replicas),
        up_to_date_replicas: status.up_to_date_replicas.or(known.up_to_date_replicas),
        upgrade_plan: known.upgrade_plan,
        versions: status.versions.or(known.versions),
    }
}

/// Returns the counts that an object with replicas reports. The kinds have the same fields in different types.
macro_rules! reported {
    ($object:expr) => {{
        let status = $object.status.clone().unwrap_or_default();
        ReplicaCounts {
            available_replicas: status.available_replicas,
            desired_replicas: $object.spec.replicas,
            ready_replicas: status.ready_replicas,
            replicas: status.replicas,
            up_to_date_replicas: status.up_to_date_replicas,
            upgrade_plan: None,
            versions: status.versions,
        }
    }};
}

/// Sums up MachinePools, MachineDeployments, MachineSets that belong to none, and Machines that belong to none of them.
fn workers(observed: &Observed) -> ReplicaCounts {
    let alone = |machine: &&Machine| crate::ownership::controller_of(*machine).is_none();
    let alone: Vec<Machine> = observed.workers.iter().filter(alone).cloned().collect();
    let parts = observed.deployments.iter().map(|it| reported!(it));
    let parts = parts.chain(observed.sets.iter().map(|it| reported!(it)));
    let parts = parts.chain(observed.pools.iter().map(|it| reported!(it)));
    let parts: Vec<ReplicaCounts> = parts.chain((!alone.is_empty()).then(|| counts(&alone))).collect();
    let sum = |of: &dyn Fn(&ReplicaCounts) -> Option<i32>| {
        parts
            .iter()
            .filter_map(of)
            .fold(None, |sum: Option<i32>, part| Some(sum.unwrap_or(0).saturating_add(part)))
    };
    ReplicaCounts {
        available_replicas: sum(&|part| part.available_replicas),
        desired_replicas: sum(&|part| part.desired_replicas),
        ready_replicas: sum(&|part| part.ready_replicas),
        replicas: sum(&|part| part.replicas),
        up_to_date_replicas: sum(&|part| part.up_to_date_replicas),
        upgrade_plan: None,
        versions: machine_versions::sum(parts.iter().filter_map(|part| part.versions.as_deref())),
    }
}

/// Counts Machines. All that exist are desired: no other object says how many there should be.
fn counts(machines: &[Machine]) -> ReplicaCounts {
    let count = |desired: &dyn Fn(&&Machine) -> bool| {
        Some(i32::try_from(machines.iter().filter(desired).count()).unwrap_or(i32::MAX))
    };
    let holds = |machine: &&Machine, kind: &str| machine.condition(kind).is_some_and(Condition::holds);
    ReplicaCounts {
        available_replicas: count(&|machine| holds(machine, "Available")),
        desired_replicas: count(&|_| true),
        ready_replicas: count(&|machine| holds(machine, "Ready")),
        replicas: count(&|_| true),
        up_to_date_replicas: count(&|machine| holds(machine, "UpToDate")),
        upgrade_plan: None,
        versions: machine_versions::of_machines(machines),
    }
}

fn phase(cluster: &Cluster, observed: &Observed) -> ClusterPhase {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref();
    let reachable = endpoint.is_some_and(is_complete);
    match cluster.metadata.deletion_timestamp {
        Some(_) => ClusterPhase::Deleting,
        None if observed.was_provisioned(cluster) && reachable => ClusterPhase::Provisioned,
        None if cluster.spec.infrastructure_ref.is_some() || cluster.spec.control_plane_ref.is_some() => {
            ClusterPhase::Provisioning
        }
        None => ClusterPhase::Pending,
    }
}

/// Available: False with every obstacle's message if one of them is an issue, Unknown if all of them
/// are unknown, True without obstacles. A deletion is an issue, and expects that objects are gone.
fn available(conditions: &[Condition], gates: &[Gate], now: &Time) -> Condition {
    let deleting = condition(conditions, DELETING).is_some_and(Condition::holds);
    let is_expected = |kind: &&str| deleting && summary::is_gone(conditions, kind);
    let topology = condition(conditions, TOPOLOGY).filter(|it| TOPOLOGY_ISSUES.contains(&it.reason.as_str()));
    let parts = PARTS.into_iter().filter(|kind| !is_expected(kind));
    let parts: Vec<&str> = parts.chain(topology.map(|_| TOPOLOGY)).collect();
    let deleting = deleting.then(|| summary::obstacle(conditions, DELETING, Polarity::Negative)).flatten();
    let others = summary::obstacles(conditions, &parts, gates);
    let obstacles: Vec<Obstacle> = deleting.into_iter().chain(others).collect();
    let status = summary::status(&obstacles);
    let reason = match status {
        ConditionStatus::True => "Available",
        ConditionStatus::False => "NotAvailable",
        ConditionStatus::Unknown => "AvailableUnknown",
    };
    Condition::new("Available", status, reason, &summary::message(&obstacles), now.clone())
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, KubeadmControlPlane, MachineDeployment, MachinePool, MachineSet};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cluster_is_not_available_while_the_condition_of_a_negative_gate_is_true() {
        use ConditionStatus::{False, True, Unknown};
        let gates = [Gate { condition_type: "Burning".to_owned(), polarity: Some(Polarity::Negative) }];
        let parts = PARTS.map(|kind| Condition::new(kind, True, "Fine", "", Time::default()));
        for (burning, expected) in [(True, False), (False, True), (Unknown, Unknown)] {
            let gate = Condition::new("Burning", burning, "Fire", "it burns", Time::default());
            let conditions: Vec<Condition> = parts.iter().cloned().chain([gate]).collect();
            let available = available(&conditions, &gates, &Time::default());
            assert_eq!(available.status, expected, "{available:?}");
        }
    }

    #[test]
    fn a_topology_that_failed_makes_a_cluster_unavailable_and_one_that_upgrades_does_not() {
        use ConditionStatus::{False, True};
        let parts = PARTS.map(|kind| Condition::new(kind, True, "Fine", "", Time::default()));
        for (reason, expected) in [
            ("ReconcileFailed", False),
            ("ClusterClassNotReconciled", False),
            ("ClusterUpgrading", True),
            ("Paused", True),
        ] {
            let topology = Condition::new(TOPOLOGY, False, reason, "why", Time::default());
            let conditions: Vec<Condition> = parts.iter().cloned().chain([topology]).collect();
            assert_eq!(available(&conditions, &[], &Time::default()).status, expected, "{reason}");
        }
    }

    #[test]
    fn a_topology_has_work_left_until_its_controller_has_reconciled_the_present_spec() {
        use ConditionStatus::{False, True};
        for (status, observed, expected) in
            [(True, 2, None), (True, 1, Some("Progressing")), (False, 2, Some("ClusterUpgrading"))]
        {
            let topology = Condition::new(TOPOLOGY, status, "ClusterUpgrading", "", Time::default());
            let conditions = [topology.at_generation(Some(observed))];
            assert_eq!(work_of_topology(&conditions, Some(2)).as_deref(), expected, "{conditions:?}");
        }
    }

    #[test]
    fn a_cluster_without_a_topology_has_work_left_while_an_upgrade_is_in_progress() {
        use ConditionStatus::{False, True};
        for (status, reason, expected) in
            [(True, "ClusterUpgrading", Some("ClusterUpgrading")), (False, "NotUpgrading", None)]
        {
            let conditions = [Condition::new(UPGRADING, status, reason, "", Time::default())];
            assert_eq!(work_of_upgrade(&conditions).as_deref(), expected);
        }
        assert_eq!(work_of_upgrade(&[]), None);
    }

    /// The text was recorded from upstream's controllers.
    #[test]
    fn a_cluster_that_goes_lists_what_is_deleted_and_what_is_missing_and_not_what_is_gone() {
        use ConditionStatus::{False, True};
        let of = |kind: &str, status, reason: &str, message: &str| {
            Condition::new(kind, status, reason, message, Time::default())
        };
        let remaining = "* MachineDeployments: md\n* MachineSets: ms";
        let conditions = [
            of(DELETING, True, "WaitingForWorkersDeletion", remaining),
            of("RemoteConnectionProbe", True, "ProbeSucceeded", ""),
            of("InfrastructureReady", False, "ObjectDeleted", "OpenStackCluster has been deleted"),
            of("ControlPlaneAvailable", False, "NotAvailable", "Failed to get etcd members"),
            of("WorkersAvailable", False, "NotAvailable", "* MachineDeployment md: Deletion in progress"),
        ];
        let found = available(&conditions, &[], &Time::default());
        let expected = "* Deleting:\n  * MachineDeployments: md\n  * MachineSets: ms\n\
            * ControlPlaneAvailable: Failed to get etcd members\n\
            * WorkersAvailable:\n  * MachineDeployment md: Deletion in progress";
        assert_eq!((found.status, found.message.as_str()), (False, expected));
    }

    #[test]
    fn availability_gates_affect_the_available_condition() {
        let gate = Gate { condition_type: "Burning".to_owned(), polarity: Some(Polarity::Negative) };
        let spec = ClusterSpec { availability_gates: Some(vec![gate]), ..ClusterSpec::default() };
        let mut cluster = Cluster::new("c", spec);
        let burning = Condition::new("Burning", ConditionStatus::True, "Fire", "it burns", Time::default());
        cluster.status = Some(ClusterStatus { conditions: Some(vec![burning]), ..ClusterStatus::default() });
        report(&mut cluster, &Observed::default(), &Step::Nothing, &Time::default());
        let available = cluster.condition("Available").unwrap();
        assert!(available.message.contains("Burning: it burns"), "{available:?}");
    }

    /// Other tools may write the status of an infrastructure that they manage.
    #[test]
    fn failure_domains_are_in_the_order_of_their_names() {
        let mut infrastructure = apiserver_types::OpenStackCluster::default();
        let domains = json!({"failureDomains": [{"name": "b"}, {"name": "a", "controlPlane": true}]});
        infrastructure.status = serde_json::from_value(domains).unwrap();
        let observed = Observed { infrastructure: Some(infrastructure), ..Observed::default() };
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        report(&mut cluster, &observed, &Step::Nothing, &Time::default());
        let domains = cluster.status.unwrap().failure_domains.unwrap();
        assert_eq!(domains.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn workers_are_counted_in_pools_in_deployments_in_sets_without_one_and_alone() {
        let status = json!({"replicas": 2, "readyReplicas": 1});
        let mut deployment = MachineDeployment::default();
        deployment.spec.replicas = Some(3);
        deployment.status = serde_json::from_value(status.clone()).unwrap();
        let mut set = MachineSet::default();
        set.spec.replicas = Some(2);
        set.status = serde_json::from_value(status.clone()).unwrap();
        let mut pool = MachinePool::default();
        pool.spec.replicas = Some(10);
        pool.status = serde_json::from_value(status).unwrap();
        let observed = Observed {
            deployments: vec![deployment],
            sets: vec![set],
            pools: vec![pool],
            workers: vec![Machine::default()],
            ..Observed::default()
        };
        let workers = workers(&observed);
        assert_eq!(
            (workers.desired_replicas, workers.replicas, workers.ready_replicas),
            (Some(16), Some(7), Some(3))
        );
    }

    #[test]
    fn the_control_plane_is_counted_by_its_object_alone_where_the_cluster_names_one() {
        let known = ReplicaCounts { ready_replicas: Some(3), replicas: Some(3), ..ReplicaCounts::default() };
        let machines = vec![Machine::default()];
        let mut observed = Observed { control_plane_machines: machines, ..Observed::default() };
        assert_eq!(control_plane(&observed, known.clone()), ReplicaCounts::default(), "it does not exist");
        let mut object = KubeadmControlPlane::default();
        object.spec.replicas = Some(5);
        object.status = serde_json::from_value(json!({"replicas": 4})).unwrap();
        observed.control_plane = Some(object);
        let counted = control_plane(&observed, known);
        let found = (counted.desired_replicas, counted.replicas, counted.ready_replicas);
        assert_eq!(found, (Some(5), Some(4), Some(3)), "what it does not report stays");
        let mut alone = Cluster::new("c", ClusterSpec::default());
        report(&mut alone, &observed, &Step::Nothing, &Time::default());
        let counted = alone.status.unwrap().control_plane.unwrap();
        assert_eq!(counted.replicas, Some(1), "without a reference, the Machines are counted");
    }

    /// The phase went back to Provisioning when a person deleted the OpenStackCluster of a running cluster.
    #[test]
    fn the_phase_stays_when_the_infrastructure_object_is_gone() {
        let endpoint = json!({"host": "192.0.2.1", "port": 6443});
        let infrastructure = json!({"apiGroup": "g", "kind": "OpenStackCluster", "name": "c"});
        let spec = json!({"controlPlaneEndpoint": endpoint, "infrastructureRef": infrastructure});
        let mut cluster = Cluster::new("c", serde_json::from_value(spec).unwrap());
        report(&mut cluster, &Observed::default(), &Step::Nothing, &Time::default());
        assert_eq!(cluster.status.clone().unwrap().phase, Some(ClusterPhase::Provisioning));
        let milestone = json!({"initialization": {"infrastructureProvisioned": true}});
        cluster.status = serde_json::from_value(milestone).unwrap();
        report(&mut cluster, &Observed::default(), &Step::Nothing, &Time::default());
        assert_eq!(cluster.status.unwrap().phase, Some(ClusterPhase::Provisioned));
    }

    #[test]
    fn a_cluster_without_infrastructure_awaits_none() {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        let observed = Observed { without_infrastructure: true, ..Observed::default() };
        report(&mut cluster, &observed, &Step::Nothing, &Time::default());
        let initialization = cluster.status.unwrap().initialization.unwrap();
        assert_eq!(initialization.infrastructure_provisioned, Some(true));
    }

    #[test]
    fn a_paused_cluster_reports_that_alone() {
        let mut cluster = Cluster::new("c", ClusterSpec { paused: Some(true), ..ClusterSpec::default() });
        report_pause(&mut cluster, &Time::default());
        assert!(cluster.condition("Paused").is_some_and(Condition::holds));
        let status = cluster.status.unwrap();
        assert_eq!(
            (status.phase, status.workers, status.conditions.map(|it| it.len())),
            (None, None, Some(1))
        );
    }
}
