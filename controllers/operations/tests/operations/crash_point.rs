//! Crash point of a test process: ends the process at a chosen effect.

use std::sync::{Mutex, PoisonError};

/// Kind of crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The call was not sent.
    Before,
    /// The call took effect, and its answer was lost.
    After,
    /// The call was on its way, and takes effect some time after the process has ended. Only calls to the
    /// cloud can be late: ours to the API are guarded by a revision or can be repeated.
    Late,
}

/// Fate of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It takes effect, and the response arrives.
    Answered,
    /// It takes effect, and the response is lost.
    Unanswered,
    /// It takes effect later, and the response is lost.
    Delayed,
    /// It takes no effect.
    Unsent,
}

#[derive(Debug, Default)]
struct State {
    at: Option<(usize, Crash)>,
    every: bool,
    effects: usize,
    crashed: bool,
}

/// Crash point of a process, and the number of its effects.
#[derive(Debug, Default)]
pub(crate) struct CrashPoint(Mutex<State>);

impl CrashPoint {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Crashes the process at the effect of this number, counted from 0.
    pub(crate) fn crash_at(&self, number: usize, crash: Crash) {
        self.with(|state| state.at = Some((number, crash)));
    }

    /// Crashes the process after every effect.
    pub(crate) fn crash_after_every(&self) {
        self.with(|state| state.every = true);
    }

    /// Returns the number of effects so far, of all processes.
    pub(crate) fn effects(&self) -> usize {
        self.with(|state| state.effects)
    }

    /// Returns true if the process has ended.
    pub(crate) fn has_crashed(&self) -> bool {
        self.with(|state| state.crashed)
    }

    /// Starts another process.
    pub(crate) fn restart(&self) {
        self.with(|state| state.crashed = false);
    }

    /// Decides the fate of the next effect.
    pub(crate) fn effect(&self) -> Fate {
        self.with(|state| {
            if state.crashed {
                return Fate::Unsent;
            }
            let number = state.effects;
            state.effects += 1;
            let crash = state.at.filter(|(at, _)| *at == number).map(|(_, crash)| crash);
            let crash = crash.or_else(|| state.every.then_some(Crash::After));
            state.crashed = crash.is_some();
            match crash {
                None => Fate::Answered,
                Some(Crash::Before) => Fate::Unsent,
                Some(Crash::After) => Fate::Unanswered,
                Some(Crash::Late) => Fate::Delayed,
            }
        })
    }
}
