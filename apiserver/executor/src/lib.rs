//! Inline executor: polls futures that wake each other in one task, and supervised tasks of the process.
//!
//! An HTTP/2 connection and its streams wake each other several times for each request. As separate tasks, each
//! wake-up may cross threads, each request's state is copied into a task, and the output of sixteen streams is flushed
//! in sixteen polls of the connection. As children of one task, they are polled until all of them wait for input from
//! outside, and the runtime is not involved.
//!
//! So the children of an executor share one thread at a time, and must not block.

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
use crate::time_slice::TimeSlice;
use crate::wake_state::{PartWaker, WakeState};

/// Handle that defers the flush of an executor's driver. The default one belongs to no executor and does nothing.
#[derive(Debug, Clone, Default)]
pub struct FlushDeferral(Option<Arc<AtomicBool>>);

impl FlushDeferral {
    /// Defers the driver's flush once. A child calls it when its input became ready together with that of others: they
    /// will have output soon, and one flush for all of it is cheaper.
    pub fn defer(&self) {
        if let Some(deferred) = &self.0 {
            deferred.store(true, Ordering::Relaxed);
        }
    }
}

type Child = BoxFuture<'static, ()>;

/// State that the executor shares with its spawners.
#[derive(Default)]
struct Shared {
    /// Children that have not been polled yet.
    new_children: Mutex<Vec<Child>>,
    woken: Arc<WakeState>,
    time_slice: Arc<TimeSlice>,
    /// Set by a child that defers the flush in this iteration.
    defers_flush: Arc<AtomicBool>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("woken", &self.woken).finish_non_exhaustive()
    }
}

/// Handle that adds children, as hyper and tonic add tasks to a runtime. A child that is added after the executor has
/// ended is dropped.
#[derive(Debug, Clone)]
pub struct Spawner(Weak<Shared>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawner {
    fn execute(&self, child: F) {
        let Some(shared) = self.0.upgrade() else { return };
        // A panic ends the child alone, as it would end a task.
        let child = AssertUnwindSafe(shared.time_slice.limit(child)).catch_unwind().map(|done| {
            if done.is_err() {
                tracing::error!("a stream of a connection panicked");
            }
        });
        shared.new_children.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(child));
        shared.woken.wake_by_ref();
    }
}

/// Result of polling the children.
struct Progress {
    /// Set if every woken child was polled and is pending; not set if the time slice ended first.
    all_pending: bool,
    /// Set if a child has completed.
    some_completed: bool,
}

/// Executor that polls its children in the task that polls it. As a future by itself it completes when all children
/// have.
#[derive(Debug)]
pub struct InlineExecutor {
    shared: Arc<Shared>,
    running: FuturesUnordered<Child>,
    children: Arc<PartWaker>,
    driver: Arc<PartWaker>,
    /// Set if the children used up the task's coop budget, so that the driver was polled without any.
    is_driver_starved: bool,
}

impl Default for InlineExecutor {
    fn default() -> Self {
        let shared = Arc::new(Shared::default());
        let part = || Arc::new(PartWaker::new(&shared.woken));
        let (children, driver) = (part(), part());
        Self { shared, running: FuturesUnordered::new(), children, driver, is_driver_starved: false }
    }
}

impl InlineExecutor {
    /// Returns a handle that adds children.
    #[must_use]
    pub fn spawner(&self) -> Spawner {
        Spawner(Arc::downgrade(&self.shared))
    }

    /// Returns the handle with which children defer the driver's flush.
    #[must_use]
    pub fn flush_deferral(&self) -> FlushDeferral {
        FlushDeferral(Some(Arc::clone(&self.shared.defers_flush)))
    }

    /// Polls the children and the `driver` in turns, until the driver is ready or all are pending. The driver is
    /// polled after the children, so that it finds their output. If the driver has woken itself after a child had
    /// output and has not completed, or after [`FlushDeferral::defer`], the task yields first: other tasks may be
    /// about to give more children output.
    pub fn poll_with<T>(
        &mut self,
        context: &mut Context<'_>,
        mut driver: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let shared = Arc::clone(&self.shared);
        shared.woken.register(context.waker());
        let children_waker = Waker::from(Arc::clone(&self.children));
        let mut children_context = Context::from_waker(&children_waker);
        let driver_waker = Waker::from(Arc::clone(&self.driver));
        let mut driver_context = Context::from_waker(&driver_waker);
        shared.time_slice.begin();
        shared.woken.begin();
        if std::mem::take(&mut self.is_driver_starved)
            && let Poll::Ready(done) = driver(&mut driver_context)
        {
            return Poll::Ready(done);
        }
        loop {
            shared.defers_flush.store(false, Ordering::Relaxed);
            let had_budget = coop::has_budget_remaining();
            let progress = self.poll_children(&mut children_context);
            let has_budget = coop::has_budget_remaining();
            self.is_driver_starved = had_budget && !has_budget;
            self.driver.take();
            if let Poll::Ready(done) = driver(&mut driver_context) {
                return Poll::Ready(done);
            }
            if progress.all_pending && shared.woken.finish() {
                return Poll::Pending;
            }
            let flushes_at_once = progress.some_completed && !shared.defers_flush.load(Ordering::Relaxed);
            if shared.time_slice.is_over() || !has_budget || (self.driver.take() && !flushes_at_once) {
                shared.woken.interrupt();
                return Poll::Pending;
            }
        }
    }

    /// Polls the woken children until no child is woken, so that the driver sees the output of all of them in one
    /// poll.
    fn poll_children(&mut self, context: &mut Context<'_>) -> Progress {
        let mut some_completed = false;
        loop {
            // A child that is woken before this line is polled below; one that is woken after it is noticed.
            self.shared.woken.begin();
            self.children.take();
            let new_children =
                std::mem::take(&mut *self.shared.new_children.lock().unwrap_or_else(PoisonError::into_inner));
            self.running.extend(new_children);
            while let Poll::Ready(Some(())) = self.running.poll_next_unpin(context) {
                some_completed = true;
                if self.shared.time_slice.is_over() {
                    return Progress { all_pending: false, some_completed };
                }
            }
            // `FuturesUnordered` yields and wakes itself after two children that were woken while they were polled, as
            // a child that sends data is.
            let has_more = self.children.take() && coop::has_budget_remaining();
            if !has_more || self.shared.time_slice.is_over() {
                return Progress { all_pending: true, some_completed };
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.running.is_empty()
            && self.shared.new_children.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
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
