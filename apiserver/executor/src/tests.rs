//! Tests of the inline executor.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::channel::{mpsc, oneshot};
use futures::task::noop_waker;

use super::*;
use crate::time_slice::LONGEST_SLICE;

/// Waker that counts its wake-ups.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn children_that_wake_each_other_do_not_wake_the_task() {
    let mut executor = InlineExecutor::default();
    let (ask, mut asked) = mpsc::unbounded::<oneshot::Sender<u32>>();
    let spawner = executor.spawner();
    let inner = spawner.clone();
    spawner.execute(async move {
        while let Some(answer) = asked.next().await {
            // In a child of its own, which is added while the executor runs.
            inner.execute(async move { answer.send(7).unwrap() });
        }
    });
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    let (answer, mut answered) = oneshot::channel();
    ask.unbounded_send(answer).unwrap();
    let got = executor.poll_with(&mut Context::from_waker(&waker), |context| answered.poll_unpin(context));
    assert_eq!(got, Poll::Ready(Ok(7)));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
}

#[test]
fn wakeups_from_outside_wake_the_task_once() {
    let mut executor = InlineExecutor::default();
    let (ask, mut asked) = mpsc::unbounded::<()>();
    executor.spawner().execute(async move { while asked.next().await.is_some() {} });
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(executor.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    for _ in 0..3 {
        ask.unbounded_send(()).unwrap();
    }
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    executor.spawner().execute(async {});
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "it is on its way");
    assert!(executor.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    executor.spawner().execute(async {});
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
}

/// Children that are woken while they are polled, as one that sends on a stream is.
#[test]
fn the_driver_is_polled_after_a_batch_of_children() {
    const MANY: usize = 20;
    let heard = || {
        let mut executor = InlineExecutor::default();
        let said = Arc::new(AtomicUsize::new(0));
        for _ in 0..MANY {
            let (said, mut is_said) = (Arc::clone(&said), false);
            executor.spawner().execute(poll_fn(move |context| {
                if !std::mem::replace(&mut is_said, true) {
                    said.fetch_add(1, Ordering::SeqCst);
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }));
        }
        let mut heard = Vec::new();
        let polled = executor.poll_with(&mut Context::from_waker(&noop_waker()), |_| {
            heard.push(said.load(Ordering::SeqCst));
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        heard
    };
    // On a busy machine a time slice may end before all were polled.
    assert!((0..20).any(|_| heard() == [MANY]));
}

/// Number of times that the driver is polled, which wakes itself each time, after a child has completed.
fn driver_polls(defers: bool) -> usize {
    let mut executor = InlineExecutor::default();
    let flush = if defers { executor.flush_deferral() } else { FlushDeferral::default() };
    executor.spawner().execute(async move { flush.defer() });
    let mut turns = 0;
    let polled = executor.poll_with(&mut Context::from_waker(&noop_waker()), |context| {
        turns += 1;
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    assert!(polled.is_pending());
    turns
}

#[test]
fn a_deferred_flush_suppresses_the_second_poll_of_the_driver() {
    // On a busy machine a time slice may end after the first poll.
    assert!((0..20).any(|_| driver_polls(false) == 2), "the driver goes on at once");
    for _ in 0..20 {
        assert_eq!(driver_polls(true), 1);
    }
    assert!((0..20).any(|_| driver_polls(false) == 2), "what was said before is forgotten");
}

#[test]
fn a_child_that_wakes_itself_yields_the_thread() {
    let mut executor = InlineExecutor::default();
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    executor.spawner().execute(poll_fn(|context| {
        context.waker().wake_by_ref();
        Poll::Pending
    }));
    for poll in 1..4 {
        assert!(executor.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), poll);
    }
}

/// Children with much to do take several time slices, and the driver is polled in each of them.
#[test]
fn a_time_slice_is_not_longer_for_many_children() {
    let mut executor = InlineExecutor::default();
    for _ in 0..3 {
        executor.spawner().execute(async { std::thread::sleep(LONGEST_SLICE) });
    }
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    for poll in 1..=3 {
        let mut driver_polls = 0;
        let polled = executor.poll_with(&mut Context::from_waker(&waker), |_| {
            driver_polls += 1;
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!(driver_polls, 1);
        assert_eq!(executor.running.len(), 3 - poll);
    }
    assert!(woken.0.load(Ordering::SeqCst) >= 2, "what is left is not forgotten");
}

/// The coop budget of the task is not for the children alone.
#[tokio::test]
async fn children_do_not_use_up_the_coop_budget_of_the_driver() {
    let mut executor = InlineExecutor::default();
    executor.spawner().execute(async {
        loop {
            coop::consume_budget().await;
        }
    });
    let mut has_something = 0;
    for _ in 0..10 {
        let poll = poll_fn(|context| {
            let polled = executor.poll_with(context, |_| {
                has_something += usize::from(coop::has_budget_remaining());
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
            Poll::Ready(())
        });
        poll.await;
        tokio::task::yield_now().await;
    }
    assert_eq!(has_something, 9, "all turns but the first");
}

#[test]
fn a_panic_ends_only_the_child_that_panicked() {
    let mut executor = InlineExecutor::default();
    let (done, mut is_done) = oneshot::channel();
    executor.spawner().execute(async { panic!("on purpose") });
    executor.spawner().execute(async move { done.send(()).unwrap() });
    // Reporting a panic may take longer than a time slice.
    let polled = (0..3).find(|_| executor.poll_unpin(&mut Context::from_waker(&noop_waker())).is_ready());
    assert!(polled.is_some());
    assert_eq!(is_done.try_recv(), Ok(Some(())));
}

#[test]
fn a_child_that_is_added_to_a_dropped_executor_is_dropped() {
    let executor = InlineExecutor::default();
    let spawner = executor.spawner();
    let (kept, mut dropped) = oneshot::channel::<()>();
    drop(executor);
    spawner.execute(async move { drop(kept) });
    assert!(dropped.try_recv().is_err());
}

/// A child that holds a spawner does not keep its executor alive.
#[test]
fn a_dropped_executor_drops_its_children() {
    let mut executor = InlineExecutor::default();
    let spawner = executor.spawner();
    let (kept, mut dropped) = oneshot::channel::<()>();
    let held = spawner.clone();
    spawner.execute(async move {
        std::future::pending::<()>().await;
        drop((kept, held));
    });
    assert!(executor.poll_unpin(&mut Context::from_waker(&noop_waker())).is_pending());
    drop(executor);
    assert!(dropped.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_is_lost_between_threads() {
    const ROUNDS: u32 = 20_000;
    let executor = InlineExecutor::default();
    let (ask, mut asked) = mpsc::unbounded::<oneshot::Sender<()>>();
    executor.spawner().execute(async move {
        while let Some(answer) = asked.next().await {
            let _ = answer.send(());
        }
    });
    let running = tokio::spawn(executor);
    for _ in 0..ROUNDS {
        let (answer, answered) = oneshot::channel();
        ask.unbounded_send(answer).unwrap();
        answered.await.unwrap();
    }
    drop(ask);
    running.await.unwrap();
}
