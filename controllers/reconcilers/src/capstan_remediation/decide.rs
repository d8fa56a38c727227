//! Decision about a remediation: an attempt, the next place in the steps, or a wait. Pure.

use apiserver_types::{
    CapstanRemediationStatus, RebootType, RemediationAction, RemediationPhase, RemediationStep,
};
use jiff::{SignedDuration, Timestamp};

/// Attempts of a step that sets no number.
const ATTEMPTS: i32 = 1;

/// Time to become healthy after an attempt of a step that sets none: a boot, and the timeout of a usual health check.
/// Unit: seconds.
const WAIT: i32 = 300;

/// Place in the steps. Both numbers count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub step: i32,
    pub attempt: i32,
}

impl Place {
    /// First attempt of the first step.
    const FIRST: Self = Self { step: 1, attempt: 1 };

    /// Returns the present place of a remediation.
    pub(super) fn of(status: Option<&CapstanRemediationStatus>) -> Self {
        let number =
            |of: fn(&CapstanRemediationStatus) -> Option<i32>| status.and_then(of).unwrap_or(1).max(1);
        Self { step: number(|status| status.step), attempt: number(|status| status.attempt) }
    }

    /// Returns the place after this one.
    fn next(self, step: &RemediationStep) -> Self {
        if self.attempt < step.attempts.unwrap_or(ATTEMPTS) {
            return Self { attempt: self.attempt.saturating_add(1), ..self };
        }
        Self { step: self.step.saturating_add(1), attempt: 1 }
    }

    fn step(self, steps: &[RemediationStep]) -> Option<&RemediationStep> {
        let index = usize::try_from(self.step).ok()?.checked_sub(1)?;
        steps.get(index)
    }
}

/// State of the MachineOperation of the present place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Attempt {
    /// It was not made yet.
    #[default]
    None,
    /// It is not finished.
    Unfinished,
    /// It is complete or cancelled since this time.
    Ended(Timestamp),
    /// It failed, or was deleted: its effect need not be waited for.
    Lost,
}

/// Everything that a decision is made from, beside the steps and the place.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Observed {
    /// The health check finds the Machine unhealthy.
    pub is_unhealthy: bool,
    /// The Machine is marked for its owner.
    pub is_marked: bool,
    pub attempt: Attempt,
    /// Other Machine of the same control plane whose remediation comes first.
    pub first: Option<String>,
    pub now: Timestamp,
}

/// Next thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Make the MachineOperation of the present place.
    Begin(RebootType),
    /// Go on to another place.
    Advance(Place),
    /// Mark the Machine for its owner.
    Mark,
    /// Wait for a change, or for the rest of a time.
    Wait(RemediationPhase, String, Option<SignedDuration>),
}

impl Next {
    fn wait(phase: RemediationPhase, message: impl Into<String>) -> Self {
        Self::Wait(phase, message.into(), None)
    }
}

/// Decides on the next thing to do.
pub(super) fn decide(steps: &[RemediationStep], place: Place, observed: &Observed) -> Next {
    let Some(step) = place.step(steps) else {
        let message = "all steps are over, and the health check has not found the Machine healthy since";
        return Next::wait(RemediationPhase::Exhausted, message);
    };
    let has_begun = place != Place::FIRST || observed.attempt != Attempt::None;
    let idle = if has_begun { RemediationPhase::Waiting } else { RemediationPhase::Pending };
    let unless_healthy = |next: Next| match observed.is_unhealthy {
        true => next,
        false => Next::wait(idle, "the health check does not find the Machine unhealthy at present"),
    };
    match (step.action, &observed.attempt) {
        (RemediationAction::Replace, _) if observed.is_marked => {
            Next::wait(RemediationPhase::Replacing, "waiting for the owner of the Machine to replace it")
        }
        (RemediationAction::Replace, _) => unless_healthy(Next::Mark),
        (RemediationAction::Reboot, Attempt::None) => match &observed.first {
            Some(first) => {
                Next::wait(idle, format!("waiting for the remediation of control plane Machine {first}"))
            }
            None => unless_healthy(Next::Begin(step.reboot_type.unwrap_or_default())),
        },
        (RemediationAction::Reboot, Attempt::Unfinished) => {
            Next::wait(RemediationPhase::Running, "waiting for the end of the MachineOperation")
        }
        (RemediationAction::Reboot, Attempt::Lost) => Next::Advance(place.next(step)),
        (RemediationAction::Reboot, Attempt::Ended(since)) => {
            let wait = SignedDuration::from_secs(i64::from(step.wait_seconds.unwrap_or(WAIT)));
            let rest = wait.saturating_sub(observed.now.duration_since(*since));
            if rest.is_positive() {
                let message = "waiting for the Machine to become healthy";
                return Next::Wait(RemediationPhase::Waiting, message.to_owned(), Some(rest));
            }
            unless_healthy(Next::Advance(place.next(step)))
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
