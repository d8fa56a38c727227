//! Conditions of an owner of Machines: MachineSet and MachineDeployment.
//!
//! Types, reasons and texts are Cluster API's.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::protection::is_protected;
use apiserver_types::{Condition, ConditionStatus, Machine, Polarity, Time};
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::CONTROL_PLANE_LABEL;
use crate::aggregate::{NAMES, Source, Target, aggregate, list_names, plural};
use crate::{in_place, protection};

/// Time after which a deletion is reported as slow. Unit: minutes. Upstream's.
pub(crate) const SLOW_DELETION_MINUTES: u64 = 15;

/// The same time, for comparisons.
const SLOW_DELETION: Duration = Duration::from_mins(SLOW_DELETION_MINUTES);

/// Time after which a drain is reported as the cause of a slow deletion. Upstream's.
const SLOW_DRAIN: Duration = Duration::from_mins(5);

/// Age from which a Machine without the condition UpToDate is reported. Upstream's: its controller needs some time.
const UP_TO_DATE_GRACE: Duration = Duration::from_secs(10);

/// Texts in the Deleting condition of a Machine, and the cause of a slow drain that they stand for.
const DRAIN_CAUSES: [(&str, &str); 4] = [
    ("cannot evict pod as it would violate the pod's disruption budget.", "PodDisruptionBudgets"),
    ("deletionTimestamp set, but still not removed from the Node", "Pods not terminating"),
    ("failed to evict Pod", "Pod eviction errors"),
    ("waiting for completion", "Pods not completed yet"),
];

/// Aggregate of the condition Ready.
const READY: Target<'static> = Target {
    kind: "MachinesReady",
    source: "Ready",
    polarity: Polarity::Positive,
    issue: "NotReady",
    unknown: "ReadyUnknown",
    fine: "Ready",
};

/// Aggregate of the condition UpToDate.
const UP_TO_DATE: Target<'static> = Target {
    kind: "MachinesUpToDate",
    source: "UpToDate",
    polarity: Polarity::Positive,
    issue: "NotUpToDate",
    unknown: "UpToDateUnknown",
    fine: "UpToDate",
};

/// Aggregate of the condition OwnerRemediated, of which only the text is used.
const REMEDIATED: Target<'static> =
    Target { kind: "Remediating", source: "OwnerRemediated", issue: "Remediating", ..READY };

/// Source of the present time. A test may have one that it advances.
pub(crate) type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Point in time of a report.
#[derive(Debug, Clone)]
pub(crate) struct Now {
    pub time: Time,
    pub instant: Timestamp,
}

impl Now {
    /// Returns the present.
    pub(crate) fn read() -> Self {
        Self::at(Timestamp::now())
    }

    /// Returns the point in time of an instant. Conditions have whole seconds.
    pub(crate) fn at(instant: Timestamp) -> Self {
        Self { time: Time(instant.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()), instant }
    }

    fn condition(&self, kind: &str, status: ConditionStatus, reason: &str, message: &str) -> Condition {
        Condition::new(kind, status, reason, message, self.time.clone())
    }
}

/// Returns true if a Machine is being deleted.
pub(crate) fn is_deleting(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_some()
}

/// Returns the time until the deletion of a Machine is slow: zero if it is, `None` if the Machine is not being deleted.
pub(crate) fn until_slow(machine: &Machine, now: Timestamp) -> Option<Duration> {
    let since = machine.metadata.deletion_timestamp.as_ref()?;
    let elapsed = Duration::try_from(now.duration_since(since.0)).unwrap_or_default();
    Some(SLOW_DELETION.saturating_sub(elapsed))
}

/// Returns true if a condition of a Machine is True. It does not count while the Machine is updated in place.
pub(crate) fn counts(machine: &Machine, kind: &str) -> bool {
    machine.condition(kind).is_some_and(Condition::holds) && !in_place::is_updating(machine)
}

/// Returns true if a health check found a Machine unhealthy.
pub(crate) fn is_unhealthy(machine: &Machine) -> bool {
    is_false(machine, "HealthCheckSucceeded")
}

/// Returns true if the owner of an unhealthy Machine is to replace it.
pub(crate) fn needs_remediation(machine: &Machine) -> bool {
    is_unhealthy(machine) && is_false(machine, "OwnerRemediated")
}

/// Returns true if a condition of a Machine is False.
pub(crate) fn is_false(machine: &Machine, kind: &str) -> bool {
    machine.condition(kind).is_some_and(|it| it.status == ConditionStatus::False)
}

