//! Decision of a pass: a change of the status, one effect, a wait, or the end.

use apiserver_types::{OperationPhase, OperationResult, StepState};

use crate::core::target::Stop;

/// Next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision<E> {
    /// Record a change.
    Record(Box<Change>),
    /// Make an effect.
    Act(Call<E>),
    /// Wait, and make another pass later.
    Wait {
        /// Step that waits.
        step: &'static str,
        /// Reason, for people.
        message: String,
    },
    /// End the operation.
    End(Outcome),
}

/// Effect, and the step that it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call<E> {
    /// Step that it is part of.
    pub step: &'static str,
    /// Name of the effect within its step, if the step has several.
    pub item: String,
    /// Effect.
    pub effect: E,
}

impl<E> Decision<E> {
    /// Decides to record a change.
    pub(crate) fn record(change: Change) -> Self {
        Self::Record(Box::new(change))
    }

    /// Decides on the only effect of a step.
    pub(crate) fn act(step: &'static str, effect: E) -> Self {
        Self::act_on(step, "", effect)
    }

    /// Decides on one of the effects of a step.
    pub(crate) fn act_on(step: &'static str, item: impl Into<String>, effect: E) -> Self {
        Self::Act(Call { step, item: item.into(), effect })
    }

    /// Decides to wait.
    pub(crate) fn wait(step: &'static str, message: impl Into<String>) -> Self {
        Self::Wait { step, message: message.into() }
    }
}

/// Change of an operation's status.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Change {
    /// Steps to add, in the state `Pending`.
    pub plan: Vec<&'static str>,
    /// New states of steps.
    pub updates: Vec<StepUpdate>,
    /// Fields of the result that are known now.
    pub result: OperationResult,
}

/// `OperationResult` has texts, words and flags only; equality is total.
impl Eq for Change {}

impl Change {
    /// Creates a change of these steps alone.
    pub(crate) fn of(updates: impl Into<Vec<StepUpdate>>) -> Self {
        Self { updates: updates.into(), ..Self::default() }
    }

    /// Returns the same change with fields of the result.
    #[must_use]
    pub(crate) fn with(mut self, result: OperationResult) -> Self {
        self.result = result;
        self
    }

    /// Returns true if the change is empty.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// New state of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepUpdate {
    /// Name of the step.
    pub step: &'static str,
    /// State.
    pub state: StepState,
    /// Observation; `None` keeps the message.
    pub message: Option<String>,
    /// The cloud's request id; `None` keeps it.
    pub request_id: Option<String>,
}

impl StepUpdate {
    fn new(step: &'static str, state: StepState, message: impl Into<String>) -> Self {
        Self { step, state, message: Some(message.into()), request_id: None }
    }

    /// Creates the update of a step in progress.
    pub(crate) fn running(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Running, message)
    }

    /// Creates the update of a step that is done.
    pub(crate) fn done(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Done, message)
    }

    /// Creates the update of a step that is not needed.
    pub(crate) fn skipped(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Skipped, message)
    }

    /// Creates the update of a step that failed.
    pub(crate) fn failed(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Failed, message)
    }

    /// Returns the same update with the cloud's request id.
    #[must_use]
    pub(crate) fn by(mut self, request_id: Option<String>) -> Self {
        self.request_id = request_id;
        self
    }
}

/// End of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `Complete`, `Failed` or `Cancelled`.
    pub phase: OperationPhase,
    /// CamelCase reason of the condition.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// Change that is written with it.
    pub change: Change,
}

impl Outcome {
    /// Creates the end of an operation that is done.
    pub(crate) fn complete(message: impl Into<String>, change: Change) -> Self {
        Self { phase: OperationPhase::Complete, reason: "Succeeded", message: message.into(), change }
    }

    /// Creates the end of an operation that failed in `step`.
    pub(crate) fn failed(step: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        let change = Change::of([StepUpdate::failed(step, message.clone())]);
        Self { phase: OperationPhase::Failed, reason, message, change }
    }

    /// Creates the end of an operation that was stopped before the point of no return.
    pub(crate) fn stopped(stop: &Stop, done: &str) -> Self {
        Self { reason: stop.reason, ..Self::cancelled(format!("{}; {done}", stop.why)) }
    }

    /// Creates the end of a cancelled operation.
    pub(crate) fn cancelled(message: impl Into<String>) -> Self {
        Self {
            phase: OperationPhase::Cancelled,
            reason: "Requested",
            message: message.into(),
            change: Change::default(),
        }
    }
}
