//! Status of a MachineSet.

use std::time::Duration;

use apiserver_types::{Condition, Machine, MachineSet, MachineSetDeprecatedStatus, set_condition};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::observe::Observed;
use super::{create, moves};
use crate::deprecated_conditions::{self, Old, set, state};
use crate::replica_status::{self, Now, counts, number};
use crate::templates::Missing;
use crate::{condition_order, machine_versions, paused, selectors};

/// Writes the observed state into the status.
pub(super) fn report(set: &mut MachineSet, observed: &Observed, now: &Now) {
    let generation = set.metadata.generation;
    let conditions = conditions(set, observed, now);
    let old = deprecated(set, observed, now);
    let count = |kind| Some(number(observed.machines.iter().filter(|it| counts(it, kind)).count()));
    let selector = selectors::text(&set.spec.selector);
    let status = set.status.get_or_insert_default();
    let known = status.conditions.get_or_insert_default();
    for condition in conditions {
        set_condition(known, condition.at_generation(generation));
    }
    condition_order::sort(known);
    status.selector = (!selector.is_empty()).then_some(selector);
    status.replicas = Some(number(observed.machines.len()));
    status.ready_replicas = count("Ready");
    status.available_replicas = count("Available");
    status.up_to_date_replicas = count("UpToDate");
    status.versions = machine_versions::of_machines(&observed.machines);
    status.deprecated.get_or_insert_default().v1beta1 = Some(old);
}

/// Writes only that the set is paused: a paused object is not touched otherwise.
pub(super) fn report_pause(set: &mut MachineSet, observed: &Observed, now: &Now) {
    let condition = paused::condition(set, observed.cluster.as_ref(), &now.time);
    let condition = condition.at_generation(set.metadata.generation);
    set_condition(set.status.get_or_insert_default().conditions.get_or_insert_default(), condition);
}

fn conditions(set: &MachineSet, observed: &Observed, now: &Now) -> [Condition; 7] {
    let is_deleting = set.metadata.deletion_timestamp.is_some();
    let (machines, current) = (&observed.machines, Some(number(observed.machines.len())));
    // A moved Machine that the number does not include yet is none too many.
    let counted = machines.iter().filter(|it| moves::counts(set, observed, it)).count();
    let desired = if is_deleting { Some(0) } else { set.spec.replicas };
    let obstacles = obstacles(observed);
    let checks = bullets(&observed.preflight);
    let checks = (!checks.is_empty()).then_some(checks.as_str());
    // Users delete the templates of an old set during a rollout, and it will not scale up again.
    let is_missing =
        observed.is_current(set) && !(observed.missing.is_empty() && observed.unusable.is_empty());
    [
        replica_status::remediating(machines, checks, "MachineSet", now),
        replica_status::scaling_down(Some(number(counted)), desired, machines, now),
        replica_status::scaling_up(current, desired, obstacles.as_deref(), is_missing, now),
        replica_status::machines_ready(machines, now),
        replica_status::machines_up_to_date(machines, now),
        paused::condition(set, observed.cluster.as_ref(), &now.time),
        replica_status::deleting(is_deleting, machines, None, now),
    ]
}

/// Returns the end of a message about what keeps the set from creating Machines.
fn obstacles(observed: &Observed) -> Option<String> {
    let missing = observed.missing.iter().map(absence);
    let unusable = observed.unusable.iter().cloned();
    let failed = observed.failure.iter().map(|(_, message)| message.clone());
    let checks = observed.preflight.iter().cloned();
    let all: Vec<String> = missing.chain(unusable).chain(checks).chain(failed).collect();
    (!all.is_empty()).then(|| format!("because:\n{}", bullets(&all)))
}

fn absence(missing: &Missing) -> String {
    format!("{} does not exist. {}", missing.kind, missing.remedy())
}

fn bullets(texts: &[String]) -> String {
    texts.iter().map(|text| format!("* {text}")).collect::<Vec<_>>().join("\n")
}

