//! Status of a MachineDeployment.

use std::collections::BTreeSet;

use apiserver_types::{
    Condition, ConditionStatus, IntOrString, MachineDeployment, MachineDeploymentDeprecatedStatus,
    MachineDeploymentPhase, MachineSet, MachineSetDeprecatedStatus, set_condition,
};

use super::decide::{limits, numbers};
use super::observe::Observed;
use super::{blocked, hold, progress, quota, sameness, scale_down};
use crate::deprecated_conditions::{Old, set, state, summary};
use crate::replica_status::{self, Now, number};
use crate::templates::Missing;
use crate::{condition_order, kstatus, machine_versions, paused, protection, selectors};

/// Writes the observed state into the status.
pub(super) fn report(deployment: &mut MachineDeployment, observed: &Observed, now: &Now) {
    let generation = deployment.metadata.generation;
    let sum = |field: fn(&MachineSet) -> Option<i32>| {
        observed.sets.iter().filter_map(field).reduce(i32::saturating_add)
    };
    let available = sum(|set| set.status.as_ref()?.available_replicas);
    let selector = selectors::text(&deployment.spec.selector);
    let conditions = conditions(deployment, observed, available, now);
    let obstacles = obstacles(observed);
    // A deletion has its own condition.
    let is_deleting = deployment.metadata.deletion_timestamp.is_some();
    let progress =
        (!is_deleting).then(|| progress::condition(deployment, observed, obstacles.as_deref(), now));
    let phase = phase(deployment, observed);
    let old = deprecated(deployment, observed, available, now);
    let status = deployment.status.get_or_insert_default();
    let known = status.conditions.get_or_insert_default();
    for condition in conditions.into_iter().chain(progress) {
        set_condition(known, condition.at_generation(generation));
    }
    kstatus::report(known, None, generation, &now.time);
    condition_order::sort(known);
    status.selector = (!selector.is_empty()).then_some(selector);
    status.replicas = sum(|set| set.status.as_ref()?.replicas);
    status.ready_replicas = sum(|set| set.status.as_ref()?.ready_replicas);
    status.available_replicas = available;
    status.up_to_date_replicas = sum(|set| set.status.as_ref()?.up_to_date_replicas);
    let versions = observed.sets.iter().filter_map(|set| set.status.as_ref()?.versions.as_deref());
    status.versions = machine_versions::sum(versions);
    status.phase = Some(phase);
    status.deprecated.get_or_insert_default().v1beta1 = Some(old);
}

/// Writes only that the MachineDeployment is paused: a paused object is not touched otherwise.
pub(super) fn report_pause(deployment: &mut MachineDeployment, observed: &Observed, now: &Now) {
    let condition = paused::condition(deployment, observed.cluster.as_ref(), &now.time);
    let condition = condition.at_generation(deployment.metadata.generation);
    let known = deployment.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(known, condition);
    kstatus::remove(known);
}

fn conditions(
    deployment: &MachineDeployment,
    observed: &Observed,
    available: Option<i32>,
    now: &Now,
) -> [Condition; 9] {
    let is_deleting = deployment.metadata.deletion_timestamp.is_some();
    let (machines, current) = (&observed.machines, Some(number(observed.machines.len())));
    let desired = if is_deleting { Some(0) } else { deployment.spec.replicas };
    let scaling_down = replica_status::scaling_down(current, desired, machines, now);
    let obstacles = obstacles(observed);
    let (text, is_missing) = (obstacles.as_deref(), obstacles.is_some());
    let scaling_up = replica_status::scaling_up(current, desired, text, is_missing, now);
    let protected = protection::note(&observed.sets).map(|note| format!(". {note}")).unwrap_or_default();
    let left = (!observed.sets.is_empty())
        .then(|| format!("Deleting {} MachineSets{protected}", observed.sets.len()));
    [
        availability(deployment, available, now),
        rolling_out(deployment, observed, now),
        replica_status::remediating(machines, None, "MachineDeployment/MachineSet", now),
        scale_down::explained(scaling_down, deployment, observed, now.instant),
        quota::explained(blocked::explained(scaling_up, observed), deployment, observed),
        replica_status::machines_ready(machines, now),
        replica_status::machines_up_to_date(machines, now),
        paused::condition(deployment, observed.cluster.as_ref(), &now.time),
        replica_status::deleting(is_deleting, machines, left, now),
    ]
}

