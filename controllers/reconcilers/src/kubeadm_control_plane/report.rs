//! Status of a control plane.

use apiserver_types::{
    Condition, ConditionStatus, KubeadmControlPlane, KubeadmControlPlaneInitialization, Machine, Polarity,
    Time, set_condition,
};
use controllers_runtime::ReconcileError;
use kube::ResourceExt;

use super::act::is_initialized;
use super::decide::Step;
use super::observe::Observed;
use super::outdated::timestamp;
use super::replica::{Replica, managed_etcd};
use super::{add_ons, available, health, remediation_record, rolling_out, scaling};
use crate::CONTROL_PLANE_LABEL;
use crate::aggregate::{NAMES, Source, Target, aggregate, list_names, plural};
use crate::{CLUSTER_NAME_LABEL, kstatus, machine_versions, paused};

/// Age below which a Machine that reports nothing yet does not make `MachinesUpToDate` unknown. Upstream's.
const NEW: jiff::SignedDuration = jiff::SignedDuration::from_secs(10);

/// Result of a pass: its step, or the error that ended it.
pub(super) type Outcome = Result<Step, ReconcileError>;

/// Writes the condition of a paused control plane, and nothing else.
pub(super) fn pause(control_plane: &mut KubeadmControlPlane, observed: &Observed, now: &Time) {
    let generation = control_plane.metadata.generation;
    let condition = paused::condition(control_plane, Some(&observed.cluster), now);
    let conditions = control_plane.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(conditions, condition.at_generation(generation));
    kstatus::remove(conditions);
}

/// Writes the observed state and the outcome of the pass into the status.
pub(super) fn report(
    control_plane: &mut KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    now: &Time,
) {
    let (generation, desired) = (control_plane.metadata.generation, control_plane.spec.replicas);
    let initialized = is_initialized(control_plane, observed);
    let conditions = conditions(control_plane, observed, outcome, initialized, now);
    let remediation = remediation_record::last(control_plane, &observed.replicas);
    let status = control_plane.status.get_or_insert_default();
    counters(status, observed);
    status.last_remediation = remediation.or_else(|| status.last_remediation.take());
    if initialized {
        let milestones = status.initialization.get_or_insert_with(KubeadmControlPlaneInitialization::default);
        milestones.control_plane_initialized = Some(true);
    }
    let known = status.conditions.get_or_insert_default();
    for condition in conditions {
        set_condition(known, condition.at_generation(generation));
    }
    // ScalingUp is False already in the pass that makes the last Machine.
    let work =
        (status.replicas < desired).then_some(("ScalingUp", "status.replicas is less than spec.replicas"));
    kstatus::report(known, work, generation, now);
    if is_success(outcome) {
        status.observed_generation = generation;
    }
    super::deprecated::report(control_plane, observed, outcome, initialized, now);
}

/// Reports whether a pass has succeeded. One without a connection, or that leaves the Machines to another owner, has not.
fn is_success(outcome: &Outcome) -> bool {
    !matches!(outcome, Err(_) | Ok(Step::WaitForConnection(_) | Step::Refuse(_) | Step::RefuseAdoption(_)))
}

fn counters(status: &mut apiserver_types::KubeadmControlPlaneStatus, observed: &Observed) {
    let count = |counts: &dyn Fn(&Replica) -> bool| {
        Some(i32::try_from(observed.replicas.iter().filter(|it| counts(it)).count()).unwrap_or(i32::MAX))
    };
    status.replicas = count(&|_| true);
    status.ready_replicas = count(&|it| it.holds("Ready"));
    status.available_replicas = count(&|it| it.holds("Available"));
    status.up_to_date_replicas = count(&|it| it.holds("UpToDate"));
    let cluster = observed.cluster.name_any();
    status.selector = Some(format!("{CLUSTER_NAME_LABEL}={cluster},{CONTROL_PLANE_LABEL}"));
    status.versions = machine_versions::of_machines(observed.replicas.iter().map(|it| &it.machine));
    let lowest = status.versions.as_ref().and_then(|versions| versions.first());
    status.version = lowest.map(|lowest| lowest.version.clone());
}

