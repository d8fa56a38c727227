//! Calls of one term that change a cloud: those in flight, and those that were given up before their end.

use controllers_runtime::TermStart;
use tokio::sync::watch;
use tokio::time::Instant;

/// Calls of a term.
#[derive(Debug, Default)]
pub(super) struct TermCalls(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    /// Number of the calls in flight.
    open: usize,
    /// Set at the end of the term: no more calls begin.
    is_closed: bool,
    /// Time at which a call was given up last. The cloud may still work on it.
    given_up: Option<Instant>,
}

impl TermCalls {
    /// Begins a call. Returns false if the term has ended.
    pub(super) fn begin(&self) -> bool {
        self.0.send_if_modified(|state| {
            if !state.is_closed {
                state.open = state.open.saturating_add(1);
            }
            !state.is_closed
        })
    }

    /// Ends a call. `has_ended` is false if it was given up.
    pub(super) fn end(&self, has_ended: bool) {
        self.0.send_modify(|state| {
            state.open = state.open.saturating_sub(1);
            if !has_ended {
                state.given_up = Some(Instant::now());
            }
        });
    }

    /// Refuses further calls. Those in flight go on.
    pub(super) fn close(&self) {
        self.0.send_modify(|state| state.is_closed = true);
    }

    /// Waits until no call is in flight.
    pub(super) async fn ended(&self) {
        // The sender is not dropped.
        let _ = self.0.subscribe().wait_for(|state| state.open == 0).await;
    }

    /// Returns true if the cloud works on no call of this term any more.
    pub(super) fn are_settled(&self) -> bool {
        let state = self.0.borrow();
        state.open == 0 && state.given_up.is_none_or(|at| at.elapsed() >= TermStart::LATE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_settle_when_they_end_or_long_after_they_were_given_up() {
        let calls = TermCalls::default();
        assert!(calls.begin() && calls.begin() && !calls.are_settled());
        calls.close();
        assert!(!calls.begin(), "the term has ended");
        calls.end(true);
        assert!(tokio::time::timeout(TermStart::LATE, calls.ended()).await.is_err(), "one is in flight");
        calls.end(false);
        calls.ended().await;
        assert!(!calls.are_settled());
        tokio::time::advance(TermStart::LATE).await;
        assert!(calls.are_settled());
    }
}
