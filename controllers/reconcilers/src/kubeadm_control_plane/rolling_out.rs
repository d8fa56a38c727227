//! Condition `RollingOut`: the causes for which Machines are replaced, and what keeps the next one from it.

use std::collections::BTreeSet;

use apiserver_types::{Condition, ConditionStatus, Time};

use super::cause::Cause;
use super::decide::Step;
use super::hook::Departure;
use super::in_place;
use super::observe::Observed;
use super::replica::Replica;
use super::report::Outcome;

/// Returns whether Machines are replaced, and for which causes.
pub(super) fn condition(observed: &Observed, outcome: &Outcome, now: &Time) -> Condition {
    let kind = "RollingOut";
    let outdated: Vec<&Replica> = observed.replicas.iter().filter(|it| it.is_outdated()).collect();
    if outdated.is_empty() {
        return Condition::new(kind, ConditionStatus::False, "NotRollingOut", "", now.clone());
    }
    let causes: BTreeSet<&Cause> = outdated.iter().flat_map(|it| &it.causes).collect();
    let bullets = causes.iter().map(|cause| format!("* {cause}"));
    let first = format!("Rolling out {} not up-to-date replicas", outdated.len());
    if let Ok(Step::Hold(hold)) = outcome {
        let message = hold.text(&first, &bullets.collect::<Vec<_>>());
        return Condition::new(kind, ConditionStatus::True, hold.reason, &message, now.clone());
    }
    let obstacles = obstacles(outcome).into_iter().map(|reason| format!("* Waiting: {reason}"));
    let refusals = in_place::refusals(observed).into_iter().map(|line| format!("* {line}"));
    let lines: Vec<String> = std::iter::once(first).chain(bullets).chain(refusals).chain(obstacles).collect();
    Condition::new(kind, ConditionStatus::True, "RollingOut", &lines.join("\n"), now.clone())
}

/// Returns what keeps the next Machine from being replaced.
fn obstacles(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Err(error) => vec![error.to_string()],
        Ok(Step::Block(blocked)) => blocked.reasons.clone(),
        Ok(Step::Depart(Departure::WaitForQuorum(reason))) => vec![reason.clone()],
        Ok(Step::WaitForConnection(reason) | Step::WaitForCertificates(reason)) => vec![reason.clone()],
        Ok(Step::AwaitUpdates(names)) => vec![in_place::waits(names)],
        Ok(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::preflight::Blocked;
    use super::super::replica::examples::{healthy, outdated};
    use super::*;
    use crate::rollout_gate::Hold;

    #[test]
    fn d5_a_rollout_is_shown_with_its_causes_the_version_first() {
        let now = Time::default();
        let mut other = outdated(healthy("a", 1));
        other.causes.insert(0, Cause::Expiry(30));
        other.causes.push(Cause::Config);
        let replicas = vec![other, outdated(healthy("b", 1)), healthy("c", 1)];
        let found = condition(&Observed { replicas, ..Observed::default() }, &Ok(Step::Nothing), &now);
        let expected = "Rolling out 2 not up-to-date replicas\n* Version v1.32.0, v1.33.0 required\n* KubeadmConfig is not \
            up-to-date\n* the certificates expire in less than 30 days";
        assert_eq!((found.status, found.message.as_str()), (ConditionStatus::True, expected));
        let none = condition(&Observed::default(), &Ok(Step::Nothing), &now);
        assert_eq!((none.status, none.reason.as_str()), (ConditionStatus::False, "NotRollingOut"));
    }

    #[test]
    fn a_rollout_that_is_held_has_the_reason_of_the_hold() {
        let observed = Observed { replicas: vec![outdated(healthy("a", 1))], ..Observed::default() };
        let hold = Hold { reason: "RolloutBlocked", message: "The policy says so".to_owned(), wait: None };
        let found = condition(&observed, &Ok(Step::Hold(hold)), &Time::default());
        let expected = "Rolling out 1 not up-to-date replicas is blocked: The policy says so\n* Version v1.32.0, v1.33.0 \
            required";
        assert_eq!((found.reason.as_str(), found.message.as_str()), ("RolloutBlocked", expected));
    }

    #[test]
    fn a_rollout_that_waits_says_for_what() {
        let observed = Observed { replicas: vec![outdated(healthy("a", 1))], ..Observed::default() };
        let reasons = vec!["ConfigMap kube-system/kubeadm-config does not exist".to_owned()];
        let interval = std::time::Duration::ZERO;
        let blocked = Blocked { reasons, interval, is_unhealthy: false, is_up: true };
        let found = condition(&observed, &Ok(Step::Block(blocked)), &Time::default());
        let last = found.message.lines().last();
        assert_eq!(last, Some("* Waiting: ConfigMap kube-system/kubeadm-config does not exist"));
        let outcome = Ok(Step::Depart(Departure::WaitForQuorum("Machine a stays".to_owned())));
        let found = condition(&observed, &outcome, &Time::default());
        assert_eq!(found.message.lines().last(), Some("* Waiting: Machine a stays"));
    }
}
