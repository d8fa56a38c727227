//! Effects of a pass: conditions of Machines, and requests for external remediation.

use apiserver_types::{
    Condition, ConditionStatus, Machine, MachineHealthCheck, remove_condition, set_condition,
};
use controllers_runtime::{ControllerContext, ReconcileError, Severity, now, write_status};
use kube::{Api, ResourceExt};

use super::decide::{Health, Mark, Order, Plan};
use super::observe::{self, Observed};
use super::requests;
use crate::condition_order;
use crate::deprecated_conditions::{self, Old};
use crate::replica_status::is_unhealthy;

/// Type of the condition with the result of a health check.
pub(super) const HEALTH: &str = "HealthCheckSucceeded";

/// Type of the condition that makes the owner of a Machine replace it.
pub(super) const OWNER: &str = "OwnerRemediated";

/// Type of the condition about the request for external remediation.
pub(super) const EXTERNAL: &str = "ExternallyRemediated";

/// Reason of a Machine whose remediation has not begun: its owner or an external remediator has to act.
const WAITING: &str = "WaitingForRemediation";

/// Reason if a request could not be made from its template.
pub(super) const NO_TEMPLATE: &str = "RemediationTemplateNotFound";

/// Reason if a request was refused.
pub(super) const NOT_CREATED: &str = "RemediationRequestCreationFailed";

/// Attempts to write a Machine that others write, too. Each begins with what they wrote.
pub(super) const ATTEMPTS: usize = 3;

/// Result of a pass over all Machines.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// Reason why the template of requests cannot be used. For people.
    pub no_template: Option<String>,
    /// Reason why a request was not made. For people.
    pub not_created: Option<String>,
    /// First failure. The other Machines are still marked.
    pub error: Option<ReconcileError>,
}

impl Outcome {
    fn failed(&mut self, error: ReconcileError) {
        self.error.get_or_insert(error);
    }
}

/// State of the request of a Machine, for its condition ExternallyRemediated.
#[derive(Debug, Clone, PartialEq, Eq)]
enum External {
    Keep,
    Waiting,
    Failed(&'static str, String),
    Ended,
}

/// Executor of a plan.
#[derive(Debug)]
pub(super) struct Actor<'a> {
    pub context: &'a ControllerContext,
}

impl Actor<'_> {
    /// Follows a plan. A failure at one Machine does not hold up the others.
    pub(super) async fn act(&self, check: &MachineHealthCheck, observed: &Observed, plan: &Plan) -> Outcome {
        let mut outcome = Outcome {
            no_template: observed.requests.as_ref().and_then(|it| it.missing.clone()),
            ..Outcome::default()
        };
        for target in &observed.targets {
            let name = target.machine.name_any();
            let Some((_, mark)) = plan.marks.iter().find(|(marked, _)| *marked == name) else { continue };
            let external = self.external(observed, &target.machine, mark, &mut outcome).await;
            if let Err(error) = self.write(check, &target.machine, mark, &external).await {
                outcome.failed(error);
            }
        }
        outcome
    }

    /// Makes or deletes the request of a Machine.
    async fn external(
        &self,
        observed: &Observed,
        machine: &Machine,
        mark: &Mark,
        outcome: &mut Outcome,
    ) -> External {
        let Some(known) = &observed.requests else { return External::Keep };
        match &mark.order {
            Order::None | Order::Owner => External::Keep,
            Order::KeepRequest => External::Waiting,
            Order::RequestEnded => External::Ended,
            Order::NoTemplate(text) => External::Failed(NO_TEMPLATE, text.clone()),
            Order::NameTaken => {
                let kind = crate::templates::kind_of(&known.template);
                let message = format!(
                    "{kind} {} exists, and is no request for the remediation of its Machine; use a template of \
                     another kind",
                    machine.name_any()
                );
                outcome.not_created.get_or_insert_with(|| message.clone());
                External::Failed(NOT_CREATED, message)
            }
            Order::CreateRequest => match requests::create(self.context, known, machine).await {
                Ok(()) => External::Waiting,
                Err(error) => {
                    let message = error.to_string();
                    outcome.not_created.get_or_insert_with(|| message.clone());
                    outcome.failed(error);
                    External::Failed(NOT_CREATED, message)
                }
            },
            Order::DeleteRequest(uid) => match requests::delete(self.context, known, machine, uid).await {
                Ok(()) => External::Ended,
                Err(error) => {
                    outcome.failed(error);
                    External::Keep
                }
            },
        }
    }

    /// Writes the conditions of a Machine, and an Event if it became unhealthy.
    async fn write(
        &self,
        check: &MachineHealthCheck,
        machine: &Machine,
        mark: &Mark,
        external: &External,
    ) -> Result<(), ReconcileError> {
        let namespace = machine.namespace().unwrap_or_default();
        let api: Api<Machine> = Api::namespaced(self.context.client.clone(), &namespace);
        let mut machine = machine.clone();
        for attempt in 1..=ATTEMPTS {
            let mut new = machine.clone();
            change(&mut new, mark, external);
            match write_status(&api, &machine, &new).await {
                Ok(written) => {
                    self.announce(check, &machine, &written, mark).await;
                    return Ok(());
                }
                Err(error) if error.is_conflict() && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
            let newest = api.get_opt(&machine.name_any()).await?;
            let is_same = |it: &Machine| it.uid() == machine.uid() && observe::is_target(check, it);
            let Some(newest) = newest.filter(is_same) else { return Ok(()) };
            machine = newest;
        }
        Ok(())
    }

    async fn announce(&self, check: &MachineHealthCheck, before: &Machine, after: &Machine, mark: &Mark) {
        let Health::Failed { messages, .. } = &mark.health else { return };
        let is_new = is_unhealthy(after) && !is_unhealthy(before);
        let is_ordered = mark.order == Order::Owner && before != after;
        if is_new || is_ordered {
            let (name, text) = (check.name_any(), messages.join("; "));
            let message = format!("MachineHealthCheck {name} marked the Machine as unhealthy: {text}");
            let reason = "MachineMarkedUnhealthy";
            self.context.events.record(after, Severity::Normal, reason, &message).await;
        }
    }
}

