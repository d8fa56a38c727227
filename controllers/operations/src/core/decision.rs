//! What a pass decides: a change of the status, one effect, a wait, or the end.

use apiserver_types::{OperationPhase, OperationResult, StepState};

use crate::core::target::Stop;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision<E> {
    /// Write this down.
    Record(Box<Change>),
    /// Make this effect.
    Act(Call<E>),
    /// Look again later.
    Wait {
        /// The step that waits.
        step: &'static str,
        /// For what.
        message: String,
    },
    /// It is over.
    End(Outcome),
}

/// An effect, and where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call<E> {
    /// The step it is part of.
    pub step: &'static str,
    /// Which of the step's effects, where it has several.
    pub item: String,
    /// The effect.
    pub effect: E,
}

impl<E> Decision<E> {
    /// Records the change.
    pub(crate) fn record(change: Change) -> Self {
        Self::Record(Box::new(change))
    }

    /// Makes the only effect of a step.
    pub(crate) fn act(step: &'static str, effect: E) -> Self {
        Self::act_on(step, "", effect)
    }

    /// Makes one of the effects of a step.
    pub(crate) fn act_on(step: &'static str, item: impl Into<String>, effect: E) -> Self {
        Self::Act(Call { step, item: item.into(), effect })
    }

    /// Waits.
    pub(crate) fn wait(step: &'static str, message: impl Into<String>) -> Self {
        Self::Wait { step, message: message.into() }
    }
}

/// What is to be written into the status.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Change {
    /// Steps to add, as `Pending`.
    pub plan: Vec<&'static str>,
    /// States of steps.
    pub marks: Vec<StepUpdate>,
    /// Fields of the result that become known.
    pub result: OperationResult,
}

/// `OperationResult` has texts only; equality is total.
impl Eq for Change {}

impl Change {
    /// A change of these steps alone.
    pub(crate) fn of(marks: impl Into<Vec<StepUpdate>>) -> Self {
        Self { marks: marks.into(), ..Self::default() }
    }

    /// The same, with fields of the result.
    #[must_use]
    pub(crate) fn with(mut self, result: OperationResult) -> Self {
        self.result = result;
        self
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A step's new state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepUpdate {
    /// The step.
    pub step: &'static str,
    /// Its state.
    pub state: StepState,
    /// What was observed; `None` leaves the message.
    pub message: Option<String>,
    /// The cloud's request id; `None` leaves it.
    pub request_id: Option<String>,
}

impl StepUpdate {
    fn new(step: &'static str, state: StepState, message: impl Into<String>) -> Self {
        Self { step, state, message: Some(message.into()), request_id: None }
    }

    /// The step is under way.
    pub(crate) fn running(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Running, message)
    }

    /// The step is done.
    pub(crate) fn done(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Done, message)
    }

    /// The step is not needed.
    pub(crate) fn skipped(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Skipped, message)
    }

    /// The step failed.
    pub(crate) fn failed(step: &'static str, message: impl Into<String>) -> Self {
        Self::new(step, StepState::Failed, message)
    }

    /// With the cloud's request id.
    #[must_use]
    pub(crate) fn by(mut self, request_id: Option<String>) -> Self {
        self.request_id = request_id;
        self
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// `Complete`, `Failed` or `Cancelled`.
    pub phase: OperationPhase,
    /// CamelCase, for the condition.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// What else to write.
    pub change: Change,
}

impl Outcome {
    /// It is done.
    pub(crate) fn complete(message: impl Into<String>, change: Change) -> Self {
        Self { phase: OperationPhase::Complete, reason: "Succeeded", message: message.into(), change }
    }

    /// It cannot be done; `step` is where that showed.
    pub(crate) fn failed(step: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        let change = Change::of([StepUpdate::failed(step, message.clone())]);
        Self { phase: OperationPhase::Failed, reason, message, change }
    }

    /// It was stopped before anything that cannot be undone.
    pub(crate) fn stopped(stop: &Stop, done: &str) -> Self {
        Self { reason: stop.reason, ..Self::cancelled(format!("{}; {done}", stop.why)) }
    }

    /// It was stopped.
    pub(crate) fn cancelled(message: impl Into<String>) -> Self {
        Self {
            phase: OperationPhase::Cancelled,
            reason: "Requested",
            message: message.into(),
            change: Change::default(),
        }
    }
}
