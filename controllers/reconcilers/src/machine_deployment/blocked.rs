//! Obstacles of a MachineDeployment: a Machine with its own cause, or the preflight checks of its sets. For people. Pure.

use std::collections::BTreeSet;

use apiserver_types::{Condition, Machine, MachineSet};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::observe::Observed;
use crate::aggregate::points_in_one_line;
use crate::machine_set::preflight;
use crate::replica_status::{counts, is_deleting};

/// Returns the Machine that has been blocked for the longest time, and its own cause.
pub(super) fn cause(observed: &Observed, obstacle: Option<&str>, numbers: &str) -> String {
    let blocked = observed.machines.iter().filter(|it| is_deleting(it) || !counts(it, "Available"));
    if let Some(machine) = blocked.min_by_key(|it| (blocked_since(it), it.name_any())) {
        return format!(
            "Machine {}, the oldest one that is blocked, {}",
            machine.name_any(),
            own_cause(machine)
        );
    }
    let of_set = |set: &MachineSet| {
        let message = set.condition("ScalingUp")?.message.clone();
        message
            .contains(" is blocked ")
            .then(|| format!("MachineSet {}: {}", set.name_any(), points_in_one_line(&message)))
    };
    let obstacle = obstacle.map(|text| format!("No Machine can be made {text}"));
    let found = obstacle.or_else(|| observed.sets.iter().find_map(of_set));
    found.unwrap_or_else(|| format!("No Machine is blocked: {numbers}"))
}

/// Returns the preflight checks for which the sets make no Machines, as the sets report them. Each one once.
pub(super) fn checks(observed: &Observed) -> BTreeSet<&str> {
    let waiting = observed.sets.iter().filter_map(|set| set.condition("ScalingUp")).filter(|it| it.holds());
    let points = waiting.flat_map(|it| it.message.lines()).filter_map(|line| line.strip_prefix("* "));
    points.filter(|line| line.ends_with(preflight::FAILED)).collect()
}

/// Adds to the condition ScalingUp the preflight checks for which no Machine is made.
pub(super) fn explained(condition: Condition, observed: &Observed) -> Condition {
    let checks = checks(observed);
    if checks.is_empty() || !condition.holds() {
        return condition;
    }
    let begin = if condition.message.contains(" is blocked ") { "" } else { " is blocked because:" };
    let lines: String = checks.iter().map(|line| format!("\n* {line}")).collect();
    let message = format!("{}{begin}{lines}", condition.message);
    let (kind, reason) = (&condition.kind, condition.reason.as_str());
    Condition::new(kind, condition.status, reason, &message, condition.last_transition_time.clone())
}

/// Returns since when a Machine is blocked: its deletion, or the end of its availability, or its creation.
fn blocked_since(machine: &Machine) -> Option<Timestamp> {
    let deleted = machine.metadata.deletion_timestamp.as_ref().map(|at| at.0);
    let lost = machine.condition("Available").and_then(|it| it.last_transition_time.0.parse().ok());
    let created = machine.metadata.creation_timestamp.as_ref().map(|at| at.0);
    deleted.or(lost).or(created)
}

/// Returns the end of a sentence about a blocked Machine.
fn own_cause(machine: &Machine) -> String {
    let text = |it: &Condition| {
        if it.message.is_empty() { it.reason.clone() } else { points_in_one_line(&it.message) }
    };
    if is_deleting(machine) {
        let deleting = machine.condition("Deleting").map(|it| match it.message.is_empty() {
            true => it.reason.clone(),
            false => format!("{}: {}", it.reason, points_in_one_line(&it.message)),
        });
        return format!("is being deleted: {}", deleting.unwrap_or_else(|| "not yet reported".to_owned()));
    }
    let broken = ["Ready", "Available"].into_iter().filter_map(|kind| machine.condition(kind));
    let cause = broken.into_iter().find(|it| !it.holds()).map(text);
    format!("is not available: {}", cause.unwrap_or_else(|| "condition Ready not yet reported".to_owned()))
}