/// Returns the status in the form of v1beta1.
fn deprecated(ms: &MachineSet, observed: &Observed, now: &Now) -> MachineSetDeprecatedStatus {
    let known = ms.status.as_ref().and_then(|status| status.deprecated.as_ref());
    let mut old = known.and_then(|it| it.v1beta1.clone()).unwrap_or_default();
    let template = ms.spec.template.metadata.as_ref().and_then(|it| it.labels.clone()).unwrap_or_default();
    let is_labelled =
        |machine: &&Machine| template.iter().all(|(key, value)| machine.labels().get(key) == Some(value));
    let wait = u64::try_from(ms.spec.template.spec.min_ready_seconds.unwrap_or_default()).unwrap_or_default();
    let wait = Duration::from_secs(wait);
    let machines = &observed.machines;
    let ready = machines.iter().filter(|it| it.condition("NodeReady").is_some_and(Condition::holds)).count();
    old.fully_labeled_replicas = Some(number(machines.iter().filter(is_labelled).count()));
    old.ready_replicas = Some(number(ready));
    old.available_replicas =
        Some(number(machines.iter().filter(|it| has_been_ready(it, wait, now.instant)).count()));
    let conditions = old.conditions.get_or_insert_default();
    let is_deleting = ms.metadata.deletion_timestamp.is_some();
    let desired = if is_deleting { 0 } else { ms.spec.replicas.unwrap_or(1) };
    set(conditions, "MachinesReady", deprecated_conditions::machines_ready(machines), &now.time);
    set(conditions, "MachinesCreated", machines_created(observed, desired), &now.time);
    if let Some(resized) = resized(number(machines.len()), desired, number(ready)) {
        set(conditions, "Resized", resized, &now.time);
    }
    let parts = ["MachinesCreated", "Resized", "MachinesReady"].map(|kind| state(conditions, kind));
    set(conditions, "Ready", deprecated_conditions::summary(&parts), &now.time);
    old
}

fn machines_created(observed: &Observed, desired: i32) -> Old {
    if let Some((reason, message)) = &observed.failure {
        return Old::no("Error", reason, message.as_str());
    }
    if number(observed.machines.len()) >= desired {
        return Old::True;
    }
    if !observed.preflight.is_empty() {
        return Old::no("Error", "PreflightCheckFailed", observed.preflight.join("; "));
    }
    if let Some(missing) = observed.missing.first() {
        let is_bootstrap = missing.field.starts_with("bootstrap");
        let reason = if is_bootstrap { create::BOOTSTRAP } else { create::INFRASTRUCTURE };
        return Old::no("Error", reason, absence(missing));
    }
    observed.unusable.first().map_or(Old::True, |text| Old::no("Error", create::MACHINE, text.as_str()))
}

/// Returns the condition Resized; `None` if it stays as it is, because Nodes are still missing.
fn resized(current: i32, desired: i32, ready: i32) -> Option<Old> {
    if current < desired {
        let message = format!("Scaling up MachineSet to {desired} replicas (actual {current})");
        return Some(Old::no("Warning", "ScalingUp", message));
    }
    if current > desired {
        let message = format!("Scaling down MachineSet to {desired} replicas (actual {current})");
        return Some(Old::no("Warning", "ScalingDown", message));
    }
    (ready == current).then_some(Old::True)
}