/// Returns the conditions, in the order in which upstream lists them.
fn conditions(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    is_initialized: bool,
    now: &Time,
) -> Vec<Condition> {
    let available = (!is_between(control_plane, outcome))
        .then(|| available::condition(control_plane, observed, is_initialized, now));
    let mut conditions: Vec<Condition> = available.into_iter().collect();
    conditions.extend(observed.certificates.condition(now));
    conditions.push(initialized(is_initialized, now));
    conditions.extend(waiting(control_plane, observed, outcome, now));
    conditions.extend(health::conditions(control_plane, observed, now));
    conditions.extend(add_ons::condition(control_plane, observed.add_ons.as_ref(), now));
    conditions.push(rolling_out::condition(observed, outcome, now));
    conditions.push(scaling::remediating(observed, now));
    conditions.push(scaling::down(control_plane, observed, outcome, now));
    conditions.push(scaling::up(control_plane, observed, outcome, now));
    conditions.push(of_machines(&READY, observed, now));
    conditions.push(of_machines(&UP_TO_DATE, observed, now));
    conditions.push(paused::condition(control_plane, Some(&observed.cluster), now));
    conditions.push(deleting(control_plane, observed, outcome, now));
    conditions
}

/// Reports whether the next pass follows at once, and this one did not look at the workload cluster. What is known of the
/// availability stays until then.
fn is_between(control_plane: &KubeadmControlPlane, outcome: &Outcome) -> bool {
    matches!(outcome, Ok(Step::Adopt | Step::DeleteUnfinished))
        && control_plane.condition("Available").is_some()
}

fn initialized(is_initialized: bool, now: &Time) -> Condition {
    let (status, reason) = match is_initialized {
        true => (ConditionStatus::True, "Initialized"),
        false => (ConditionStatus::False, "NotInitialized"),
    };
    Condition::new("Initialized", status, reason, "", now.clone())
}

/// Returns the conditions of components that do not exist because the Cluster is not ready for them. An external etcd is
/// never inspected, so that its condition is for others to write.
fn waiting(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    now: &Time,
) -> Vec<Condition> {
    let Ok(Step::WaitForCluster(message)) = outcome else { return Vec::new() };
    if !matches!(observed.workload, super::inspection::Workload::NotInspected) {
        return Vec::new();
    }
    let new = |kind| Condition::new(kind, ConditionStatus::Unknown, "InspectionFailed", message, now.clone());
    let etcd = managed_etcd(control_plane).then_some(health::ETCD_CLUSTER);
    etcd.into_iter().chain([health::COMPONENTS]).map(new).collect()
}

const READY: Target<'_> = Target {
    kind: "MachinesReady",
    source: "Ready",
    polarity: Polarity::Positive,
    issue: "NotReady",
    unknown: "ReadyUnknown",
    fine: "Ready",
};

const UP_TO_DATE: Target<'_> = Target {
    kind: "MachinesUpToDate",
    source: "UpToDate",
    polarity: Polarity::Positive,
    issue: "NotUpToDate",
    unknown: "UpToDateUnknown",
    fine: "UpToDate",
};

/// Returns the aggregate of a condition of the Machines.
fn of_machines(target: &Target<'_>, observed: &Observed, now: &Time) -> Condition {
    let is_new = |machine: &Machine| {
        let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let age = timestamp(now).zip(created).map(|(now, created)| now.duration_since(created));
        age.is_some_and(|age| age < NEW)
    };
    let unjudged = |machine: &Machine| {
        target.source == UP_TO_DATE.source && machine.condition(target.source).is_none() && is_new(machine)
    };
    let machines: Vec<&Machine> = observed.replicas.iter().map(|it| &it.machine).collect();
    if machines.is_empty() {
        return Condition::new(target.kind, ConditionStatus::True, "NoReplicas", "", now.clone());
    }
    let names: Vec<(String, &Machine)> =
        machines.into_iter().filter(|it| !unjudged(it)).map(|it| (it.name_any(), it)).collect();
    let source = |(name, machine): &'_ (String, &'_ Machine)| -> (String, Option<Condition>) {
        (name.clone(), machine.condition(target.source).cloned())
    };
    let owned: Vec<(String, Option<Condition>)> = names.iter().map(source).collect();
    let sources: Vec<Source<'_>> = owned
        .iter()
        .map(|(name, condition)| Source {
            kind: "Machine",
            name,
            condition: condition.as_ref(),
            control_plane: true,
        })
        .collect();
    aggregate(target, &sources, now)
}

