//! Report of a health check: numbers and conditions, computed from the plan of the pass.

use apiserver_types::{Cluster, Condition, ConditionStatus, MachineHealthCheck, set_condition};

use super::act::{NO_TEMPLATE, NOT_CREATED, Outcome};
use super::decide::Plan;
use crate::deprecated_conditions::{self, Old};
use crate::replica_status::{Now, number};
use crate::{condition_order, paused};

/// Type of the condition that tells whether unhealthy Machines are remediated.
const ALLOWED: &str = "RemediationAllowed";

/// Reason while too many Machines are unhealthy.
const TOO_MANY: &str = "TooManyUnhealthy";

/// Types of the conditions about requests, in the form of v1beta1.
const TEMPLATE: &str = "ExternalRemediationTemplateAvailable";
const REQUEST: &str = "ExternalRemediationRequestAvailable";

/// Computes the status after a pass.
pub(super) fn report(check: &mut MachineHealthCheck, plan: &Plan, outcome: &Outcome, now: &Now) {
    let generation = check.metadata.generation;
    let status = check.status.get_or_insert_default();
    status.expected_machines = Some(number(plan.counts.expected));
    status.current_healthy = Some(number(plan.counts.healthy));
    status.remediations_allowed = Some(plan.allowance.remaining);
    status.targets = Some(plan.targets.clone()).filter(|targets| !targets.is_empty());
    if outcome.error.is_none() {
        status.observed_generation = generation;
    }
    let message = plan.allowance.message.as_str();
    let (state, reason, old) = match plan.allowance.allowed {
        true => (ConditionStatus::True, ALLOWED, Old::True),
        false => (ConditionStatus::False, TOO_MANY, Old::no("Warning", TOO_MANY, message)),
    };
    set(check, Condition::new(ALLOWED, state, reason, message, now.time.clone()));
    set_old(check, ALLOWED, old, now);
    report_requests(check, plan, outcome, now);
    report_pause(check, None, now);
}

fn report_requests(check: &mut MachineHealthCheck, plan: &Plan, outcome: &Outcome, now: &Now) {
    if !plan.is_external {
        let status = check.status.get_or_insert_default();
        let old = status.deprecated.as_mut().and_then(|it| it.v1beta1.as_mut()?.conditions.as_mut());
        if let Some(old) = old {
            old.retain(|condition| condition.kind != TEMPLATE && condition.kind != REQUEST);
        }
        return;
    }
    let state = |failure: &Option<String>, reason| match failure {
        Some(text) => Old::no("Error", reason, text.as_str()),
        None => Old::True,
    };
    set_old(check, TEMPLATE, state(&outcome.no_template, NO_TEMPLATE), now);
    set_old(check, REQUEST, state(&outcome.not_created, NOT_CREATED), now);
}

/// Reports why no Machine can be judged. Numbers and Machines stay as they were.
pub(super) fn report_blocked(check: &mut MachineHealthCheck, reason: &'static str, message: &str, now: &Now) {
    let condition = Condition::new(ALLOWED, ConditionStatus::Unknown, reason, message, now.time.clone());
    set(check, condition);
    set_old(check, ALLOWED, Old::Unknown(reason, message.to_owned()), now);
    report_pause(check, None, now);
}

/// Computes the condition Paused.
pub(super) fn report_pause(check: &mut MachineHealthCheck, cluster: Option<&Cluster>, now: &Now) {
    let condition = paused::condition(check, cluster, &now.time);
    set(check, condition);
}

/// Returns the message of a short circuit that began or changed between two states.
pub(super) fn new_restriction<'a>(
    before: &MachineHealthCheck,
    after: &'a MachineHealthCheck,
) -> Option<&'a str> {
    let of = |check: &'a MachineHealthCheck| check.condition(ALLOWED).filter(|it| it.reason == TOO_MANY);
    let message = of(after)?.message.as_str();
    let known = before.condition(ALLOWED).filter(|it| it.reason == TOO_MANY).map(|it| it.message.as_str());
    (known != Some(message)).then_some(message)
}

fn set(check: &mut MachineHealthCheck, condition: Condition) {
    let generation = check.metadata.generation;
    let conditions = check.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(conditions, condition.at_generation(generation));
    condition_order::sort(conditions);
}

fn set_old(check: &mut MachineHealthCheck, kind: &str, state: Old, now: &Now) {
    let status = check.status.get_or_insert_default();
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    deprecated_conditions::set(old.conditions.get_or_insert_default(), kind, state, &now.time);
}