/// Returns the number of elements as a field of a status.
pub(crate) fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Returns the condition MachinesReady.
pub(crate) fn machines_ready(machines: &[Machine], now: &Now) -> Condition {
    of_machines(&READY, machines.iter(), now)
}

/// Returns the condition MachinesUpToDate.
pub(crate) fn machines_up_to_date(machines: &[Machine], now: &Now) -> Condition {
    let is_old = |machine: &Machine| {
        let created = machine.metadata.creation_timestamp.as_ref();
        created.is_some_and(|created| elapsed(created.0, now) > UP_TO_DATE_GRACE)
    };
    let is_relevant = |it: &&Machine| it.condition(UP_TO_DATE.source).is_some() || is_old(it);
    let relevant: Vec<&Machine> = machines.iter().filter(is_relevant).collect();
    of_machines(&UP_TO_DATE, relevant.into_iter(), now)
}

fn of_machines<'a>(
    target: &Target<'_>,
    machines: impl ExactSizeIterator<Item = &'a Machine>,
    now: &Now,
) -> Condition {
    if machines.len() == 0 {
        return now.condition(target.kind, ConditionStatus::True, "NoReplicas", "");
    }
    aggregate(target, &sources(target, machines), &now.time)
}

fn sources<'a>(target: &Target<'_>, machines: impl Iterator<Item = &'a Machine>) -> Vec<Source<'a>> {
    let source = |machine: &'a Machine| Source {
        kind: "Machine",
        name: machine.metadata.name.as_deref().unwrap_or_default(),
        condition: machine.condition(target.source),
        control_plane: machine.labels().contains_key(CONTROL_PLANE_LABEL),
    };
    machines.map(source).collect()
}

/// Returns the condition ScalingUp. `obstacles` ends the message if there are any, e.g. `because A does not exist`.
pub(crate) fn scaling_up(
    current: Option<i32>,
    desired: Option<i32>,
    obstacles: Option<&str>,
    is_missing: bool,
    now: &Now,
) -> Condition {
    let kind = "ScalingUp";
    let (Some(current), Some(desired)) = (current, desired) else {
        let message = "Waiting for spec.replicas set";
        return now.condition(kind, ConditionStatus::Unknown, "WaitingForReplicasSet", message);
    };
    if current >= desired {
        let text = obstacles.filter(|_| is_missing);
        let message = text.map(|text| format!("Scaling up would be blocked {text}")).unwrap_or_default();
        return now.condition(kind, ConditionStatus::False, "NotScalingUp", &message);
    }
    let blocked = obstacles.map(|text| format!(" is blocked {text}")).unwrap_or_default();
    let message = format!("Scaling up from {current} to {desired} replicas{blocked}");
    now.condition(kind, ConditionStatus::True, "ScalingUp", &message)
}

/// Returns the condition ScalingDown.
pub(crate) fn scaling_down(
    current: Option<i32>,
    desired: Option<i32>,
    machines: &[Machine],
    now: &Now,
) -> Condition {
    let kind = "ScalingDown";
    let (Some(current), Some(desired)) = (current, desired) else {
        let message = "Waiting for spec.replicas set";
        return now.condition(kind, ConditionStatus::Unknown, "WaitingForReplicasSet", message);
    };
    if current <= desired {
        return now.condition(kind, ConditionStatus::False, "NotScalingDown", "");
    }
    let protected = machines.iter().filter(|it| is_protected(&it.metadata)).map(ResourceExt::name_any);
    let protected: Vec<String> = protected.collect();
    let kept = if number(protected.len()) > desired { protection::note_of(protected) } else { None };
    let notes = slow_deletions(machines, now).into_iter().chain(kept);
    let lines: String = notes.map(|line| format!("\n* {line}")).collect();
    let message = format!("Scaling down from {current} to {desired} replicas{lines}");
    now.condition(kind, ConditionStatus::True, "ScalingDown", &message)
}

/// Returns the condition Remediating. `owner`: the kinds that do not replace Machines without being asked.
pub(crate) fn remediating(
    machines: &[Machine],
    obstacles: Option<&str>,
    owner: &str,
    now: &Now,
) -> Condition {
    let kind = "Remediating";
    let (todo, others): (Vec<&Machine>, Vec<&Machine>) =
        machines.iter().filter(|it| is_unhealthy(it)).partition(|it| needs_remediation(it));
    if !todo.is_empty() {
        let lines = aggregate(&REMEDIATED, &sources(&REMEDIATED, todo.into_iter()), &now.time).message;
        let message = obstacles.map_or_else(|| lines.clone(), |text| format!("{text}\n{lines}"));
        return now.condition(kind, ConditionStatus::True, "Remediating", &message);
    }
    let message = match others.len() {
        0 => String::new(),
        count => {
            let names = list_names(names_of(&others), NAMES);
            let (noun, verb) = (plural("Machine", count), if count == 1 { "is" } else { "are" });
            format!("{noun} {names} {verb} not healthy (not to be remediated by {owner})")
        }
    };
    now.condition(kind, ConditionStatus::False, "NotRemediating", &message)
}

