//! Rate limit: bounds the concurrent calls to one service.
//!
//! After "too many requests" (429, or 503) the limit is halved, and no call is made for as long as the
//! cloud requested. Every run of successful responses raises the limit by one. Sessions share nothing:
//! each has limits of its own, because clouds limit projects or users.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

/// Initial limit of concurrent calls: Nova's API has some dozen workers in a small cloud.
const MOST: usize = 16;

/// Number of successful responses in a row that raise the limit by one.
const RUN: usize = 32;

/// Longest pause that is kept when a cloud requests one, so that one wrong header does not stop a cluster for a day.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// Limiter of the calls to one service.
#[derive(Debug)]
pub(crate) struct RateLimit {
    permits: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    limit: usize,
    /// Permits in use that must not return.
    owed: usize,
    run: usize,
    silent_until: Option<Instant>,
}

/// Limiters of one session: one for each service, in the order of [`crate::request::Service::ALL`].
pub(crate) type Gates = [RateLimit; 7];

/// Permit of one call. Return it with [`RateLimit::leave`].
#[derive(Debug)]
pub(crate) struct Leave<'a>(Option<SemaphorePermit<'a>>);

impl Default for RateLimit {
    fn default() -> Self {
        let state = State { limit: MOST, owed: 0, run: 0, silent_until: None };
        Self { permits: Semaphore::new(MOST), state: Mutex::new(state) }
    }
}

impl RateLimit {
    /// Waits for a permit, and for the end of a pause that the cloud requested.
    pub(crate) async fn enter(&self) -> Leave<'_> {
        // The semaphore is never closed; if it were, a call without a permit would do no harm.
        let leave = Leave(self.permits.acquire().await.ok());
        while let Some(until) = self.silence() {
            tokio::time::sleep_until(until).await;
        }
        leave
    }

    /// Returns a permit, with the cloud's response. If a call is dropped before its end, its permit returns by
    /// itself.
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
        // Idle permits are removed at once, or an idle limiter would keep its limit.
        let taken = self.permits.forget_permits(state.owed);
        state.owed -= taken;
    }

    /// Returns the present limit of concurrent calls.
    pub(crate) fn limit(&self) -> usize {
        self.lock().limit
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

    /// Returns the end of the pause, if there is one.
    fn silence(&self) -> Option<Instant> {
        let mut state = self.lock();
        state.silent_until = state.silent_until.filter(|until| *until > Instant::now());
        state.silent_until
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the numbers are consistent at every line.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Feedback of a response about the load of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Success.
    Fine,
    /// Failure of any kind.
    Failed,
    /// Too many requests; perhaps with a requested pause.
    TooMany(Option<Duration>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn too_many_requests_halve_the_limit_and_successes_restore_it() {
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
    async fn a_limiter_in_full_use_shrinks_as_calls_return() {
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
    async fn a_requested_pause_is_kept_up_to_a_maximum() {
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
