//! Tests of the fair queue: shares, costs, limits and cancelled requests.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::time::Duration;

use super::Limits;
use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

fn queue(seats: usize) -> Arc<FairQueue> {
    Arc::new(FairQueue::new(Limits::of(seats)))
}

/// Sends requests of a user without pause, in `parallel` loops, until the end.
fn greedy(queue: &Arc<FairQueue>, user: &'static str, parallel: usize, seats: usize, took: Duration) {
    for _ in 0..parallel {
        let queue = Arc::clone(queue);
        tokio::spawn(async move {
            loop {
                match queue.enter(user, seats).await {
                    Ok(seat) => {
                        tokio::time::sleep(took).await;
                        drop(seat);
                    }
                    Err(_) => tokio::time::sleep(MILLISECOND).await,
                }
            }
        });
    }
}

/// Returns how long each of a modest user's requests waited, one after the other.
async fn waits_of(queue: &Arc<FairQueue>, user: &str, requests: usize, took: Duration) -> Vec<Duration> {
    let mut waits = Vec::new();
    for _ in 0..requests {
        let started = Instant::now();
        let seat = queue.enter(user, 1).await.unwrap();
        waits.push(started.elapsed());
        tokio::time::sleep(took).await;
        drop(seat);
        tokio::time::sleep(MILLISECOND).await;
    }
    waits.sort();
    waits
}

#[tokio::test(start_paused = true)]
async fn a_user_with_constant_expensive_lists_does_not_delay_others() {
    let queue = queue(8);
    greedy(&queue, "lister", 60, 4, 50 * MILLISECOND);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(queue.load().waiting > 40, "{:?}", queue.load());
    let waits = waits_of(&queue, "modest", 500, MILLISECOND).await;
    // Two lists run at a time and end apart, or together: no request waits longer than one of them takes.
    assert!(waits[499] <= 51 * MILLISECOND, "{:?}", waits[499]);
    let last = queue.enter("another", 1).await;
    assert!(last.is_ok());
}

#[tokio::test(start_paused = true)]
async fn equal_users_get_equal_shares_of_seats_for_any_number_of_requests() {
    let queue = queue(4);
    let done = Arc::new(Mutex::new(HashMap::new()));
    for (user, parallel) in [("few", 4), ("many", 40)] {
        for _ in 0..parallel {
            let (queue, done) = (Arc::clone(&queue), Arc::clone(&done));
            tokio::spawn(async move {
                loop {
                    let Ok(seat) = queue.enter(user, 1).await else { continue };
                    tokio::time::sleep(10 * MILLISECOND).await;
                    drop(seat);
                    *done.lock().unwrap().entry(user).or_insert(0_u32) += 1;
                }
            });
        }
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    let done = done.lock().unwrap();
    let (few, many) = (done["few"], done["many"]);
    assert!(few * 10 > many * 8, "few {few}, many {many}");
    assert!(few + many > 7500, "the seats are used: {}", few + many);
}

#[tokio::test(start_paused = true)]
async fn a_user_with_slower_requests_gets_fewer_turns() {
    let queue = queue(1);
    let done = Arc::new(Mutex::new(HashMap::new()));
    for (user, took) in [("slow", 100), ("quick", 10)] {
        for _ in 0..5 {
            let (queue, done) = (Arc::clone(&queue), Arc::clone(&done));
            tokio::spawn(async move {
                loop {
                    let Ok(seat) = queue.enter(user, 1).await else { continue };
                    tokio::time::sleep(took * MILLISECOND).await;
                    drop(seat);
                    *done.lock().unwrap().entry(user).or_insert(0_u32) += 1;
                }
            });
        }
    }
    tokio::time::sleep(Duration::from_secs(100)).await;
    let done = done.lock().unwrap();
    let (slow, quick) = (done["slow"], done["quick"]);
    assert!(quick > 6 * slow, "quick {quick}, slow {slow}");
}

#[tokio::test(start_paused = true)]
async fn a_user_with_long_requests_leaves_seats_to_others() {
    let queue = queue(8);
    let mut held = Vec::new();
    for _ in 0..6 {
        held.push(queue.enter("slow", 1).await.unwrap());
    }
    let seventh = tokio::time::timeout(Duration::from_secs(5), queue.enter("slow", 1)).await;
    assert!(seventh.is_err(), "it waits");
    assert_eq!(queue.load(), Load { executing: 6, waiting: 0 }, "and leaves nothing behind");
    for user in ["a", "b"] {
        held.push(queue.enter(user, 1).await.unwrap());
    }
    assert_eq!(queue.load().executing, 8);
}

#[tokio::test(start_paused = true)]
async fn waiting_times_out_and_queues_are_bounded() {
    let limits = Limits { longest_queue: 2, most_waiting: 3, ..Limits::of(1) };
    let queue = Arc::new(FairQueue::new(limits));
    let seat = queue.enter("a", 1).await.unwrap();
    let waiting: Vec<_> = (0..2)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.enter("a", 1).await.map(|_| ()) })
        })
        .collect();
    tokio::time::sleep(MILLISECOND).await;
    assert_eq!(queue.enter("a", 1).await.err(), Some(Refusal::QueueFull));
    let started = Instant::now();
    for one in waiting {
        assert_eq!(one.await.unwrap(), Err(Refusal::TimedOut));
    }
    assert!(started.elapsed() <= Duration::from_secs(15), "{:?}", started.elapsed());
    drop(seat);
    assert_eq!(queue.load(), Load::default());
    assert!(queue.enter("a", 1).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_needs_many_seats_is_not_starved_by_small_ones() {
    let queue = queue(8);
    greedy(&queue, "small", 20, 1, 10 * MILLISECOND);
    tokio::time::sleep(100 * MILLISECOND).await;
    let started = Instant::now();
    let seat = queue.enter("large", 6).await.unwrap();
    assert!(started.elapsed() < 50 * MILLISECOND, "{:?}", started.elapsed());
    drop(seat);
}

#[tokio::test]
async fn requests_cancelled_at_any_moment_leak_no_seat() {
    let queue = queue(2);
    let tasks: Vec<_> = (0..200_u64)
        .map(|number| {
            let queue = Arc::clone(&queue);
            let user = if number % 3 == 0 { "a" } else { "b" };
            let task = tokio::spawn(async move {
                let _seat = queue.enter(user, 1).await;
                tokio::time::sleep(Duration::from_micros(50)).await;
            });
            (number, task)
        })
        .collect();
    for (number, task) in tasks {
        if number % 2 == 0 {
            tokio::time::sleep(Duration::from_micros(number)).await;
            task.abort();
        }
        let _ = task.await;
    }
    assert_eq!(queue.load(), Load::default());
}
