//! Cut point of a test process: ends the process at a chosen effect.

use std::sync::{Mutex, PoisonError};

/// Kind of cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cut {
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
    at: Option<(usize, Cut)>,
    every: bool,
    effects: usize,
    dead: bool,
}

/// Life of one process: the number of its effects, and the last one.
#[derive(Debug, Default)]
pub(crate) struct Scissors(Mutex<State>);

impl Scissors {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Cuts at the effect of this number, counted from 0.
    pub(crate) fn cut_at(&self, number: usize, cut: Cut) {
        self.with(|state| state.at = Some((number, cut)));
    }

    /// Cuts after every effect.
    pub(crate) fn cut_every(&self) {
        self.with(|state| state.every = true);
    }

    /// Returns the number of effects so far, of all processes.
    pub(crate) fn effects(&self) -> usize {
        self.with(|state| state.effects)
    }

    /// Returns true if the process has ended.
    pub(crate) fn is_dead(&self) -> bool {
        self.with(|state| state.dead)
    }

    /// Starts another process.
    pub(crate) fn revive(&self) {
        self.with(|state| state.dead = false);
    }

    /// Decides the fate of the next effect.
    pub(crate) fn effect(&self) -> Fate {
        self.with(|state| {
            if state.dead {
                return Fate::Unsent;
            }
            let number = state.effects;
            state.effects += 1;
            let cut = state.at.filter(|(at, _)| *at == number).map(|(_, cut)| cut);
            let cut = cut.or_else(|| state.every.then_some(Cut::After));
            state.dead = cut.is_some();
            match cut {
                None => Fate::Answered,
                Some(Cut::Before) => Fate::Unsent,
                Some(Cut::After) => Fate::Unanswered,
                Some(Cut::Late) => Fate::Delayed,
            }
        })
    }
}
