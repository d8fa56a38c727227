//! Futures that wake each other, in one task.
//!
//! An HTTP/2 connection and its streams wake each other several times for each request. As tasks of their own each
//! wake-up may be of another thread, each request's way is copied into a task, and what sixteen streams have to say at a
//! time is sixteen turns of the connection. In one task the runtime hears of none of it: they take turns until all of
//! them wait for something from outside.
//!
//! So what is in a group shares one thread at a time, and must not take long.

mod supervised;
mod time_slice;
mod wake_state;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use hyper::rt::Executor;
use tokio::task::coop;

pub use crate::supervised::{
    RestartCounter, Supervisor, TaskFailure, TaskName, spawn_detached, spawn_joined,
};
use crate::time_slice::Turn;
use crate::wake_state::{Part, Woken};

/// Handle that defers the flush of an executor's driver. The default one belongs to no executor and does nothing.
#[derive(Debug, Clone, Default)]
pub struct FlushDeferral(Option<Arc<AtomicBool>>);

impl FlushDeferral {
    /// Defers the driver's flush once. A member calls it when its input became ready together with that of others: they
    /// will have output soon, and one flush for all of it is cheaper.
    pub fn defer(&self) {
        if let Some(deferred) = &self.0 {
            deferred.store(true, Ordering::Relaxed);
        }
    }
}

type Member = BoxFuture<'static, ()>;

/// What a group and who adds to it both know.
#[derive(Default)]
struct Shared {
    /// Members that have not had a turn yet.
    begun: Mutex<Vec<Member>>,
    woken: Arc<Woken>,
    turn: Arc<Turn>,
    /// Whether a member has deferred the flush in this iteration.
    defers_flush: Arc<AtomicBool>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("woken", &self.woken).finish_non_exhaustive()
    }
}

/// Adds to a group, as hyper and tonic add tasks to a runtime. What is added after the group has ended is dropped.
#[derive(Debug, Clone)]
pub struct Spawner(Weak<Shared>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, member: F) {
        let Some(shared) = self.0.upgrade() else { return };
        // A panic ends what panicked, as it would a task.
        let member = AssertUnwindSafe(shared.turn.limit(member)).catch_unwind().map(|done| {
            if done.is_err() {
                tracing::error!("a part of a connection panicked");
            }
        });
        shared.begun.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(member));
        shared.woken.wake_by_ref();
    }
}

/// How a group's members are after they went on.
struct Members {
    /// Whether those that were woken have all had their turn, and wait: not when the group's was over before.
    all_wait: bool,
    /// Whether some are done.
    some_are_done: bool,
}

/// Futures that take turns in the task that polls the group. As a future by itself it ends when all of them have.
#[derive(Debug)]
pub struct InlineExecutor {
    shared: Arc<Shared>,
    running: FuturesUnordered<Member>,
    members: Arc<Part>,
    head: Arc<Part>,
    /// Whether the members used up what the runtime gives a task, and left nothing to who comes after them.
    is_owed: bool,
}

impl Default for InlineExecutor {
    fn default() -> Self {
        let shared = Arc::new(Shared::default());
        let part = || Arc::new(Part::new(&shared.woken));
        let (members, head) = (part(), part());
        Self { shared, running: FuturesUnordered::new(), members, head, is_owed: false }
    }
}

impl InlineExecutor {
    /// What adds to it.
    #[must_use]
    pub fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.shared))
    }

    /// Returns the handle with which members defer the driver's flush.
    #[must_use]
    pub fn flush_deferral(&self) -> FlushDeferral {
        FlushDeferral(Some(Arc::clone(&self.shared.defers_flush)))
    }

    /// Has all take turns with `head`, until that is ready or everybody waits. It comes after the members, so that it
    /// finds what they left for it. Where it wants to go on by itself after members said something and are not done, or
    /// [`FlushDeferral::defer`], others have their turn first: they may be about to have more of them say something.
    pub fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        mut head: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let shared = Arc::clone(&self.shared);
        shared.woken.register(context.waker());
        let members_waker = Waker::from(Arc::clone(&self.members));
        let mut members_context = Context::from_waker(&members_waker);
        let heads_waker = Waker::from(Arc::clone(&self.head));
        let mut heads_context = Context::from_waker(&heads_waker);
        shared.turn.begin();
        shared.woken.begin();
        if std::mem::take(&mut self.is_owed)
            && let Poll::Ready(done) = head(&mut heads_context)
        {
            return Poll::Ready(done);
        }
        loop {
            shared.defers_flush.store(false, Ordering::Relaxed);
            let had_something = coop::has_budget_remaining();
            let members = self.poll_members(&mut members_context);
            let has_something = coop::has_budget_remaining();
            self.is_owed = had_something && !has_something;
            self.head.take();
            if let Poll::Ready(done) = head(&mut heads_context) {
                return Poll::Ready(done);
            }
            if members.all_wait && shared.woken.rest() {
                return Poll::Pending;
            }
            let goes_on_at_once = members.some_are_done && !shared.defers_flush.load(Ordering::Relaxed);
            if shared.turn.is_over() || !has_something || (self.head.take() && !goes_on_at_once) {
                shared.woken.leave();
                return Poll::Pending;
            }
        }
    }

    /// Has the members go on that were woken, until nobody is, so that what they say is said to the head at a time.
    fn poll_members(&mut self, context: &mut Context<'_>) -> Members {
        let mut some_are_done = false;
        loop {
            // Who wakes before this has its turn now; who wakes after it is heard.
            self.shared.woken.begin();
            self.members.take();
            let begun =
                std::mem::take(&mut *self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner));
            self.running.extend(begun);
            while let Poll::Ready(Some(())) = self.running.poll_next_unpin(context) {
                some_are_done = true;
                if self.shared.turn.is_over() {
                    return Members { all_wait: false, some_are_done };
                }
            }
            // It leaves off, and wakes, after two that were woken while they had their turn: as whoever sends data is.
            let has_more = self.members.take() && coop::has_budget_remaining();
            if !has_more || self.shared.turn.is_over() {
                return Members { all_wait: true, some_are_done };
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.running.is_empty() && self.shared.begun.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

impl Future for InlineExecutor {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waiting = self.poll_with(context, |_| Poll::<()>::Pending);
        if self.is_empty() { Poll::Ready(()) } else { waiting }
    }
}

#[cfg(test)]
mod tests;