/// Returns the condition Deleting. `remaining` describes the remaining objects that are not Machines.
pub(crate) fn deleting(
    is_deleting: bool,
    machines: &[Machine],
    remaining: Option<String>,
    now: &Now,
) -> Condition {
    let kind = "Deleting";
    if !is_deleting {
        return now.condition(kind, ConditionStatus::False, "NotDeleting", "");
    }
    let message = match (machines.len(), remaining) {
        (0, None) => {
            return now.condition(kind, ConditionStatus::True, "DeletionCompleted", "Deletion completed");
        }
        (0, Some(remaining)) => remaining,
        (count, _) => {
            let notes = slow_deletions(machines, now).into_iter().chain(protection::note(machines));
            let notes: Vec<String> = notes.map(|line| format!("\n* {line}")).collect();
            format!("Deleting {count} {}{}", plural("Machine", count), notes.concat())
        }
    };
    now.condition(kind, ConditionStatus::True, "Deleting", &message)
}

fn names_of<'a>(machines: &[&'a Machine]) -> Vec<&'a str> {
    machines.iter().map(|machine| machine.metadata.name.as_deref().unwrap_or_default()).collect()
}

fn elapsed(since: Timestamp, now: &Now) -> Duration {
    Duration::try_from(now.instant.duration_since(since)).unwrap_or_default()
}

/// Returns a line about Machines whose deletion takes long, with the likely causes.
fn slow_deletions(machines: &[Machine], now: &Now) -> Option<String> {
    let slow: Vec<&Machine> = machines
        .iter()
        .filter(|it| {
            let since = it.metadata.deletion_timestamp.as_ref();
            since.is_some_and(|since| elapsed(since.0, now) > SLOW_DELETION)
        })
        .collect();
    let verb = match slow.len() {
        0 => return None,
        1 => "is",
        _ => "are",
    };
    let names = list_names(names_of(&slow), NAMES);
    let causes = drain_causes(&slow, now);
    let causes = if causes.is_empty() { causes } else { format!(", delay likely due to {causes}") };
    let noun = plural("Machine", slow.len());
    Some(format!("{noun} {names} {verb} in deletion since more than {SLOW_DELETION_MINUTES}m{causes}"))
}

/// Returns the stage of a Machine's deletion, with the likely causes of a slow one; `None` if it is not being deleted.
pub(crate) fn deletion_stage(machine: &Machine, now: &Now) -> Option<String> {
    let deleting = machine.condition("Deleting").filter(|it| it.holds())?;
    let since = machine.metadata.deletion_timestamp.as_ref();
    let is_slow = since.is_some_and(|since| elapsed(since.0, now) > SLOW_DELETION);
    let age = if is_slow { format!(" since more than {SLOW_DELETION_MINUTES}m") } else { String::new() };
    let causes = drain_causes(&[machine], now);
    let causes = if causes.is_empty() { causes } else { format!(", delay likely due to {causes}") };
    Some(format!("Machine deletion in progress{age}, stage: {}{causes}", deleting.reason))
}

