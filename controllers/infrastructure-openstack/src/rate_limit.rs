//! How many calls one service gets from us at a time.
//!
//! A cloud that says "too many" (429, or 503) is asked half as often from then on, and not at all
//! for as long as it wishes; every run of good answers buys one call more. All sessions of a
//! process share nothing: each credential has gates of its own, as the limits of clouds are per
//! project or per user.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// Calls at a time while all is well: Nova's API has some dozen workers in a small cloud.
const MOST: usize = 16;

/// Good answers that buy one more call at a time.
const RUN: usize = 32;

/// No wish for silence is honoured for longer, lest one odd header stop a cluster for a day.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Lets calls through to one service.
#[derive(Debug)]
pub(crate) struct RateLimit {
    permits: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Permits still out that are not to come back.
    owed: usize,
    run: usize,
    silent_until: Option<Instant>,
}

/// One call's leave to be made. Give it back with [`RateLimit::leave`].
#[derive(Debug)]
pub(crate) struct Leave<'a>(Option<SemaphorePermit<'a>>);

impl Default for RateLimit {
    fn default() -> Self {
        let state = State { limit: MOST, owed: 0, run: 0, silent_until: None };
        Self { permits: Semaphore::new(MOST), state: Mutex::new(state) }
    }
}

impl RateLimit {
    /// Waits for its turn, and for the end of a silence the cloud asked for.
    pub(crate) async fn enter(&self) -> Leave<'_> {
        // The semaphore is never closed; if it were, going on without a permit does no harm.
        let leave = Leave(self.permits.acquire().await.ok());
        while let Some(until) = self.silence() {
            tokio::time::sleep_until(until).await;
        }
        leave
    }

    /// Hands the leave back, with what the cloud answered. Not called when a call is dropped half
    /// way: then the permit returns by itself.
    pub(crate) fn leave(&self, mut leave: Leave<'_>, verdict: Verdict) {
        let mut state = self.lock();
        match verdict {
            Verdict::Fine => self.grow(&mut state),
            Verdict::Failed => state.run = 0,
            Verdict::TooMany(wish) => {
                let fewer = (state.limit / 2).max(1);
                state.owed += state.limit - fewer;
                state.limit = fewer;
                state.run = 0;
                if let Some(wish) = wish {
                    state.silent_until = Some(Instant::now() + wish.min(LONGEST_SILENCE));
                }
            }
        }
        if state.owed > 0
            && let Some(permit) = leave.0.take()
        {
            permit.forget();
            state.owed -= 1;
        }
        // Idle permits are taken at once, or a quiet gate would stay wide open.
        let taken = self.permits.forget_permits(state.owed);
        state.owed -= taken;
    }

    fn grow(&self, state: &mut State) {
        state.run += 1;
        if state.run < RUN || state.limit >= MOST {
            return;
        }
        state.run = 0;
        state.limit += 1;
        if state.owed > 0 {
            state.owed -= 1;
        } else {
            self.permits.add_permits(1);
        }
    }

    /// When the silence ends, while there is one.
    fn silence(&self) -> Option<Instant> {
        let mut state = self.lock();
        state.silent_until = state.silent_until.filter(|until| *until > Instant::now());
        state.silent_until
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while holding it, and its numbers are right at every line.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an answer says about how much the service can bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It answered.
    Fine,
    /// It failed, for whatever reason.
    Failed,
    /// It wants fewer calls, and perhaps silence for a while.
    TooMany(Option<Duration>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn too_many_halves_and_good_answers_restore() {
        let gate = RateLimit::default();
        let leave = gate.enter().await;
        gate.leave(leave, Verdict::TooMany(None));
        assert_eq!(gate.permits.available_permits(), MOST / 2);
        for _ in 0..RUN * MOST {
            let leave = gate.enter().await;
            gate.leave(leave, Verdict::Fine);
        }
        assert_eq!(gate.permits.available_permits(), MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_in_full_use_shrinks_as_calls_return() {
        let gate = RateLimit::default();
        let mut out = Vec::new();
        for _ in 0..MOST {
            out.push(gate.enter().await);
        }
        for leave in out {
            gate.leave(leave, Verdict::TooMany(None));
        }
        assert_eq!(gate.lock().limit, 1);
        assert_eq!((gate.permits.available_permits(), gate.lock().owed), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_kept_within_reason() {
        let gate = RateLimit::default();
        for (wish, kept) in [(5, 5), (86_400, 60)] {
            let leave = gate.enter().await;
            gate.leave(leave, Verdict::TooMany(Some(Duration::from_secs(wish))));
            let before = Instant::now();
            let leave = gate.enter().await;
            assert_eq!(before.elapsed().as_secs(), kept);
            gate.leave(leave, Verdict::Fine);
        }
    }
}