/// Returns the message of the condition ScalingUp if it names an obstacle, e.g. a template that does not exist.
pub(super) fn obstacle(deployment: &MachineDeployment) -> Option<&str> {
    let message = deployment.condition("ScalingUp")?.message.as_str();
    message.contains(" blocked because ").then_some(message)
}

/// Returns the end of a message about what keeps the MachineDeployment from having Machines made.
fn obstacles(observed: &Observed) -> Option<String> {
    let missing = (!observed.missing.is_empty()).then(|| {
        let verb = if observed.missing.len() == 1 { "does" } else { "do" };
        let kinds: Vec<&str> = observed.missing.iter().map(|it| it.kind.as_str()).collect();
        let remedies: Vec<String> = observed.missing.iter().map(Missing::remedy).collect();
        format!("{} {verb} not exist. {}", kinds.join(" and "), remedies.join(". "))
    });
    let all: Vec<String> = missing.into_iter().chain(observed.unusable.iter().cloned()).collect();
    (!all.is_empty()).then(|| format!("because {}", all.join(" and ")))
}

fn availability(deployment: &MachineDeployment, available: Option<i32>, now: &Now) -> Condition {
    let of = |status, reason: &str, message: &str| {
        Condition::new("Available", status, reason, message, now.time.clone())
    };
    let Some(replicas) = deployment.spec.replicas else {
        let message = "Waiting for spec.replicas set";
        return of(ConditionStatus::Unknown, "WaitingForReplicasSet", message);
    };
    let Some(available) = available else {
        let message = "Waiting for status.availableReplicas set";
        return of(ConditionStatus::Unknown, "WaitingForAvailableReplicasSet", message);
    };
    let least = least(deployment);
    if i64::from(available) >= least {
        return of(ConditionStatus::True, "Available", "");
    }
    if deployment.metadata.deletion_timestamp.is_some() {
        return of(ConditionStatus::False, "NotAvailable", "Deletion in progress");
    }
    let message = format!(
        "{available} available replicas, at least {least} required (spec.strategy.rollout.maxUnavailable is {}, \
         spec.replicas is {replicas})",
        max_unavailable(deployment)
    );
    of(ConditionStatus::False, "NotAvailable", &message)
}

/// Returns the number of Machines that must be available.
fn least(deployment: &MachineDeployment) -> i64 {
    let limits = limits(deployment);
    limits.replicas - limits.unavailable
}

fn max_unavailable(deployment: &MachineDeployment) -> String {
    let strategy = deployment.spec.rollout.as_ref().and_then(|it| it.strategy.as_ref());
    match strategy.and_then(|it| it.rolling_update.as_ref()?.max_unavailable.as_ref()) {
        Some(IntOrString::String(text)) => text.clone(),
        Some(IntOrString::Int(number)) => number.to_string(),
        None => "0".to_owned(),
    }
}