fn deleting(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    now: &Time,
) -> Condition {
    let new =
        |status, reason, message: &str| Condition::new("Deleting", status, reason, message, now.clone());
    if control_plane.metadata.deletion_timestamp.is_none() {
        return new(ConditionStatus::False, "NotDeleting", "");
    }
    let names = |names: Vec<String>| list_names(names.iter().map(String::as_str), NAMES);
    match outcome {
        Err(error) => new(ConditionStatus::True, "InternalError", &error.to_string()),
        Ok(Step::Refuse(reason)) => new(ConditionStatus::True, "InternalError", reason),
        Ok(Step::Release) => new(ConditionStatus::True, "DeletionCompleted", "Deletion completed"),
        Ok(Step::WaitForOthers(others)) => {
            let message = format!("Waiting for the deletion of {}{}", names(others.clone()), yours(observed));
            new(ConditionStatus::True, "WaitingForWorkersDeletion", &message)
        }
        Ok(_) => {
            let machines = names(observed.replicas.iter().map(Replica::name).collect());
            let message = format!("Waiting for the deletion of Machines {machines}");
            new(ConditionStatus::True, "WaitingForMachineDeletion", &message)
        }
    }
}

/// Returns a sentence on control plane Machines that no controller deletes: those without a controller, unless their
/// Cluster goes, too.
fn yours(observed: &Observed) -> String {
    let machines = observed.standalone.iter().filter(|it| !it.is_deleting()).map(Replica::name);
    let machines: Vec<String> = machines.collect();
    if machines.is_empty() || observed.cluster.metadata.deletion_timestamp.is_some() {
        return String::new();
    }
    let list = list_names(machines.iter().map(String::as_str), NAMES);
    let kind = plural("Machine", machines.len());
    format!(
        ". No controller deletes the control plane {kind} {list}: delete what you do not need, or the Cluster"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(conditions: &[Condition], kind: &str) -> Option<String> {
        apiserver_types::condition(conditions, kind).map(|it| it.reason.clone())
    }

    fn reported(control_plane: &KubeadmControlPlane, outcome: &Outcome) -> Vec<Condition> {
        conditions(control_plane, &Observed::default(), outcome, true, &Time::default())
    }

    #[test]
    fn a_control_plane_that_goes_names_the_machine_of_another_owner() {
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        let found = reported(&control_plane, &Ok(Step::Refuse("Machine x is of another owner".to_owned())));
        let deleting = apiserver_types::condition(&found, "Deleting").unwrap();
        assert_eq!(
            (deleting.reason.as_str(), deleting.message.as_str()),
            ("InternalError", "Machine x is of another owner")
        );
    }

    /// A Machine that could not be made left objects behind, and the control plane was not available while they were
    /// deleted.
    #[test]
    fn a_pass_that_only_deletes_what_is_unfinished_does_not_change_the_availability() {
        let mut control_plane = KubeadmControlPlane::default();
        let (deletes, nothing) = (Ok(Step::DeleteUnfinished), Ok(Step::Nothing));
        assert!(reason(&reported(&control_plane, &deletes), "Available").is_some(), "nothing is known yet");
        let known = Condition::new("Available", ConditionStatus::True, "Available", "", Time::default());
        control_plane.status.get_or_insert_default().conditions = Some(vec![known]);
        assert_eq!(reason(&reported(&control_plane, &deletes), "Available"), None);
        assert!(reason(&reported(&control_plane, &nothing), "Available").is_some());
    }

    #[test]
    fn a_control_plane_that_waits_for_its_cluster_does_not_report_an_external_etcd() {
        let mut control_plane = KubeadmControlPlane::default();
        let waits = || Ok(Step::WaitForCluster("Waiting"));
        let inspection = Some("InspectionFailed".to_owned());
        assert_eq!(reason(&reported(&control_plane, &waits()), health::ETCD_CLUSTER), inspection);
        let external = serde_json::json!({"clusterConfiguration": {"etcd": {"external": {
            "endpoints": ["https://e"], "caFile": "a", "certFile": "b", "keyFile": "c"}}}});
        control_plane.spec.kubeadm_config_spec = serde_json::from_value(external).unwrap();
        let found = reported(&control_plane, &waits());
        assert_eq!(reason(&found, health::ETCD_CLUSTER), None);
        assert_eq!(reason(&found, health::COMPONENTS), inspection);
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod status_tests;
