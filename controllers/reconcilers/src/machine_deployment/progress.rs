//! Progress of a MachineDeployment: when something last changed, and what blocks it after its deadline. Pure.
//!
//! The last progress is recorded in an annotation, so that it survives the process. It is written only if something has
//! changed. A MachineDeployment that is complete has no deadline.

use std::time::Duration;

use apiserver_types::rollout_settings::{
    DEFAULT_DEADLINE, ON_DEADLINE, PAUSE, PROGRESS, PROGRESS_DEADLINE, deadline,
};
use apiserver_types::{
    BOOTSTRAP_REVISION, Condition, ConditionStatus, INFRASTRUCTURE_REVISION, Machine, MachineDeployment,
    MachineSet, Time,
};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::decide::is_on_delete;
use super::observe::Observed;
use super::{blocked, hold, sameness};
use crate::generated_names::fnv32a;
use crate::replica_status::{Now, is_deleting};

/// Type of the condition.
const KIND: &str = "Progressing";

/// Reason after the deadline.
pub(super) const EXCEEDED: &str = "ProgressDeadlineExceeded";

/// Record of the last progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// Time of the last change.
    since: Time,
    /// State since then. Any other one is a change.
    state: String,
    /// `spec.paused` is true, or a setting holds the rollout. The time counts anew when that ends.
    #[serde(default)]
    paused: bool,
    /// Time at which the deadline has set `spec.paused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stopped_at: Option<Time>,
}

