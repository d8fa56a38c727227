//! Reconcile pass over an operation: observe, decide, act, report.

use std::fmt::Debug;
use std::time::Duration;

use apiserver_types::{Machine, MachineOperation, OperationPhase, OperationStep, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::{ReconcileError, Requeue, Severity};
use jiff::Timestamp;

use crate::core::decision::{Call, Change, Decision, Outcome};
use crate::core::node_drain::{self, End};
use crate::core::target::Target;
use crate::core::{report, restored};

/// Procedure of one action, as the controller carries it out: steps, and passes over them.
#[async_trait]
pub(crate) trait ActionProcedure: Send + Sync {
    /// Returns the names of the steps, as far as they are known before the operation begins.
    fn plan(&self, operation: &MachineOperation, machine: &Machine) -> Vec<&'static str>;

    /// Makes one pass over an operation that has begun.
    ///
    /// # Errors
    /// The API's own failure.
    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error>;

    /// Reports whether the action claims the server, so that the claim is released after its end.
    fn claims_server(&self) -> bool {
        false
    }

    /// Reports whether the operation begins only once the Machine has a server. Default: true.
    fn needs_server(&self) -> bool {
        true
    }

    /// Returns the end of an operation that has begun and whose Machine does not exist any more. Default: `None`, and the
    /// operation fails.
    fn without_machine(&self, _operation: &MachineOperation) -> Option<Outcome> {
        None
    }
}

/// The parts of a pass over one procedure: observe, decide, act.
#[async_trait]
pub(crate) trait Procedure: Send + Sync {
    /// Everything a decision is made from.
    type Observed: Send + Sync;
    /// One change that the procedure makes in the cloud or in the API.
    type Effect: Debug + Send + Sync;

    /// Reads.
    async fn observe(&self, target: &Target) -> Result<Self::Observed, ReconcileError>;

    /// Decides on the one thing to do next. Pure and total.
    fn decide(&self, observed: &Self::Observed) -> Decision<Self::Effect>;

    /// Makes one effect, and returns what to record of it.
    async fn act(&self, target: &Target, effect: &Self::Effect) -> Result<Change, ReconcileError>;

    /// Decides what follows when the cloud refused an effect in a way that no retry can mend. Pure
    /// and total.
    fn refused(
        &self,
        _observed: &Self::Observed,
        effect: &Call<Self::Effect>,
        error: &CloudError,
    ) -> Decision<Self::Effect> {
        Decision::End(Outcome::failed(effect.step, error.class.reason(), error.to_string()))
    }
}

/// Returns true if the cloud will refuse the same call however often it is repeated.
fn is_final(error: &CloudError) -> bool {
    use ErrorClass as Class;
    matches!(error.class, Class::Invalid | Class::Forbidden | Class::NotFound | Class::Ambiguous)
}

/// Makes one pass over an operation that has begun.
pub(crate) async fn pass<P: Procedure>(procedure: &P, target: &Target) -> Result<Requeue, kube::Error> {
    // A restored operation drains no Node: it is not carried on.
    if !target.is_restored
        && let Some(requeue) = node_drain::before(target).await?
    {
        return Ok(requeue);
    }
    let observed = match procedure.observe(target).await {
        Ok(observed) => observed,
        Err(error) => return hold(target, error).await,
    };
    match procedure.decide(&observed) {
        Decision::Act(call) if target.is_restored => {
            conclude(target, Decision::<P::Effect>::End(restored::undecided(call.step))).await
        }
        Decision::Act(call) => act(procedure, target, &observed, &call).await,
        other => conclude(target, other).await,
    }
}

async fn act<P: Procedure>(
    procedure: &P,
    target: &Target,
    observed: &P::Observed,
    call: &Call<P::Effect>,
) -> Result<Requeue, kube::Error> {
    if let Some(why) = &target.paused {
        return wait(target, Some(call.step), why).await;
    }
    tracing::debug!(operation = target.name(), step = call.step, effect = ?call.effect, "making an effect");
    target.memory.trying(target.uid(), call.step, &call.item, target.elapsed);
    match procedure.act(target, &call.effect).await {
        Ok(change) => {
            target.memory.succeeded(target.uid());
            target.memory.achieved(target.uid());
            if !change.is_empty() {
                report::write(target, &change).await?;
            }
            Ok(Requeue::Now)
        }
        Err(error) => {
            let refused = match &error {
                ReconcileError::Cloud(error) => {
                    !matches!(error.class, ErrorClass::Unknown | ErrorClass::Broken)
                }
                ReconcileError::Waiting { .. } => true,
                ReconcileError::Api(_) => false,
            };
            if refused {
                target.memory.refused(target.uid(), call.step, &call.item);
            }
            match error {
                ReconcileError::Cloud(error) if is_final(&error) => {
                    conclude(target, procedure.refused(observed, call, &error)).await
                }
                other => hold(target, other).await,
            }
        }
    }
}

/// Carries out a decision that is no effect.
async fn conclude<E: Debug>(target: &Target, decision: Decision<E>) -> Result<Requeue, kube::Error> {
    match decision {
        Decision::Record(change) => {
            target.memory.succeeded(target.uid());
            target.memory.achieved(target.uid());
            report::write(target, &change).await?;
            for update in change.updates.iter().filter(|update| update.state == StepState::Running) {
                // A step that was running before may have been tried by another process.
                if target.step(update.step).is_none_or(|step| step.state == StepState::Pending) {
                    target.memory.announced(target.uid(), update.step);
                }
            }
            Ok(Requeue::Now)
        }
        Decision::Wait { step, message } => {
            target.memory.succeeded(target.uid());
            wait(target, Some(step), &message).await
        }
        Decision::End(outcome) => {
            let outcome = match node_drain::after(target, outcome).await? {
                End::Later(requeue) => return Ok(requeue),
                End::Now(outcome) => *outcome,
            };
            report::finish(&target.context, &target.operation, &outcome, target.now).await?;
            // It is not retried, but retired at once. The pass in which it failed counts as a failed one.
            let failed = outcome.phase == OperationPhase::Failed;
            Ok(if failed { Requeue::Retry(Duration::ZERO) } else { Requeue::Now })
        }
        // Only a decision about a refusal arrives here: the next pass decides again.
        Decision::Act(_) => Ok(Requeue::Retry(target.memory.failed(target.uid(), Duration::ZERO))),
    }
}

/// Reports an error, and retries after an interval.
async fn hold(target: &Target, error: ReconcileError) -> Result<Requeue, kube::Error> {
    let failed = |at_least| target.memory.failed(target.uid(), at_least);
    let (message, next) = match error {
        ReconcileError::Api(error) => return Err(error),
        ReconcileError::Cloud(error) => {
            let event = format!("machine operation {}: {error}", target.name());
            target.events.record(&target.machine, Severity::Warning, error.class.reason(), &event).await;
            target.memory.cloud_failed(target.uid(), &error.to_string());
            let next = Requeue::Retry(failed(error.retry_after.unwrap_or_default()));
            (format!("{error}; retrying"), next)
        }
        // As in every controller, waiting is no failure.
        ReconcileError::Waiting { message, .. } => (message, Requeue::After(failed(Duration::ZERO))),
    };
    report::note(target, None, &message).await?;
    Ok(next)
}

async fn wait(target: &Target, step: Option<&'static str>, message: &str) -> Result<Requeue, kube::Error> {
    // The cloud's last failure is why this takes so long.
    let message = match target.memory.last_failure(target.uid()) {
        Some(failure) => format!("{message}; the last failure was: {failure}"),
        None => message.to_owned(),
    };
    report::note(target, step, &message).await?;
    let status = target.operation.status.as_ref();
    let running = status
        .and_then(|status| status.steps.as_deref())
        .and_then(|steps| steps.iter().find(|step| step.state == StepState::Running));
    Ok(Requeue::After(interval(running, target.now)))
}

/// Returns the interval of a waiting operation: short at first, longer when it takes long.
fn interval(running: Option<&OperationStep>, now: Timestamp) -> Duration {
    const SHORTEST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(10);
    let elapsed = running.and_then(report::started).map(|since| report::elapsed(since, now));
    elapsed.map_or(LONGEST, |elapsed| (elapsed / 10).clamp(SHORTEST, LONGEST))
}
