//! Seats of two queues, one for each endpoint, which lend seats to each other.
//!
//! Each queue has half of the seats. While the other one has no waiting request, it may use most of the other's seats,
//! too. A lent seat comes back when its request ends, so a part of the seats is never lent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::{FairQueue, Limits};

/// Part of a queue's seats that may be lent, in percent: the rest serves the other endpoint at once, even if each lent
/// seat is held for as long as a request may take.
const LENDABLE: usize = 70;

/// A queue's share of the seats of a pair.
#[derive(Debug)]
pub(super) struct Share {
    /// Number in the pair.
    index: usize,
    /// Seats of this queue alone.
    own: usize,
    pair: Arc<Pair>,
}

#[derive(Debug)]
struct Pair {
    seats: usize,
    used: [AtomicUsize; 2],
    waiting: [AtomicUsize; 2],
    queues: OnceLock<[Weak<FairQueue>; 2]>,
}

/// Creates two queues that share these seats.
pub(super) fn pair(seats: usize) -> [Arc<FairQueue>; 2] {
    // Each endpoint needs one.
    let seats = seats.max(2);
    let owned = [seats - seats / 2, seats / 2];
    let queues = OnceLock::new();
    let pair = Arc::new(Pair { seats, used: Default::default(), waiting: Default::default(), queues });
    let [first, second] = owned;
    let queue = |index, own, other: usize| {
        let most = own + other * LENDABLE / 100;
        Arc::new(FairQueue::sharing(Limits::of(most), Share { index, own, pair: Arc::clone(&pair) }))
    };
    let both = [queue(0, first, second), queue(1, second, first)];
    // It is set once, here.
    let _ = pair.queues.set(both.each_ref().map(Arc::downgrade));
    both
}

impl Share {
    /// Returns true if a queue that uses `used` seats may use so many more.
    pub(super) fn has_room(&self, used: usize, more: usize) -> bool {
        let other = 1 - self.index;
        let load = |loads: &[AtomicUsize; 2]| loads.get(other).map_or(0, |it| it.load(Ordering::SeqCst));
        let (of_other, waiting) = (load(&self.pair.used), load(&self.pair.waiting));
        let is_free = used + more + of_other <= self.pair.seats;
        is_free && (used + more <= self.own || waiting == 0)
    }

    /// Publishes the load of this queue.
    pub(super) fn publish(&self, used: usize, waiting: usize) {
        for (loads, load) in [(&self.pair.used, used), (&self.pair.waiting, waiting)] {
            if let Some(own) = loads.get(self.index) {
                own.store(load, Ordering::SeqCst);
            }
        }
    }

    /// Lets waiting requests of both queues take seats that have become free. No lock may be held.
    pub(super) fn wake(&self) {
        // The second look at the own queue: it may borrow once the other one has no waiting request.
        for index in [1 - self.index, self.index] {
            let is_waiting = self.pair.waiting.get(index).is_some_and(|it| it.load(Ordering::SeqCst) > 0);
            let queue = self.pair.queues.get().and_then(|queues| queues.get(index)).and_then(Weak::upgrade);
            if let Some(queue) = queue.filter(|_| is_waiting) {
                queue.look();
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    async fn take(queue: &Arc<FairQueue>, count: usize) -> Vec<super::super::Seat> {
        let mut seats = Vec::new();
        for number in 0..count {
            seats.push(queue.enter(&number.to_string(), 1).await.unwrap());
        }
        seats
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_borrows_most_seats_of_an_idle_one_and_never_all() {
        let [direct, hosted] = pair(100);
        let mut of_hosted = take(&hosted, 85).await;
        assert!(hosted.enter("next", 1).now_or_never().is_none(), "30 % of the other's are not lent");
        let of_direct = take(&direct, 15).await;
        let mut waiting = Box::pin(direct.enter("next", 1));
        assert!(waiting.as_mut().now_or_never().is_none(), "all seats are in use");
        let mut borrower = Box::pin(hosted.enter("greedy", 1));
        assert!(borrower.as_mut().now_or_never().is_none());
        of_hosted.pop();
        let own = waiting.as_mut().now_or_never().unwrap().unwrap();
        assert!(borrower.as_mut().now_or_never().is_none(), "a lent seat comes back to its owner");
        drop((own, of_direct));
        assert!(borrower.now_or_never().is_some(), "the other one is idle again");
    }

    #[tokio::test(start_paused = true)]
    async fn the_queue_of_an_endpoint_that_holds_its_seats_does_not_delay_the_other() {
        let [direct, hosted] = pair(20);
        for number in 0..200 {
            let hosted = Arc::clone(&hosted);
            tokio::spawn(async move {
                loop {
                    if let Ok(seat) = hosted.enter(&format!("u{}", number % 20), 1).await {
                        tokio::time::sleep(Duration::from_secs(8)).await;
                        drop(seat);
                    }
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(hosted.load().waiting > 100, "{:?}", hosted.load());
        for _ in 0..1000 {
            let started = tokio::time::Instant::now();
            let seat = direct.enter("own", 1).await.unwrap();
            assert_eq!(started.elapsed(), Duration::ZERO);
            tokio::time::sleep(Duration::from_millis(1)).await;
            drop(seat);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn all_waiting_requests_of_both_get_their_seats_at_last() {
        let queues = pair(3);
        let mut tasks = Vec::new();
        for number in 0..400_u64 {
            let queue = Arc::clone(&queues[usize::from(number % 3 == 0)]);
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(number % 7)).await;
                let seat = queue.enter(&format!("u{}", number % 11), 1 + usize::from(number % 5 == 0)).await;
                tokio::time::sleep(Duration::from_millis(number % 13)).await;
                seat.map(drop)
            }));
        }
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        for queue in &queues {
            assert_eq!(queue.load(), super::super::queue::Load::default());
        }
    }
}