impl Record {
    /// Returns the content of the annotation.
    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Progress at a point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Progress {
    /// All Machines are as the spec wants them.
    Complete,
    /// The deadline is after this time.
    Moving(Duration),
    /// `spec.paused` is true, or a setting holds the rollout, and no deadline counts.
    Paused,
    /// Nothing has changed within the deadline.
    Exceeded,
}

/// Returns the present record: the stored one, unless something has changed since. An annotation that cannot be read
/// counts as absent.
pub(super) fn record(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> Record {
    let stored = stored(deployment);
    let (state, pause) = (state(deployment, observed, now), is_paused(deployment));
    let paused = pause || hold::hold(deployment, observed, now).is_some();
    let is_same = |it: &Record| it.state == state && (paused || !it.paused);
    let since = stored.as_ref().filter(|it| is_same(it)).map(|it| it.since.clone());
    let stopped_at = stored.and_then(|it| it.stopped_at).filter(|_| pause);
    Record { since: since.unwrap_or_else(|| Now::at(now).time), state, paused, stopped_at }
}

/// Returns the record to write, if it is not stored.
pub(super) fn unrecorded(
    deployment: &MachineDeployment,
    observed: &Observed,
    now: Timestamp,
) -> Option<Record> {
    let present = record(deployment, observed, now);
    (stored(deployment).as_ref() != Some(&present)).then_some(present)
}

/// Returns the record of a MachineDeployment that the deadline pauses now, if it is to be paused.
pub(super) fn stop(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> Option<Record> {
    let is_wished = deployment.annotations().get(ON_DEADLINE).is_some_and(|action| action == PAUSE);
    if !is_wished || is_paused(deployment) || progress(deployment, observed, now) != Progress::Exceeded {
        return None;
    }
    let known = record(deployment, observed, now);
    Some(Record { paused: true, stopped_at: Some(Now::at(now).time), ..known })
}

/// Returns the progress.
pub(super) fn progress(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> Progress {
    if is_complete(deployment, observed, now) {
        return Progress::Complete;
    }
    let record = record(deployment, observed, now);
    let begin = time(&record.since).max(unpaused(deployment, now));
    let left = limit(deployment).saturating_sub(now.duration_since(begin));
    match (left > SignedDuration::ZERO, record.paused && record.stopped_at.is_none(), record.paused) {
        (false, false, _) => Progress::Exceeded,
        (_, _, true) => Progress::Paused,
        _ => Progress::Moving(Duration::try_from(left).unwrap_or_default()),
    }
}

/// Returns the condition Progressing. `obstacle`: what keeps the MachineDeployment from having Machines made.
pub(super) fn condition(
    deployment: &MachineDeployment,
    observed: &Observed,
    obstacle: Option<&str>,
    now: &Now,
) -> Condition {
    let of =
        |status, reason: &str, message: &str| Condition::new(KIND, status, reason, message, now.time.clone());
    let record = record(deployment, observed, now.instant);
    let stopped = record.stopped_at.as_ref().map(|at| {
        format!(
            "Capstan has set spec.paused at {} (annotation {ON_DEADLINE}). Repair the cause, then set it to false",
            at.0
        )
    });
    match progress(deployment, observed, now.instant) {
        Progress::Complete => of(ConditionStatus::True, "Complete", ""),
        Progress::Moving(_) => of(ConditionStatus::True, KIND, &numbers(deployment, observed)),
        Progress::Paused if !is_paused(deployment) => {
            let hold = hold::hold(deployment, observed, now.instant);
            let (reason, text) = hold.map_or((KIND, String::new()), |hold| (hold.reason, hold.message));
            of(ConditionStatus::Unknown, reason, &format!("{text}. No deadline counts"))
        }
        Progress::Paused => {
            let message =
                stopped.unwrap_or_else(|| "spec.paused is true, so that no deadline counts".to_owned());
            of(ConditionStatus::Unknown, "RolloutPaused", &message)
        }
        Progress::Exceeded => {
            let stopped = stopped.map(|text| format!(". {text}")).unwrap_or_default();
            let cause = blocked::cause(observed, obstacle, &numbers(deployment, observed));
            let message = format!(
                "No progress for more than {:#} (since {}). {cause}{stopped}",
                limit(deployment),
                record.since.0
            );
            of(ConditionStatus::False, EXCEEDED, &message)
        }
    }
}

/// Returns the message of the condition if the deadline is exceeded.
pub(super) fn exceeded(deployment: &MachineDeployment) -> Option<&str> {
    deployment.condition(KIND).filter(|it| it.reason == EXCEEDED).map(|it| it.message.as_str())
}

fn stored(deployment: &MachineDeployment) -> Option<Record> {
    serde_json::from_str(deployment.annotations().get(PROGRESS)?).ok()
}

fn is_paused(deployment: &MachineDeployment) -> bool {
    deployment.spec.paused == Some(true)
}

/// Returns the deadline. A setting that cannot be used counts as absent.
fn limit(deployment: &MachineDeployment) -> SignedDuration {
    let setting = deployment.annotations().get(PROGRESS_DEADLINE);
    setting.and_then(|text| deadline(text)).unwrap_or(DEFAULT_DEADLINE)
}

/// Returns when the pause of the object or of its Cluster ended. Nothing can progress during it.
fn unpaused(deployment: &MachineDeployment, now: Timestamp) -> Timestamp {
    match deployment.condition("Paused") {
        Some(paused) if paused.holds() => now,
        Some(paused) => time(&paused.last_transition_time),
        None => Timestamp::UNIX_EPOCH,
    }
}

/// Returns a time of an object. One that cannot be read counts as the oldest.
fn time(text: &Time) -> Timestamp {
    text.0.parse().unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the sum of a number of the sets.
fn sum(observed: &Observed, number: fn(&MachineSet) -> Option<i32>) -> i32 {
    observed.sets.iter().filter_map(number).fold(0, i32::saturating_add)
}

/// Returns the numbers of existing, available and up-to-date replicas.
fn replicas(observed: &Observed) -> [i32; 3] {
    [
        sum(observed, |set| set.status.as_ref()?.replicas),
        sum(observed, |set| set.status.as_ref()?.available_replicas),
        sum(observed, |set| set.status.as_ref()?.up_to_date_replicas),
    ]
}

fn desired(deployment: &MachineDeployment) -> i32 {
    deployment.spec.replicas.unwrap_or(1)
}

fn numbers(deployment: &MachineDeployment, observed: &Observed) -> String {
    let [existing, available, up_to_date] = replicas(observed);
    let desired = desired(deployment);
    format!("{existing} replicas, {available} available, {up_to_date} up-to-date, {desired} desired")
}

/// Reports whether nothing is left to do. With OnDelete, outdated Machines wait for a person.
fn is_complete(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> bool {
    let ([existing, available, up_to_date], desired) = (replicas(observed), desired(deployment));
    let planned = sum(observed, |set| set.spec.replicas);
    let is_there = [planned, existing, available] == [desired; 3];
    if !is_there || observed.machines.iter().any(is_deleting) {
        return false;
    }
    if is_on_delete(deployment) {
        return true;
    }
    let new = sameness::find_new(deployment, &observed.sets, now);
    let is_old = |it: &&MachineSet| new.is_none_or(|new| new.metadata.name != it.metadata.name);
    let mut old = observed.sets.iter().filter(is_old);
    up_to_date == desired && old.all(|set| set.spec.replicas.unwrap_or_default() == 0)
}

/// Returns what has to change for a progress: the spec, the numbers of replicas, and the step of each Machine.
fn state(deployment: &MachineDeployment, observed: &Observed, now: Timestamp) -> String {
    let mut spec = deployment.spec.clone();
    // The record has it, so that a pause is no progress.
    spec.paused = None;
    let revisions =
        [BOOTSTRAP_REVISION, INFRASTRUCTURE_REVISION].map(|key| deployment.annotations().get(key));
    let mut steps: Vec<String> = observed.machines.iter().map(step).collect();
    steps.sort();
    let [existing, available, up_to_date] = replicas(observed);
    format!(
        "{}: {existing} replicas, {available} available, {up_to_date} up-to-date, spec {:08x}, Machines {:08x}",
        if is_complete(deployment, observed, now) { "complete" } else { "incomplete" },
        fnv32a(json!([spec, revisions]).to_string().as_bytes()),
        fnv32a(steps.join("\n").as_bytes())
    )
}

/// Returns a Machine with its step. What is retried within a step is no progress.
fn step(machine: &Machine) -> String {
    let holds = |kind: &str| machine.condition(kind).is_some_and(Condition::holds);
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    let reason = || machine.condition("Deleting").map_or("", |it| it.reason.as_str());
    let name = machine.name_any();
    if is_deleting(machine) {
        return format!("{name} deleting {}", reason());
    }
    let reached = [
        ("available", holds("Available")),
        ("ready", holds("Ready")),
        ("node", has_node),
        ("infrastructure", holds("InfrastructureReady")),
        ("bootstrap", holds("BootstrapConfigReady")),
    ];
    let step = reached.into_iter().find(|(_, is_reached)| *is_reached).map_or("created", |(step, _)| step);
    format!("{name} {step}")
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