/// Returns the causes of slow drains.
fn drain_causes(machines: &[&Machine], now: &Now) -> String {
    let drains = machines.iter().filter_map(|machine| {
        let start = machine.status.as_ref()?.deletion.as_ref()?.node_drain_start_time.as_ref()?;
        let start: Timestamp = start.0.parse().ok()?;
        let deleting = machine.condition("Deleting").filter(|it| it.reason == "DrainingNode")?;
        (elapsed(start, now) > SLOW_DRAIN).then_some(deleting.message.as_str())
    });
    let texts: Vec<&str> = drains.collect();
    let causes = DRAIN_CAUSES.iter().filter(|(text, _)| texts.iter().any(|it| it.contains(text)));
    causes.map(|(_, cause)| *cause).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineDeletionStatus, MachineSpec, MachineStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time as Instant;

    use super::*;

    fn machine(name: &str, conditions: &[(&str, ConditionStatus, &str)]) -> Machine {
        let mut machine = Machine::new(name, MachineSpec::default());
        let conditions = conditions
            .iter()
            .map(|(kind, status, message)| Condition::new(kind, *status, "Reason", message, Time::default()));
        let conditions = Some(conditions.collect());
        machine.status = Some(MachineStatus { conditions, ..MachineStatus::default() });
        machine
    }

    #[test]
    fn scaling_is_reported_with_its_obstacles() {
        let now = Now::read();
        let up = |current, desired, obstacles, missing| {
            scaling_up(current, desired, obstacles, missing, &now).message
        };
        assert_eq!(up(Some(0), Some(2), None, false), "Scaling up from 0 to 2 replicas");
        let obstacle = Some("because:\n* T does not exist");
        assert_eq!(
            up(Some(0), Some(2), obstacle, true),
            "Scaling up from 0 to 2 replicas is blocked because:\n* T does not exist"
        );
        assert_eq!(
            up(Some(2), Some(2), obstacle, true),
            "Scaling up would be blocked because:\n* T does not exist"
        );
        assert_eq!(up(Some(2), Some(2), obstacle, false), "");
        assert_eq!(scaling_up(None, Some(2), None, false, &now).reason, "WaitingForReplicasSet");
        let down = scaling_down(Some(3), Some(2), &[], &now);
        assert_eq!(
            (down.reason.as_str(), down.message.as_str()),
            ("ScalingDown", "Scaling down from 3 to 2 replicas")
        );
    }

    #[test]
    fn protected_machines_that_keep_an_owner_from_scaling_down_are_named() {
        let mut kept = machine("a", &[]);
        kept.annotations_mut().insert(apiserver_types::protection::PROTECTED.to_owned(), "true".to_owned());
        let machines = [kept, machine("b", &[])];
        let message = |desired| scaling_down(Some(2), Some(desired), &machines, &Now::read()).message;
        assert_eq!(message(1), "Scaling down from 2 to 1 replicas", "the other one goes");
        let note =
            "Not deleted because of the annotation or label capstan.dev/protected: a. Remove it to go on";
        assert_eq!(message(0), format!("Scaling down from 2 to 0 replicas\n* {note}"));
    }

    #[test]
    fn a_protected_machine_is_named_by_an_owner_that_is_deleted() {
        let mut kept = machine("a", &[]);
        kept.annotations_mut().insert(apiserver_types::protection::PROTECTED.to_owned(), "true".to_owned());
        let expected = "Deleting 1 Machine\n* Not deleted because of the annotation or label capstan.dev/protected: a. \
                        Remove it to go on";
        assert_eq!(deleting(true, &[kept], None, &Now::read()).message, expected);
    }

    #[test]
    fn a_slow_deletion_is_explained_by_what_the_drain_waits_for() {
        let now = Now::read();
        let mut slow =
            machine("a", &[("Deleting", ConditionStatus::True, "* Pod x: waiting for completion")]);
        let hour_ago = now.instant.checked_sub(jiff::SignedDuration::from_hours(1)).unwrap();
        slow.metadata.deletion_timestamp = Some(Instant(hour_ago));
        let status = slow.status.as_mut().unwrap();
        let start = Some(Time(hour_ago.to_string()));
        status.deletion =
            Some(MachineDeletionStatus { node_drain_start_time: start, ..MachineDeletionStatus::default() });
        status.conditions.as_mut().unwrap()[0].reason = "DrainingNode".to_owned();
        assert_eq!(
            deletion_stage(&slow, &now).as_deref(),
            Some(
                "Machine deletion in progress since more than 15m, stage: DrainingNode, delay likely due to Pods not \
                 completed yet"
            )
        );
        let deleting = deleting(true, &[slow], None, &now);
        assert_eq!(
            deleting.message,
            "Deleting 1 Machine\n* Machine a is in deletion since more than 15m, delay likely due to Pods not completed yet"
        );
    }

    #[test]
    fn only_machines_that_the_owner_must_replace_are_being_remediated() {
        let now = Now::read();
        let unhealthy = ("HealthCheckSucceeded", ConditionStatus::False, "");
        let due =
            machine("a", &[unhealthy, ("OwnerRemediated", ConditionStatus::False, "Machine is deleting")]);
        let other = machine("b", &[unhealthy]);
        let none = remediating(std::slice::from_ref(&other), None, "MachineSet", &now);
        assert_eq!(none.message, "Machine b is not healthy (not to be remediated by MachineSet)");
        assert_eq!(none.status, ConditionStatus::False);
        let some = remediating(&[due, other], None, "MachineSet", &now);
        assert_eq!(
            (some.status, some.message.as_str()),
            (ConditionStatus::True, "* Machine a: Machine is deleting")
        );
    }
}
