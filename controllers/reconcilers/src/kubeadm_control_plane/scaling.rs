//! Conditions on the changes of a control plane's Machines: scaling and remediation.

use apiserver_types::{Condition, ConditionStatus, KubeadmControlPlane, Time, condition};
use jiff::SignedDuration;

use super::decide::Step;
use super::in_place;
use super::observe::Observed;
use super::outdated::timestamp;
use super::remediation::OWNER_REMEDIATED;
use super::replica::{Replica, desired_replicas};
use super::report::Outcome;
use crate::aggregate::{NAMES, list_names, one_line, plural};

/// Time after which the deletion of a Machine is reported. Upstream's.
const SLOW: SignedDuration = SignedDuration::from_mins(15);

fn new(kind: &str, status: ConditionStatus, reason: &str, message: &str, now: &Time) -> Condition {
    Condition::new(kind, status, reason, message, now.clone())
}

/// Returns whether unhealthy Machines are replaced, each with what its condition says.
pub(super) fn remediating(observed: &Observed, now: &Time) -> Condition {
    let kind = "Remediating";
    let asked: Vec<&Replica> = observed.replicas.iter().filter(|it| it.needs_remediation()).collect();
    if asked.is_empty() {
        let unhealthy = observed.replicas.iter().filter(|it| it.fails("HealthCheckSucceeded"));
        let names: Vec<String> = unhealthy.map(Replica::name).collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        let message = match names.is_empty() {
            true => String::new(),
            false => {
                let list = listed(&names);
                format!("* {list} {verb} not healthy (not to be remediated by KubeadmControlPlane)")
            }
        };
        return new(kind, ConditionStatus::False, "NotRemediating", &message, now);
    }
    let mut folded: Vec<(&str, Vec<String>)> = Vec::new();
    for replica in asked {
        let condition = replica.machine.condition(OWNER_REMEDIATED);
        let text = condition.map_or("", |it| if it.message.is_empty() { &it.reason } else { &it.message });
        match folded.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) => names.push(replica.name()),
            None => folded.push((text, vec![replica.name()])),
        }
    }
    let lines: Vec<String> =
        folded.iter().map(|(text, names)| format!("* {}: {text}", listed(names))).collect();
    new(kind, ConditionStatus::True, "Remediating", &lines.join("\n"), now)
}

fn listed(names: &[String]) -> String {
    let list = list_names(names.iter().map(String::as_str), NAMES);
    format!("{} {list}", plural("Machine", names.len()))
}

/// Returns whether the control plane gets Machines, and what keeps it from that.
pub(super) fn up(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    now: &Time,
) -> Condition {
    let kind = "ScalingUp";
    let Some(_) = control_plane.spec.replicas else { return unset(kind, now) };
    let (current, desired) = (made(observed, outcome), desired_replicas(control_plane));
    let obstacle = obstacle(control_plane, observed, outcome);
    if current >= desired {
        let of_template = obstacle.map(|it| format!("Scaling up would be blocked because {it}"));
        let message = of_template.or_else(|| blocked(outcome, true)).unwrap_or_default();
        return new(kind, ConditionStatus::False, "NotScalingUp", &message, now);
    }
    let first = format!("Scaling up from {} to {desired} replicas", observed.replicas.len());
    let first = match obstacle {
        Some(obstacle) => format!("{first} is blocked because {obstacle}"),
        None => first,
    };
    let message = with_blockers(first, outcome);
    new(kind, ConditionStatus::True, "ScalingUp", &message, now)
}

/// Returns what keeps a rollout from making or from deleting a Machine, although the number is right.
fn blocked(outcome: &Outcome, is_up: bool) -> Option<String> {
    let Ok(Step::Block(blocked)) = outcome else { return None };
    let lines: Vec<String> = blocked.reasons.iter().map(|reason| format!("* {reason}")).collect();
    let operation = if is_up { "A new Machine" } else { "The deletion of a Machine" };
    (blocked.is_up == is_up).then(|| format!("{operation} is blocked because:\n{}", lines.join("\n")))
}

/// Returns the number of Machines, with the one that this pass made.
fn made(observed: &Observed, outcome: &Outcome) -> usize {
    let created = usize::from(matches!(outcome, Ok(Step::Create(..))));
    observed.replicas.len().saturating_add(created)
}

fn unset(kind: &str, now: &Time) -> Condition {
    let message = "Waiting for spec.replicas set";
    new(kind, ConditionStatus::Unknown, "WaitingForReplicasSet", message, now)
}