fn rolling_out(deployment: &MachineDeployment, observed: &Observed, now: &Now) -> Condition {
    let kind = "RollingOut";
    let hold = hold::hold(deployment, observed, now.instant);
    let outdated: Vec<&Condition> = observed
        .machines
        .iter()
        .filter_map(|machine| machine.condition("UpToDate"))
        .filter(|condition| condition.status == ConditionStatus::False)
        .collect();
    if outdated.is_empty() && hold.is_none() {
        return Condition::new(kind, ConditionStatus::False, "NotRollingOut", "", now.time.clone());
    }
    // The Machines may not report their differences yet.
    let held = hold.iter().flat_map(|_| hold::differences(deployment, observed, now.instant));
    // Why Machines are replaced, although an extension server updates others in place.
    let refusals = observed.in_place.refusals.iter().filter(|_| hold.is_none());
    // A surplus Machine that waits is no part of the scaling.
    let checks = blocked::checks(observed);
    let checks = checks.into_iter().filter(|_| hold.is_none());
    let lines: BTreeSet<(bool, String)> = outdated
        .iter()
        .flat_map(|condition| condition.message.lines().map(str::to_owned))
        .chain(held.map(|line| format!("* {line}")))
        .chain(refusals.map(|line| format!("* Not made in place: {line}")))
        .chain(checks.map(|line| format!("* Waiting: {line}")))
        .map(|line| (!line.starts_with("* Version"), line))
        .collect();
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    let first = format!("Rolling out {} not up-to-date replicas", outdated.len());
    let (reason, message) = match hold {
        Some(hold) => (hold.reason, hold.text(&first, &lines)),
        None => (kind, std::iter::once(first).chain(lines).collect::<Vec<_>>().join("\n")),
    };
    Condition::new(kind, ConditionStatus::True, reason, &message, now.time.clone())
}

fn phase(deployment: &MachineDeployment, observed: &Observed) -> MachineDeploymentPhase {
    let existing: i64 = observed.sets.iter().map(|set| numbers(set).existing).sum();
    let Some(replicas) = deployment.spec.replicas.map(i64::from) else {
        return MachineDeploymentPhase::Unknown;
    };
    if deployment.metadata.deletion_timestamp.is_some() || existing > replicas {
        return MachineDeploymentPhase::ScalingDown;
    }
    if existing == replicas { MachineDeploymentPhase::Running } else { MachineDeploymentPhase::ScalingUp }
}

/// Returns the status in the form of v1beta1.
fn deprecated(
    deployment: &MachineDeployment,
    observed: &Observed,
    available: Option<i32>,
    now: &Now,
) -> MachineDeploymentDeprecatedStatus {
    let known = deployment.status.as_ref().and_then(|status| status.deprecated.as_ref());
    let mut old = known.and_then(|it| it.v1beta1.clone()).unwrap_or_default();
    let sum = |field: fn(&MachineSetDeprecatedStatus) -> Option<i32>| {
        let statuses = observed.sets.iter().filter_map(of_set);
        statuses.filter_map(field).fold(0, i32::saturating_add)
    };
    let new = sameness::find_new(deployment, &observed.sets, now.instant);
    let existing = new.and_then(|new| new.status.as_ref()?.replicas);
    let desired: i64 = observed.sets.iter().map(|set| numbers(set).desired).sum();
    let unavailable = (desired - i64::from(available.unwrap_or_default())).max(0);
    old.ready_replicas = Some(sum(|status| status.ready_replicas));
    old.available_replicas = Some(sum(|status| status.available_replicas));
    old.updated_replicas = Some(existing.unwrap_or_default());
    old.unavailable_replicas = Some(i32::try_from(unavailable).unwrap_or(i32::MAX));
    let (least, count) = (least(deployment), old.available_replicas.unwrap_or_default());
    let is_available = if i64::from(count) >= least {
        Old::True
    } else {
        let message = format!("Minimum availability requires {least} replicas, current {count} available");
        Old::no("Warning", "WaitingForAvailableMachines", message)
    };
    let of_new = new.and_then(of_set).and_then(|it| state(it.conditions.as_deref()?, "Ready"));
    let of_new = of_new.unwrap_or_else(|| Old::no("Info", "WaitingForMachineSet", ""));
    let ready = summary(&[Some(is_available.clone()), Some(of_new.clone())]);
    let conditions = old.conditions.get_or_insert_default();
    for (kind, state) in [("Ready", ready), ("Available", is_available), ("MachineSetReady", of_new)] {
        set(conditions, kind, state, &now.time);
    }
    old
}