/// Sets the conditions of a Machine, in both forms.
fn change(machine: &mut Machine, mark: &Mark, external: &External) {
    let no = ConditionStatus::False;
    match &mark.health {
        Health::Succeeded => {
            set(machine, HEALTH, ConditionStatus::True, HEALTH, "");
            set_old(machine, HEALTH, Old::True);
        }
        Health::Failed { cause, messages } => {
            let lines: String = messages.iter().map(|message| format!("\n  * {message}")).collect();
            set(machine, HEALTH, no, cause.reason(), &format!("Health check failed:{lines}"));
            let is_gone = *cause == super::judge::Cause::NodeDeleted;
            let text = if is_gone { String::new() } else { messages.join("; ") };
            set_old(machine, HEALTH, Old::no("Warning", cause.old_reason(), text));
        }
    }
    if mark.order == Order::Owner {
        order_replacement(machine);
    }
    match external {
        External::Keep => {}
        External::Waiting => set(machine, EXTERNAL, no, WAITING, "Waiting for remediation"),
        External::Failed(reason, message) => set(machine, EXTERNAL, no, reason, message),
        External::Ended => {
            let status = machine.status.get_or_insert_default();
            remove_condition(status.conditions.get_or_insert_default(), EXTERNAL);
        }
    }
}

/// Marks a Machine for its owner, which replaces it.
pub(crate) fn order_replacement(machine: &mut Machine) {
    set(machine, OWNER, ConditionStatus::False, WAITING, "Waiting for remediation");
    set_old(machine, OWNER, Old::no("Warning", WAITING, ""));
}

fn set(machine: &mut Machine, kind: &str, status: ConditionStatus, reason: &str, message: &str) {
    let condition =
        Condition::new(kind, status, reason, message, now()).at_generation(machine.metadata.generation);
    let conditions = machine.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(conditions, condition);
    condition_order::sort(conditions);
}

fn set_old(machine: &mut Machine, kind: &str, state: Old) {
    let status = machine.status.get_or_insert_default();
    let old = status.deprecated.get_or_insert_default().v1beta1.get_or_insert_default();
    deprecated_conditions::set(old.conditions.get_or_insert_default(), kind, state, &now());
}

#[cfg(test)]
#[path = "act_tests.rs"]
mod tests;