/// Returns true if the Node of a Machine has been ready for a time.
fn has_been_ready(machine: &Machine, wait: Duration, now: Timestamp) -> bool {
    let Some(ready) = machine.condition("NodeReady").filter(|it| it.holds()) else { return false };
    let Ok(since) = ready.last_transition_time.0.parse::<Timestamp>() else { return wait.is_zero() };
    Duration::try_from(now.duration_since(since)).unwrap_or_default() >= wait
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        ConditionStatus, MachineDeployment, MachineDeploymentSpec, MachineSetSpec, MachineSpec,
        MachineStatus, Time,
    };

    use super::*;

    fn machine(name: &str, conditions: &[(&str, ConditionStatus)]) -> Machine {
        let mut machine = Machine::new(name, MachineSpec::default());
        machine.spec.version = Some("v1.33.0".to_owned());
        let conditions = conditions.iter().map(|(kind, status)| {
            Condition::new(kind, *status, "Reason", "", Time("2026-11-21T06:00:00Z".to_owned()))
        });
        let conditions = Some(conditions.collect());
        machine.status = Some(MachineStatus { conditions, ..MachineStatus::default() });
        machine
    }

    fn set(replicas: i32) -> MachineSet {
        let spec = MachineSetSpec { replicas: Some(replicas), ..MachineSetSpec::default() };
        MachineSet::new("ms", spec)
    }

    /// The texts were recorded from upstream's controller.
    #[test]
    fn a_blocked_set_says_why_in_both_forms() {
        let mut set = set(2);
        let check =
            "KubeadmControlPlane obs/cp is provisioning (\"ControlPlaneIsStable\" preflight check failed)";
        let observed = Observed { preflight: vec![check.to_owned()], ..Observed::default() };
        report(&mut set, &observed, &Now::read());
        let message = format!("Scaling up from 0 to 2 replicas is blocked because:\n* {check}");
        assert_eq!(set.condition("ScalingUp").unwrap().message, message);
        let old = set.status.unwrap().deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
        assert_eq!(state(&old, "Ready"), Some(Old::no("Error", "PreflightCheckFailed", check)));
        let message = "Scaling up MachineSet to 2 replicas (actual 0)";
        assert_eq!(state(&old, "Resized"), Some(Old::no("Warning", "ScalingUp", message)));
    }

    #[test]
    fn references_that_cannot_be_used_are_told_in_both_forms() {
        let told = |observed: &Observed| {
            let mut set = set(1);
            report(&mut set, observed, &Now::read());
            let message = set.condition("ScalingUp").unwrap().message.clone();
            let old = set.status.unwrap().deprecated.unwrap().v1beta1.unwrap().conditions.unwrap();
            (message, state(&old, "MachinesCreated"))
        };
        let begin = "Scaling up from 0 to 1 replicas is blocked because:\n* ";
        let table = [
            ("KubeadmConfigTemplate", "bootstrap.configRef", create::BOOTSTRAP),
            ("OpenStackMachineTemplate", "infrastructureRef", create::INFRASTRUCTURE),
        ];
        for (kind, field, reason) in table {
            let text = format!(
                "{kind} does not exist. Create {kind} nowhere, or correct spec.template.spec.{field}"
            );
            let missing = Missing { kind: kind.to_owned(), name: "nowhere".to_owned(), field };
            let observed = Observed { missing: vec![missing], ..Observed::default() };
            assert_eq!(told(&observed), (format!("{begin}{text}"), Some(Old::no("Error", reason, text))));
        }
        let text = "OpenStackMachine ms-* is invalid: spec.flavor: Required value";
        let observed =
            Observed { failure: Some((create::INFRASTRUCTURE, text.to_owned())), ..Observed::default() };
        let expected = Some(Old::no("Error", create::INFRASTRUCTURE, text));
        assert_eq!(told(&observed), (format!("{begin}{text}"), expected));
        let text = "Cluster c does not exist";
        let observed = Observed { unusable: vec![text.to_owned()], ..Observed::default() };
        assert_eq!(
            told(&observed),
            (format!("{begin}{text}"), Some(Old::no("Error", create::MACHINE, text)))
        );
    }

    #[test]
    fn a_missing_template_of_an_old_set_is_no_obstacle_until_machines_are_missing() {
        use crate::machine_labels::REVISION;
        let kind = "OpenStackMachineTemplate".to_owned();
        let missing = vec![Missing { kind, name: "old".to_owned(), field: "infrastructureRef" }];
        let mut deployment = MachineDeployment::new("md", MachineDeploymentSpec::default());
        deployment.annotations_mut().insert(REVISION.to_owned(), "2".to_owned());
        let observed = Observed { missing, deployment: Some(deployment), ..Observed::default() };
        let told = |revision: &str, replicas: i32| {
            let mut set = set(replicas);
            set.annotations_mut().insert(REVISION.to_owned(), revision.to_owned());
            report(&mut set, &observed, &Now::read());
            set.condition("ScalingUp").unwrap().message.clone()
        };
        assert!(told("2", 0).starts_with("Scaling up would be blocked because"));
        assert_eq!(told("1", 0), "");
        assert!(told("1", 1).starts_with("Scaling up from 0 to 1 replicas is blocked because"));
    }

    #[test]
    fn machines_are_counted_by_their_conditions() {
        use ConditionStatus::{False, True};
        let all = [("Ready", True), ("Available", True), ("UpToDate", True), ("NodeReady", True)];
        let mut updating = machine("c", &all);
        updating.annotations_mut().insert(crate::machine_labels::UPDATING.to_owned(), String::new());
        let machines =
            vec![machine("a", &all), machine("b", &[("Ready", True), ("Available", False)]), updating];
        let mut set = set(3);
        report(&mut set, &Observed { machines, ..Observed::default() }, &Now::read());
        let status = set.status.clone().unwrap();
        let numbers =
            [status.replicas, status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
        assert_eq!(numbers, [Some(3), Some(2), Some(1), Some(1)]);
        assert_eq!(status.versions.unwrap()[0].replicas, Some(3));
        let old = status.deprecated.unwrap().v1beta1.unwrap();
        assert_eq!((old.ready_replicas, old.fully_labeled_replicas), (Some(2), Some(3)));
        assert_eq!(state(&old.conditions.unwrap(), "Resized"), None, "not all Nodes are ready");
        assert_eq!(set.condition("ScalingUp").unwrap().reason, "NotScalingUp");
    }
}