/// Returns what keeps every Machine from being made, also one that is not needed yet.
fn obstacle(control_plane: &KubeadmControlPlane, observed: &Observed, outcome: &Outcome) -> Option<String> {
    match outcome {
        Ok(Step::Refuse(reason) | Step::RefuseAdoption(reason)) => Some(reason.clone()),
        _ => missing_template(control_plane, observed),
    }
}

/// Returns the name of the template, if it does not exist and is needed.
fn missing_template(control_plane: &KubeadmControlPlane, observed: &Observed) -> Option<String> {
    let is_deleting = control_plane.metadata.deletion_timestamp.is_some();
    let reference = &control_plane.spec.machine_template.spec.infrastructure_ref;
    (observed.template.is_none() && !is_deleting)
        .then(|| format!("{} {} does not exist", reference.kind, reference.name))
}

/// Returns whether the control plane loses Machines, and what keeps it from that.
pub(super) fn down(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    outcome: &Outcome,
    now: &Time,
) -> Condition {
    let kind = "ScalingDown";
    let Some(_) = control_plane.spec.replicas else { return unset(kind, now) };
    let (current, desired) = (observed.replicas.len(), desired_replicas(control_plane));
    if current <= desired {
        // A Machine that a person deletes may wait for etcd, and nothing else says for what.
        let message = match outcome {
            Ok(Step::Depart(departure)) => departure.reason().unwrap_or_default().to_owned(),
            _ => blocked(outcome, false).unwrap_or_default(),
        };
        return new(kind, ConditionStatus::False, "NotScalingDown", &message, now);
    }
    let mut message = with_blockers(format!("Scaling down from {current} to {desired} replicas"), outcome);
    for line in slow_deletions(&observed.replicas, now) {
        message.push('\n');
        message.push_str(&line);
    }
    new(kind, ConditionStatus::True, "ScalingDown", &message, now)
}

/// Returns Machines that are being deleted for long, with the reason that they give.
fn slow_deletions(replicas: &[Replica], now: &Time) -> Vec<String> {
    let is_slow = |it: &&Replica| {
        let since = it.machine.metadata.deletion_timestamp.as_ref().map(|time| time.0);
        since.zip(timestamp(now)).is_some_and(|(since, now)| now.duration_since(since) > SLOW)
    };
    let reason = |it: &Replica| {
        let conditions = it.machine.status.as_ref().and_then(|status| status.conditions.as_deref());
        let deleting = condition(conditions.unwrap_or_default(), "Deleting");
        let reason = deleting.map(|it| one_line(&it.message)).unwrap_or_default();
        format!("* Machine {} is in deletion since more than 15m: {reason}", it.name())
    };
    replicas.iter().filter(is_slow).map(reason).collect()
}

