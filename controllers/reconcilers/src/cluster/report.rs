//! Status of a Cluster.

use std::collections::BTreeMap;

use apiserver_types::{
    Cluster, ClusterInitialization, ClusterPhase, ClusterStatus, Condition, ConditionStatus, Gate, Machine,
    ReplicaCounts, StatusVersion, Time, condition, set_condition,
};
use kube::ResourceExt;

use super::decide::Step;
use super::descendants;
use super::observe::{INFRASTRUCTURE_KIND, Observed};
use crate::{paused, summary};

/// Conditions that the availability of a Cluster is made of.
const PARTS: [&str; 3] = ["InfrastructureReady", "RemoteConnectionProbe", "ControlPlaneInitialized"];

/// Writes the observed state and the pass's last step into the status.
pub(super) fn report(cluster: &mut Cluster, observed: &Observed, step: &Step, now: &Time) {
    let generation = cluster.metadata.generation;
    let gates = cluster.spec.availability_gates.clone().unwrap_or_default();
    let conditions = [
        infrastructure(cluster, observed, now),
        initialized(observed, now),
        probe(now),
        machines("ControlPlaneMachinesReady", "Ready", &observed.control_plane, now),
        machines("WorkerMachinesReady", "Ready", &observed.workers, now),
        deleting(cluster, step, now),
        paused::condition(cluster, Some(cluster), now),
    ];
    let phase = phase(cluster, observed);
    let status = cluster.status.get_or_insert_default();
    copy(status, observed);
    let known = status.conditions.get_or_insert_default();
    for condition in conditions {
        set_condition(known, condition.at_generation(generation));
    }
    let available = available(known, &gates, now);
    set_condition(known, available.at_generation(generation));
    status.phase = Some(phase);
    status.observed_generation = generation;
}

fn copy(status: &mut ClusterStatus, observed: &Observed) {
    if observed.provisioned() {
        let initialization = status.initialization.get_or_insert_with(ClusterInitialization::default);
        initialization.infrastructure_provisioned = Some(true);
    }
    if initialized_by(&observed.control_plane) {
        let initialization = status.initialization.get_or_insert_with(ClusterInitialization::default);
        initialization.control_plane_initialized = Some(true);
    }
    let from = observed.infrastructure.as_ref().and_then(|it| it.status.as_ref());
    if let Some(domains) = from.and_then(|from| from.failure_domains.clone()).filter(|it| !it.is_empty()) {
        status.failure_domains = Some(domains);
    }
    status.control_plane = Some(counts(&observed.control_plane));
    status.workers = Some(counts(&observed.workers));
}

/// Counts Machines. All that exist are desired: no other object says how many there should be.
fn counts(machines: &[Machine]) -> ReplicaCounts {
    let count = |desired: &dyn Fn(&&Machine) -> bool| {
        Some(i32::try_from(machines.iter().filter(desired).count()).unwrap_or(i32::MAX))
    };
    let holds = |machine: &&Machine, kind: &str| machine.condition(kind).is_some_and(Condition::holds);
    let mut versions: BTreeMap<String, i32> = BTreeMap::new();
    for version in machines.iter().filter_map(|machine| machine.spec.version.clone()) {
        let count = versions.entry(version).or_insert(0);
        *count = count.saturating_add(1);
    }
    let versions =
        versions.into_iter().map(|(version, count)| StatusVersion { version, replicas: Some(count) });
    let versions: Vec<StatusVersion> = versions.collect();
    ReplicaCounts {
        available_replicas: count(&|machine| holds(machine, "Available")),
        desired_replicas: count(&|machine| machine.metadata.deletion_timestamp.is_none()),
        ready_replicas: count(&|machine| holds(machine, "Ready")),
        replicas: count(&|_| true),
        up_to_date_replicas: count(&|machine| holds(machine, "UpToDate")),
        upgrade_plan: None,
        versions: (!versions.is_empty()).then_some(versions),
    }
}

fn phase(cluster: &Cluster, observed: &Observed) -> ClusterPhase {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref();
    let reachable = endpoint.is_some_and(|it| it.host.is_some() && it.port.is_some());
    match cluster.metadata.deletion_timestamp {
        Some(_) => ClusterPhase::Deleting,
        None if observed.provisioned() && reachable => ClusterPhase::Provisioned,
        None if cluster.spec.infrastructure_ref.is_some() => ClusterPhase::Provisioning,
        None => ClusterPhase::Pending,
    }
}

