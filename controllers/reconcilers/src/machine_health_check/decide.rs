//! Decision about the Machines of a health check: marks, requests and numbers. Pure.

use apiserver_types::{ConditionStatus, Machine, MachineHealthCheck};
use jiff::SignedDuration;
use kube::ResourceExt;

use super::judge::{Cause, Verdict};
use super::observe::{Observed, Target};
use super::requests::{Request, Requests};
use super::short_circuit::{self, Allowance, Counts};
use crate::replica_status::{is_deleting, is_false, is_unhealthy};

/// Result of the health check of a Machine, for its condition HealthCheckSucceeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Health {
    Succeeded,
    Failed { cause: Cause, messages: Vec<String> },
}

/// Order to the one who remediates a Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    None,
    /// The owner of the Machine replaces it.
    Owner,
    /// A request is to be made for an external remediator.
    CreateRequest,
    /// The request exists.
    KeepRequest,
    /// The name of the request is taken by something else.
    NameTaken,
    /// No request can be made from the template. The text says why.
    NoTemplate(String),
    /// The Machine is healthy: the request with this uid goes.
    DeleteRequest(String),
    /// The Machine is healthy, and its request is gone.
    RequestEnded,
}

/// Change of one Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    pub health: Health,
    pub order: Order,
}

/// Plan of a pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plan {
    /// By the name of the Machine. A Machine without a mark keeps its conditions.
    pub marks: Vec<(String, Mark)>,
    pub counts: Counts,
    pub allowance: Allowance,
    /// Names of the Machines.
    pub targets: Vec<String>,
    /// Time until a criterion takes effect.
    pub next: Option<SignedDuration>,
    /// The health check has a template of requests.
    pub is_external: bool,
}

impl Plan {
    /// Returns true if a Machine is unhealthy.
    pub(super) fn has_unhealthy(&self) -> bool {
        self.counts.unhealthy > 0
    }
}

/// Plans a pass.
///
/// # Errors
/// A limit of the health check cannot be used. For people.
pub(super) fn plan(check: &MachineHealthCheck, observed: &Observed) -> Result<Plan, String> {
    let targets = &observed.targets;
    let counts = Counts {
        expected: targets.len(),
        healthy: targets.iter().filter(|it| it.verdict == Verdict::Healthy).count(),
        unhealthy: targets.iter().filter(|it| it.verdict.is_unhealthy()).count(),
    };
    let trigger = check.spec.remediation.as_ref().and_then(|it| it.trigger_if.as_ref());
    let allowance = short_circuit::decide(trigger, counts)?;
    let requests = observed.requests.as_ref();
    let marks = targets.iter().filter_map(|target| {
        let mark = mark(target, allowance.allowed, requests)?;
        Some((target.machine.name_any(), mark))
    });
    let later = targets.iter().filter_map(|target| match target.verdict {
        Verdict::Later(rest) => Some(rest),
        _ => None,
    });
    Ok(Plan {
        marks: marks.collect(),
        counts,
        // A change of a Machine is what ends a short circuit.
        next: later.min().filter(|_| allowance.allowed),
        allowance,
        targets: targets.iter().map(|target| target.machine.name_any()).collect(),
        is_external: requests.is_some(),
    })
}

/// Returns the change of a Machine; `None` if it keeps its conditions.
fn mark(target: &Target, allowed: bool, requests: Option<&Requests>) -> Option<Mark> {
    let machine = &target.machine;
    match &target.verdict {
        Verdict::Unhealthy { cause, messages } => {
            let health = Health::Failed { cause: *cause, messages: messages.clone() };
            let order = if allowed { order(machine, requests) } else { Order::None };
            Some(Mark { health, order })
        }
        Verdict::Healthy => Some(Mark {
            health: Health::Succeeded,
            order: requests.map_or(Order::None, |it| ended(machine, it)),
        }),
        // What made the Machine unhealthy is over, even if something else may become too old later. One that is being
        // deleted is never healthy: its remediation still counts.
        Verdict::Later(_) if is_unhealthy(machine) && !is_deleting(machine) => {
            Some(Mark { health: Health::Succeeded, order: Order::None })
        }
        Verdict::Later(_) | Verdict::NotJudged(_) => None,
    }
}

fn order(machine: &Machine, requests: Option<&Requests>) -> Order {
    let Some(requests) = requests else {
        let is_due = !is_deleting(machine) && !is_false(machine, "OwnerRemediated");
        return if is_due { Order::Owner } else { Order::None };
    };
    match (requests.existing.get(&machine.name_any()), &requests.missing) {
        (Some(Request::Ours { .. }), _) => Order::KeepRequest,
        (_, Some(text)) => Order::NoTemplate(text.clone()),
        (Some(Request::Foreign), None) => Order::NameTaken,
        (None, None) => Order::CreateRequest,
    }
}

fn ended(machine: &Machine, requests: &Requests) -> Order {
    let has_condition =
        || machine.condition("ExternallyRemediated").is_some_and(|it| it.status == ConditionStatus::False);
    match requests.existing.get(&machine.name_any()) {
        Some(Request::Ours { uid, deleting: false }) => Order::DeleteRequest(uid.clone()),
        Some(Request::Ours { deleting: true, .. }) => Order::None,
        Some(Request::Foreign) | None if has_condition() => Order::RequestEnded,
        Some(Request::Foreign) | None => Order::None,
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