fn of_set(set: &MachineSet) -> Option<&MachineSetDeprecatedStatus> {
    set.status.as_ref()?.deprecated.as_ref()?.v1beta1.as_ref()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{
        Machine, MachineDeploymentSpec, MachineSetSpec, MachineSetStatus, MachineSpec, MachineStatus, Time,
    };

    use super::*;

    fn deployment(replicas: i32) -> MachineDeployment {
        let spec = MachineDeploymentSpec { replicas: Some(replicas), ..MachineDeploymentSpec::default() };
        MachineDeployment::new("md", spec)
    }

    fn set_of(replicas: i32, available: i32) -> MachineSet {
        let mut set =
            MachineSet::new("ms", MachineSetSpec { replicas: Some(replicas), ..Default::default() });
        set.status = Some(MachineSetStatus {
            replicas: Some(replicas),
            available_replicas: Some(available),
            ..MachineSetStatus::default()
        });
        set
    }

    fn outdated(name: &str, message: &str) -> Machine {
        let mut machine = Machine::new(name, MachineSpec::default());
        let no = ConditionStatus::False;
        let condition = Condition::new("UpToDate", no, "NotUpToDate", message, Time::default());
        machine.status =
            Some(MachineStatus { conditions: Some(vec![condition]), ..MachineStatus::default() });
        machine
    }

    fn told(deployment: &MachineDeployment, kind: &str) -> (String, String) {
        let condition = deployment.condition(kind).unwrap();
        (condition.reason.clone(), condition.message.clone())
    }

    /// The texts were recorded from upstream's controller.
    #[test]
    fn availability_and_scaling_are_reported_with_numbers() {
        let mut waiting = deployment(2);
        report(&mut waiting, &Observed::default(), &Now::read());
        let expected = ("WaitingForAvailableReplicasSet", "Waiting for status.availableReplicas set");
        assert_eq!(told(&waiting, "Available"), (expected.0.to_owned(), expected.1.to_owned()));
        assert_eq!(told(&waiting, "ScalingUp").1, "Scaling up from 0 to 2 replicas");
        assert_eq!(waiting.status.as_ref().unwrap().phase, Some(MachineDeploymentPhase::ScalingUp));
        assert_eq!(waiting.status.as_ref().unwrap().replicas, None);
        let mut running = deployment(3);
        let observed = Observed { sets: vec![set_of(3, 2)], ..Observed::default() };
        report(&mut running, &observed, &Now::read());
        let message = "2 available replicas, at least 3 required (spec.strategy.rollout.maxUnavailable is 0, spec.replicas is 3)";
        assert_eq!(told(&running, "Available"), ("NotAvailable".to_owned(), message.to_owned()));
        let old = running.status.unwrap().deprecated.unwrap().v1beta1.unwrap();
        assert_eq!((old.unavailable_replicas, old.updated_replicas), (Some(1), Some(3)));
        assert_eq!(
            state(&old.conditions.unwrap(), "MachineSetReady"),
            Some(Old::no("Info", "WaitingForMachineSet", ""))
        );
    }

    #[test]
    fn a_rollout_names_its_causes_once_and_the_version_first() {
        let mut deployment = deployment(2);
        let machines = vec![
            outdated("a", "* OpenStackMachine is not up-to-date"),
            outdated("b", "* OpenStackMachine is not up-to-date\n* Version v1, v2 required"),
        ];
        report(&mut deployment, &Observed { machines, ..Observed::default() }, &Now::read());
        let message = "Rolling out 2 not up-to-date replicas\n* Version v1, v2 required\n* OpenStackMachine is not up-to-date";
        assert_eq!(told(&deployment, "RollingOut"), ("RollingOut".to_owned(), message.to_owned()));
    }

    #[test]
    fn preflight_checks_of_the_sets_are_named_while_scaling_up_and_while_rolling_out() {
        let check = "cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)";
        let mut set = set_of(1, 1);
        let message = format!("Scaling up from 0 to 1 replicas is blocked because:\n* other\n* {check}");
        let condition =
            Condition::new("ScalingUp", ConditionStatus::True, "ScalingUp", &message, Time::default());
        set.status.get_or_insert_default().conditions = Some(vec![condition]);
        let of = |replicas, machines| {
            let mut deployment = deployment(replicas);
            let observed = Observed { sets: vec![set.clone()], machines, ..Observed::default() };
            report(&mut deployment, &observed, &Now::read());
            (told(&deployment, "ScalingUp").1, told(&deployment, "RollingOut").1)
        };
        let scaling_up = format!("Scaling up from 0 to 1 replicas is blocked because:\n* {check}");
        assert_eq!(of(1, Vec::new()), (scaling_up, String::new()));
        let lines = format!("* Version v1, v2 required\n* Waiting: {check}");
        let rolling_out = format!("Rolling out 1 not up-to-date replicas\n{lines}");
        let machines = vec![outdated("a", "* Version v1, v2 required")];
        assert_eq!(of(1, machines), (String::new(), rolling_out));
    }

    #[test]
    fn a_held_rollout_has_the_reason_of_the_hold_and_no_deadline() {
        let mut deployment = deployment(2);
        let policy = ("capstan.dev/rollout-policy".to_owned(), "InPlaceOnly".to_owned());
        deployment.metadata.annotations = Some([policy].into());
        deployment.spec.template.spec.version = Some("v2".to_owned());
        let machines = vec![outdated("a", "* Version , v2 required")];
        let observed = Observed { sets: vec![set_of(2, 2)], machines, ..Observed::default() };
        report(&mut deployment, &observed, &Now::read());
        let cause =
            "Annotation capstan.dev/rollout-policy is InPlaceOnly, and these changes need new Machines";
        let message =
            format!("Rolling out 1 not up-to-date replicas is blocked: {cause}\n* Version , v2 required");
        assert_eq!(told(&deployment, "RollingOut"), ("RolloutBlocked".to_owned(), message));
        let progress = ("RolloutBlocked".to_owned(), format!("{cause}. No deadline counts"));
        assert_eq!(told(&deployment, "Progressing"), progress);
        assert_eq!(told(&deployment, "Reconciling").0, "ScalingUp", "one of two Machines is missing");
    }

    #[test]
    fn missing_templates_block_scaling_up() {
        let mut deployment = deployment(1);
        let absent = |kind: &str, field| Missing { kind: kind.to_owned(), name: "t".to_owned(), field };
        let missing = vec![
            absent("KubeadmConfigTemplate", "bootstrap.configRef"),
            absent("OpenStackMachineTemplate", "infrastructureRef"),
        ];
        report(&mut deployment, &Observed { missing, ..Observed::default() }, &Now::read());
        let message = "Scaling up from 0 to 1 replicas is blocked because KubeadmConfigTemplate and \
            OpenStackMachineTemplate do not exist. Create KubeadmConfigTemplate t, or correct \
            spec.template.spec.bootstrap.configRef. Create OpenStackMachineTemplate t, or correct \
            spec.template.spec.infrastructureRef";
        assert_eq!(told(&deployment, "ScalingUp").1, message);
        let unusable = vec!["Cluster c does not exist".to_owned()];
        report(&mut deployment, &Observed { unusable, ..Observed::default() }, &Now::read());
        let message = "Scaling up from 0 to 1 replicas is blocked because Cluster c does not exist";
        assert_eq!(told(&deployment, "ScalingUp").1, message);
    }

    #[test]
    fn a_deleted_deployment_reports_what_is_left() {
        use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;
        use k8s_openapi::jiff::Timestamp;
        let mut deployment = deployment(1);
        deployment.metadata.deletion_timestamp = Some(Instant(Timestamp::UNIX_EPOCH));
        let observed = Observed { sets: vec![set_of(0, 0)], ..Observed::default() };
        report(&mut deployment, &observed, &Now::read());
        assert_eq!(told(&deployment, "Deleting").1, "Deleting 1 MachineSets");
        assert_eq!(told(&deployment, "Available").1, "Deletion in progress");
        report(&mut deployment, &Observed::default(), &Now::read());
        assert_eq!(told(&deployment, "Deleting").1, "Deletion completed");
    }
}