fn infrastructure(cluster: &Cluster, observed: &Observed, now: &Time) -> Condition {
    let kind = "InfrastructureReady";
    let no = |reason: &str, message: &str| {
        Condition::new(kind, ConditionStatus::False, reason, message, now.clone())
    };
    let Some(reference) = &cluster.spec.infrastructure_ref else {
        return no("NotConfigured", "spec.infrastructureRef is not set");
    };
    if reference.kind != INFRASTRUCTURE_KIND {
        let message = format!("infrastructureRef names a {}, which is not served here", reference.kind);
        return no("UnknownKind", &message);
    }
    if let Some(refused) = &observed.refused {
        return no("NotReady", refused);
    }
    let Some(infrastructure) = &observed.infrastructure else {
        let message = format!("OpenStackCluster {} does not exist", reference.name);
        let deleting = cluster.metadata.deletion_timestamp.is_some();
        return if deleting { no("Deleted", &message) } else { no("DoesNotExist", &message) };
    };
    match infrastructure.condition("Ready") {
        Some(ready) => Condition::new(kind, ready.status, &ready.reason, &ready.message, now.clone()),
        None => no(
            "NotReady",
            &format!("OpenStackCluster {} has no condition Ready yet", infrastructure.name_any()),
        ),
    }
}

fn initialized_by(machines: &[Machine]) -> bool {
    machines.iter().any(|machine| machine.status.as_ref().is_some_and(|status| status.node_ref.is_some()))
}

fn initialized(observed: &Observed, now: &Time) -> Condition {
    let kind = "ControlPlaneInitialized";
    if initialized_by(&observed.control_plane) {
        return Condition::new(kind, ConditionStatus::True, "Initialized", "", now.clone());
    }
    let message = "no control plane Machine has a Node yet";
    Condition::new(kind, ConditionStatus::False, "NotInitialized", message, now.clone())
}

/// Returns the condition of the workload cluster's API, which is not inspected yet.
fn probe(now: &Time) -> Condition {
    let message = "workload clusters are not inspected yet";
    Condition::new("RemoteConnectionProbe", ConditionStatus::Unknown, "NotInspected", message, now.clone())
}

fn machines(kind: &str, part: &str, machines: &[Machine], now: &Time) -> Condition {
    if machines.is_empty() {
        return Condition::new(kind, ConditionStatus::True, "NoReplicas", "", now.clone());
    }
    let lacking = |status: ConditionStatus| {
        let lacking = machines.iter().filter_map(|machine| {
            let condition = machine.condition(part)?;
            (condition.status == status)
                .then(|| format!("Machine {}: {}", machine.name_any(), condition.message))
        });
        lacking.collect::<Vec<_>>()
    };
    let (failing, unknown) = (lacking(ConditionStatus::False), lacking(ConditionStatus::Unknown));
    if !failing.is_empty() {
        return Condition::new(kind, ConditionStatus::False, "NotReady", &failing.join("; "), now.clone());
    }
    if !unknown.is_empty() || machines.iter().any(|machine| machine.condition(part).is_none()) {
        return Condition::new(
            kind,
            ConditionStatus::Unknown,
            "ReadyUnknown",
            &unknown.join("; "),
            now.clone(),
        );
    }
    Condition::new(kind, ConditionStatus::True, "Ready", "", now.clone())
}

fn deleting(cluster: &Cluster, step: &Step, now: &Time) -> Condition {
    if cluster.metadata.deletion_timestamp.is_none() {
        return Condition::new("Deleting", ConditionStatus::False, "NotDeleting", "", now.clone());
    }
    let infrastructure = "WaitingForInfrastructureDeletion";
    let (reason, message) = match step {
        Step::DeleteDescendants(stage, remaining) => (stage.reason(), descendants::describe(remaining)),
        Step::DeleteInfrastructure => (infrastructure, "deleting the infrastructure".to_owned()),
        Step::WaitForInfrastructure(message) => (infrastructure, message.clone()),
        Step::Release => ("DeletionCompleted", String::new()),
        _ => ("Paused", "the deletion continues when the Cluster is no longer paused".to_owned()),
    };
    Condition::new("Deleting", ConditionStatus::True, reason, &message, now.clone())
}

/// Available: False with every obstacle's message if one of them is an issue, Unknown if all of them
/// are unknown, True without obstacles.
fn available(conditions: &[Condition], gates: &[Gate], now: &Time) -> Condition {
    if let Some(deleting) = condition(conditions, "Deleting").filter(|it| it.holds()) {
        let message = format!("Deleting: {}", deleting.message);
        return Condition::new("Available", ConditionStatus::False, "NotAvailable", &message, now.clone());
    }
    let obstacles = summary::obstacles(conditions, &PARTS, gates);
    let status = summary::status(&obstacles);
    let reason = match status {
        ConditionStatus::True => "Available",
        ConditionStatus::False => "NotAvailable",
        ConditionStatus::Unknown => "AvailableUnknown",
    };
    let messages: Vec<&str> = obstacles.iter().map(|obstacle| obstacle.message.as_str()).collect();
    Condition::new("Available", status, reason, &messages.join("; "), now.clone())
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterSpec, Polarity};

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
}