/// Adds the reasons for which the pass changed no Machine.
fn with_blockers(first: String, outcome: &Outcome) -> String {
    let reasons: Vec<String> = match outcome {
        Err(error) => vec![error.to_string()],
        Ok(Step::Block(blocked)) => blocked.reasons.clone(),
        Ok(Step::Depart(departure)) => departure.reason().map(str::to_owned).into_iter().collect(),
        Ok(
            Step::WaitForConnection(reason)
            | Step::WaitForCertificates(reason)
            | Step::Refuse(reason)
            | Step::RefuseAdoption(reason),
        ) => {
            vec![reason.clone()]
        }
        Ok(Step::WaitForCluster(reason)) => vec![(*reason).to_owned()],
        Ok(Step::AwaitUpdates(names)) => vec![in_place::waits(names)],
        Ok(_) => Vec::new(),
    };
    let is_told = |reason: &&String| !first.contains(reason.as_str());
    let lines: Vec<String> = reasons.iter().filter(is_told).map(|reason| format!("* {reason}")).collect();
    if lines.is_empty() { first } else { format!("{first} is blocked because:\n{}", lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::super::hook::Departure;
    use super::super::observe::examples::observed;
    use super::super::preflight::Blocked;
    use super::super::replica::examples::{healthy, set};
    use super::*;

    #[test]
    fn scaling_shows_both_numbers_and_what_blocks_it() {
        let now = Time::default();
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.replicas = Some(3);
        let one = observed(vec![healthy("a", 1)]);
        let outcome = Ok(Step::Nothing);
        let found = up(&control_plane, &one, &outcome, &now);
        assert_eq!(
            (found.status, found.message.as_str()),
            (ConditionStatus::True, "Scaling up from 1 to 3 replicas")
        );
        let reasons = vec!["Machine a is not healthy".to_owned()];
        let blocked = Blocked { reasons, interval: Default::default(), is_unhealthy: true, is_up: true };
        let found = up(&control_plane, &one, &Ok(Step::Block(blocked)), &now);
        let expected = "Scaling up from 1 to 3 replicas is blocked because:\n* Machine a is not healthy";
        assert_eq!(found.message, expected);
        control_plane.spec.replicas = Some(1);
        assert_eq!(up(&control_plane, &one, &outcome, &now).status, ConditionStatus::False);
        let two = observed(vec![healthy("a", 1), healthy("b", 1)]);
        let found = down(&control_plane, &two, &outcome, &now);
        assert_eq!(found.message, "Scaling down from 2 to 1 replicas");
        control_plane.spec.replicas = None;
        assert_eq!(down(&control_plane, &two, &outcome, &now).status, ConditionStatus::Unknown);
    }

    /// A user who deleted one of three Machines saw it wait without end, and no object named the reason.
    #[test]
    fn a_machine_that_waits_for_etcd_is_explained_also_when_the_number_is_right() {
        let now = Time::default();
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.replicas = Some(1);
        let reason = "Machine a stays, because etcd would lose its quorum without it";
        let outcome = Ok(Step::Depart(Departure::Wait(reason.to_owned())));
        let found = down(&control_plane, &observed(vec![healthy("a", 1)]), &outcome, &now);
        assert_eq!((found.status, found.message.as_str()), (ConditionStatus::False, reason));
    }

    #[test]
    fn a_machine_of_another_owner_is_named_whether_or_not_the_number_is_right() {
        let now = Time::default();
        let mut control_plane = KubeadmControlPlane::default();
        let reason = "Machine x has the labels of this control plane";
        for (refusal, replicas, expected) in [
            (Step::Refuse(reason.to_owned()), 1, "Scaling up would be blocked because "),
            (Step::Refuse(reason.to_owned()), 3, "Scaling up from 1 to 3 replicas is blocked because "),
            (Step::RefuseAdoption(reason.to_owned()), 1, "Scaling up would be blocked because "),
        ] {
            control_plane.spec.replicas = Some(replicas);
            let found = up(&control_plane, &observed(vec![healthy("a", 1)]), &Ok(refusal), &now);
            assert_eq!(found.message, format!("{expected}{reason}"));
        }
    }

    #[test]
    fn a_rollout_that_waits_is_explained_by_the_operation_that_it_waits_with() {
        let now = Time::default();
        let mut control_plane = KubeadmControlPlane::default();
        control_plane.spec.replicas = Some(1);
        let one = observed(vec![healthy("a", 1)]);
        for is_up in [true, false] {
            let reasons = vec!["Machine a is not healthy".to_owned()];
            let blocked = Blocked { reasons, interval: Default::default(), is_unhealthy: true, is_up };
            let outcome = Ok(Step::Block(blocked));
            let (up, down) =
                (up(&control_plane, &one, &outcome, &now), down(&control_plane, &one, &outcome, &now));
            assert_eq!((up.status, down.status), (ConditionStatus::False, ConditionStatus::False));
            assert_eq!((!up.message.is_empty(), !down.message.is_empty()), (is_up, !is_up));
        }
    }

    #[test]
    fn d10_a_remediation_is_shown_with_what_the_machines_say_of_it() {
        let now = Time::default();
        let mut unhealthy = healthy("a", 1);
        set(&mut unhealthy, "HealthCheckSucceeded", ConditionStatus::False);
        let found = remediating(&observed(vec![unhealthy.clone()]), &now);
        let text = "* Machine a is not healthy (not to be remediated by KubeadmControlPlane)";
        assert_eq!((found.status, found.message.as_str()), (ConditionStatus::False, text));
        set(&mut unhealthy, "OwnerRemediated", ConditionStatus::False);
        let mut other = unhealthy.clone();
        other.machine.metadata.name = Some("b".to_owned());
        let found = remediating(&observed(vec![unhealthy, other, healthy("c", 1)]), &now);
        assert_eq!(
            (found.status, found.message.as_str()),
            (ConditionStatus::True, "* Machines a, b: Reason")
        );
    }
}
