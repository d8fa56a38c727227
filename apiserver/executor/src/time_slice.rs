//! Time slice of an executor: the time for which it polls before it yields to other tasks.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::task::coop;

/// Length of a time slice: about as long as it takes to encrypt and send one write of a connection.
pub(crate) const LONGEST_SLICE: Duration = Duration::from_micros(200);

/// Current time slice, or the last one.
#[derive(Debug)]
pub(crate) struct TimeSlice {
    /// Instant that the end counts from.
    since: Instant,
    /// End of the slice. Unit: nanoseconds.
    end: AtomicU64,
}

impl Default for TimeSlice {
    fn default() -> Self {
        Self { since: Instant::now(), end: AtomicU64::default() }
    }
}

impl TimeSlice {
    pub(crate) fn begin(&self) {
        self.end.store(self.now() + nanoseconds(LONGEST_SLICE.as_nanos()), Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.now() >= self.end.load(Ordering::Relaxed)
    }

    /// Wraps `child` so that it is pending once the slice has ended, or once the task's coop budget is used up. The
    /// child is dropped as soon as it completes, within the slice.
    pub(crate) fn limit<F: Future>(self: &Arc<Self>, child: F) -> impl Future<Output = F::Output> + use<F> {
        let slice = Arc::clone(self);
        async move {
            let mut child = pin!(child);
            poll_fn(|context| {
                // Every resource would report pending without a budget, and wake the child.
                if slice.is_over() || !coop::has_budget_remaining() {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                child.as_mut().poll(context)
            })
            .await
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.since.elapsed().as_nanos())
    }
}

/// Converts nanoseconds: 64 bits hold 584 years of them.
fn nanoseconds(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
