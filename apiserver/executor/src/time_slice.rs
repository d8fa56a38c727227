//! How long a group's turn is.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::coop;

/// How long they take turns before others have theirs: about as long as it takes to encrypt and send what a connection
/// sends at a time.
pub(crate) const LONGEST_TURN: Duration = Duration::from_micros(200);

/// The turn that a group has, or has had.
#[derive(Debug)]
pub(crate) struct Turn {
    /// What its end is counted from.
    since: Instant,
    /// Nanoseconds.
    end: AtomicU64,
}

impl Default for Turn {
    fn default() -> Self {
        Self { since: Instant::now(), end: AtomicU64::default() }
    }
}

impl Turn {
    pub(crate) fn begin(&self) {
        self.end.store(self.now() + nanoseconds(LONGEST_TURN.as_nanos()), Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.now() >= self.end.load(Ordering::Relaxed)
    }

    /// `member`, which waits for the next turn when this one is over, or has used up what the runtime gives a task. It is
    /// dropped as soon as it is done, within the turn.
    pub(crate) fn limit<F: Future>(self: &Arc<Self>, member: F) -> impl Future<Output = F::Output> + use<F> {
        let turn = Arc::clone(self);
        async move {
            let mut member = pin!(member);
            poll_fn(|context| {
                // Nothing that it waits for would be ready, and it would be woken for each.
                if turn.is_over() || !coop::has_budget_remaining() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                member.as_mut().poll(context)
            })
            .await
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.since.elapsed().as_nanos())
    }
}

/// 584 years of them.
fn nanoseconds(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
