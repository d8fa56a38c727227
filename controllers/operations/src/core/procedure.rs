//! One pass: observe, decide, act, report.

use std::fmt::Debug;
use std::time::Duration;

use apiserver_types::{MachineOperation, OperationPhase, OperationStep, StepState};
use async_trait::async_trait;
use controllers_infrastructure::{CloudError, ErrorClass};
use controllers_runtime::{ReconcileError, Requeue, Severity};
use jiff::Timestamp;

use crate::core::decision::{Call, Change, Decision, Outcome};
use crate::core::report;
use crate::core::target::Target;

/// Procedure of one action, as the controller carries it out: steps, and passes over them.
#[async_trait]
pub(crate) trait ActionProcedure: Send + Sync {
    /// Returns the names of the steps, as far as they are known before the operation begins.
    fn plan(&self, operation: &MachineOperation) -> Vec<&'static str>;

    /// Makes one pass over an operation that has begun.
    ///
    /// # Errors
    /// The API's own failure.
    async fn pass(&self, target: &Target) -> Result<Requeue, kube::Error>;

    /// Reports whether the action claims the server, so that the claim is released after its end.
    fn claims_server(&self) -> bool {
        false
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

/// Whether the cloud will answer the same however often it is asked.
fn is_final(error: &CloudError) -> bool {
    use ErrorClass as Class;
    matches!(error.class, Class::Invalid | Class::Forbidden | Class::NotFound | Class::Ambiguous)
}

/// One pass over an operation that has begun.
pub(crate) async fn pass<P: Procedure>(procedure: &P, subject: &Target) -> Result<Requeue, kube::Error> {
    let seen = match procedure.observe(subject).await {
        Ok(seen) => seen,
        Err(trouble) => return hold(subject, trouble).await,
    };
    match procedure.decide(&seen) {
        Decision::Act(call) => act(procedure, subject, &seen, &call).await,
        other => settle(subject, other).await,
    }
}

async fn act<P: Procedure>(
    procedure: &P,
    subject: &Target,
    seen: &P::Observed,
    call: &Call<P::Effect>,
) -> Result<Requeue, kube::Error> {
    if let Some(why) = &subject.paused {
        return wait(subject, Some(call.step), why).await;
    }
    tracing::debug!(operation = subject.name(), step = call.step, effect = ?call.effect, "acting");
    subject.memory.trying(subject.uid(), call.step, &call.item, subject.elapsed);
    match procedure.act(subject, &call.effect).await {
        Ok(change) => {
            subject.memory.succeeded(subject.uid());
            subject.memory.achieved(subject.uid());
            if !change.is_empty() {
                report::write(subject, &change).await?;
            }
            Ok(Requeue::Now)
        }
        Err(trouble) => {
            let refused = match &trouble {
                ReconcileError::Cloud(error) => {
                    !matches!(error.class, ErrorClass::Unknown | ErrorClass::Broken)
                }
                ReconcileError::Waiting { .. } => true,
                ReconcileError::Api(_) => false,
            };
            if refused {
                subject.memory.refused(subject.uid(), call.step, &call.item);
            }
            match trouble {
                ReconcileError::Cloud(error) if is_final(&error) => {
                    settle(subject, procedure.refused(seen, call, &error)).await
                }
                other => hold(subject, other).await,
            }
        }
    }
}

/// Carries out what is no effect.
async fn settle<E: Debug>(subject: &Target, decision: Decision<E>) -> Result<Requeue, kube::Error> {
    match decision {
        Decision::Record(change) => {
            subject.memory.succeeded(subject.uid());
            subject.memory.achieved(subject.uid());
            report::write(subject, &change).await?;
            for mark in change.marks.iter().filter(|mark| mark.state == StepState::Running) {
                // A step that was under way before may have been tried by another process.
                if subject.step(mark.step).is_none_or(|step| step.state == StepState::Pending) {
                    subject.memory.announced(subject.uid(), mark.step);
                }
            }
            Ok(Requeue::Now)
        }
        Decision::Wait { step, message } => {
            subject.memory.succeeded(subject.uid());
            wait(subject, Some(step), &message).await
        }
        Decision::End(outcome) => {
            report::finish(&subject.context, &subject.operation, &outcome, subject.now).await?;
            // It is not tried again, but let go at once; the pass in which it failed counts as one that did.
            let failed = outcome.phase == OperationPhase::Failed;
            Ok(if failed { Requeue::Retry(Duration::ZERO) } else { Requeue::Now })
        }
        // Only a decision about a refusal gets here: the next pass decides anew.
        Decision::Act(_) => Ok(Requeue::Retry(subject.memory.failed(subject.uid(), Duration::ZERO))),
    }
}

/// Says what went wrong, and tries again after a while.
async fn hold(subject: &Target, trouble: ReconcileError) -> Result<Requeue, kube::Error> {
    let failed = |at_least| subject.memory.failed(subject.uid(), at_least);
    let (message, next) = match trouble {
        ReconcileError::Api(error) => return Err(error),
        ReconcileError::Cloud(error) => {
            let told = format!("machine operation {}: {error}", subject.name());
            subject.events.record(&subject.machine, Severity::Warning, error.class.reason(), &told).await;
            subject.memory.said(subject.uid(), &error.to_string());
            let next = Requeue::Retry(failed(error.retry_after.unwrap_or_default()));
            (format!("{error}; trying again"), next)
        }
        // As with every controller, what is waited for is no failure.
        ReconcileError::Waiting { message, .. } => (message, Requeue::After(failed(Duration::ZERO))),
    };
    report::note(subject, None, &message).await?;
    Ok(next)
}

async fn wait(subject: &Target, step: Option<&'static str>, message: &str) -> Result<Requeue, kube::Error> {
    // What the cloud said last is why this takes so long.
    let message = match subject.memory.last_words(subject.uid()) {
        Some(words) => format!("{message}; before, {words}"),
        None => message.to_owned(),
    };
    report::note(subject, step, &message).await?;
    let status = subject.operation.status.as_ref();
    let running = status
        .and_then(|status| status.steps.as_deref())
        .and_then(|steps| steps.iter().find(|step| step.state == StepState::Running));
    Ok(Requeue::After(pause(running, subject.now)))
}

/// How soon to look again: often at first, seldom when it takes long.
fn pause(running: Option<&OperationStep>, now: Timestamp) -> Duration {
    const SHORTEST: Duration = Duration::from_secs(1);
    const LONGEST: Duration = Duration::from_secs(10);
    let elapsed = running.and_then(report::started).map(|since| report::elapsed(since, now));
    elapsed.map_or(LONGEST, |elapsed| (elapsed / 10).clamp(SHORTEST, LONGEST))
}
