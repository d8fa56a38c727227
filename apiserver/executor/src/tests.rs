//! What runs in a group, and when it ends.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::channel::{mpsc, oneshot};
use futures::task::noop_waker;

use super::*;
use crate::time_slice::LONGEST_TURN;

/// Counts how often the task was woken.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn members_that_wake_each_other_do_not_wake_the_task() {
    let mut group = InlineExecutor::default();
    let (ask, mut asked) = mpsc::unbounded::<oneshot::Sender<u32>>();
    let spawner = group.spawner();
    let inner = spawner.clone();
    spawner.execute(async move {
        while let Some(answer) = asked.next().await {
            // In a member of its own, which is added while the group runs.
            inner.execute(async move { answer.send(7).unwrap() });
        }
    });
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    let (answer, mut answered) = oneshot::channel();
    ask.unbounded_send(answer).unwrap();
    let got = group.poll_with(&mut Context::from_waker(&waker), |context| answered.poll_unpin(context));
    assert_eq!(got, Poll::Ready(Ok(7)));
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
}

#[test]
fn who_wakes_from_outside_wakes_the_task_once() {
    let mut group = InlineExecutor::default();
    let (ask, mut asked) = mpsc::unbounded::<()>();
    group.spawner().execute(async move { while asked.next().await.is_some() {} });
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    assert!(group.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    for _ in 0..3 {
        ask.unbounded_send(()).unwrap();
    }
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    group.spawner().execute(async {});
    assert_eq!(woken.0.load(Ordering::SeqCst), 1, "it is on its way");
    assert!(group.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    group.spawner().execute(async {});
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
}

/// Members that are woken while they have their turn, as who sends on a stream is.
#[test]
fn the_head_hears_what_all_members_say_at_a_time() {
    const MANY: usize = 20;
    let heard = || {
        let mut group = InlineExecutor::default();
        let said = Arc::new(AtomicUsize::new(0));
        for _ in 0..MANY {
            let (said, mut is_said) = (Arc::clone(&said), false);
            group.spawner().execute(poll_fn(move |context| {
                if !std::mem::replace(&mut is_said, true) {
                    said.fetch_add(1, Ordering::SeqCst);
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }));
        }
        let mut heard = Vec::new();
        let polled = group.poll_with(&mut Context::from_waker(&noop_waker()), |_| {
            heard.push(said.load(Ordering::SeqCst));
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        heard
    };
    // On a busy machine a turn may be over before all have had theirs.
    assert!((0..20).any(|_| heard() == [MANY]));
}

/// How often the head has its turn, which wants to go on at once each time, after a member is done.
fn heads_turns(defers: bool) -> usize {
    let mut group = InlineExecutor::default();
    let flush = if defers { group.flush_deferral() } else { FlushDeferral::default() };
    group.spawner().execute(async move { flush.defer() });
    let mut turns = 0;
    let polled = group.poll_with(&mut Context::from_waker(&noop_waker()), |context| {
        turns += 1;
        context.waker().wake_by_ref();
        Poll::<()>::Pending
    });
    assert!(polled.is_pending());
    turns
}

#[test]
fn an_answer_waits_for_others_that_follow() {
    // On a busy machine a turn may be over after the first.
    assert!((0..20).any(|_| heads_turns(false) == 2), "nobody else is waited for");
    for _ in 0..20 {
        assert_eq!(heads_turns(true), 1);
    }
    assert!((0..20).any(|_| heads_turns(false) == 2), "what was said before is forgotten");
}

#[test]
fn nobody_keeps_the_thread() {
    let mut group = InlineExecutor::default();
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    group.spawner().execute(poll_fn(|context| {
        context.waker().wake_by_ref();
        Poll::Pending
    }));
    for turn in 1..4 {
        assert!(group.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(woken.0.load(Ordering::SeqCst), turn);
    }
}

/// Members that have much to do at a time have as many turns, and what comes after them has its part of each.
#[test]
fn a_turn_is_no_longer_for_many() {
    let mut group = InlineExecutor::default();
    for _ in 0..3 {
        group.spawner().execute(async { std::thread::sleep(LONGEST_TURN) });
    }
    let woken = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&woken));
    for turn in 1..=3 {
        let mut heads = 0;
        let polled = group.poll_with(&mut Context::from_waker(&waker), |_| {
            heads += 1;
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!(heads, 1);
        assert_eq!(group.running.len(), 3 - turn);
    }
    assert!(woken.0.load(Ordering::SeqCst) >= 2, "what is left is not forgotten");
}

/// What the runtime lets a task do before others are to go on is not for the members alone.
#[tokio::test]
async fn members_that_leave_nothing_come_second() {
    let mut group = InlineExecutor::default();
    group.spawner().execute(async {
        loop {
            coop::consume_budget().await;
        }
    });
    let mut has_something = 0;
    for _ in 0..10 {
        let turn = poll_fn(|context| {
            let polled = group.poll_with(context, |_| {
                has_something += usize::from(coop::has_budget_remaining());
                Poll::<()>::Pending
            });
            assert!(polled.is_pending());
            Poll::Ready(())
        });
        turn.await;
        tokio::task::yield_now().await;
    }
    assert_eq!(has_something, 9, "all turns but the first");
}

#[test]
fn a_panic_ends_only_who_panicked() {
    let mut group = InlineExecutor::default();
    let (done, mut is_done) = oneshot::channel();
    group.spawner().execute(async { panic!("on purpose") });
    group.spawner().execute(async move { done.send(()).unwrap() });
    // To tell of a panic may take longer than a turn.
    let polled = (0..3).find(|_| group.poll_unpin(&mut Context::from_waker(&noop_waker())).is_ready());
    assert!(polled.is_some());
    assert_eq!(is_done.try_recv(), Ok(Some(())));
}

#[test]
fn what_is_added_to_a_group_that_ended_is_dropped() {
    let group = InlineExecutor::default();
    let spawner = group.spawner();
    let (kept, mut dropped) = oneshot::channel::<()>();
    drop(group);
    spawner.execute(async move { drop(kept) });
    assert!(dropped.try_recv().is_err());
}

/// A member that holds what adds to its group does not keep it.
#[test]
fn a_group_that_is_dropped_drops_its_members() {
    let mut group = InlineExecutor::default();
    let spawner = group.spawner();
    let (kept, mut dropped) = oneshot::channel::<()>();
    let held = spawner.clone();
    spawner.execute(async move {
        std::future::pending::<()>().await;
        drop((kept, held));
    });
    assert!(group.poll_unpin(&mut Context::from_waker(&noop_waker())).is_pending());
    drop(group);
    assert!(dropped.try_recv().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_wake_is_lost_between_threads() {
    const ROUNDS: u32 = 20_000;
    let group = InlineExecutor::default();
    let (ask, mut asked) = mpsc::unbounded::<oneshot::Sender<()>>();
    group.spawner().execute(async move {
        while let Some(answer) = asked.next().await {
            let _ = answer.send(());
        }
    });
    let running = tokio::spawn(group);
    for _ in 0..ROUNDS {
        let (answer, answered) = oneshot::channel();
        ask.unbounded_send(answer).unwrap();
        answered.await.unwrap();
    }
    drop(ask);
    running.await.unwrap();
}
