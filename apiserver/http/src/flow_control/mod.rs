//! Flow control: queues for requests above the concurrency limits, fair for each user.
//!
//! There are three queues. Reads and writes have as many seats as in upstream. Lists of many objects cost processor
//! time and no waiting, so they have half as many seats as there are processors. In each queue, the next free seat
//! goes to the user with the least use so far, by the time that the user's requests really took.

mod queue;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use queue::{FairQueue, Refusal, Seat};

/// Longest wait for a seat: a quarter of a request's time, as in upstream.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Longest queue of one user: upstream's number. Unit: requests.
const LONGEST_QUEUE: usize = 50;

/// Longest queue of all users: as many as memory allows, at some KiB each. Unit: requests.
const MOST_WAITING: usize = 5000;

/// Limits of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Number of seats.
    pub(crate) seats: usize,
    /// Longest queue of one user. Unit: requests.
    pub(crate) longest_queue: usize,
    /// Longest queue of all users. Unit: requests.
    pub(crate) most_waiting: usize,
    /// Longest wait of a request.
    pub(crate) longest_wait: Duration,
}

impl Limits {
    pub(crate) const fn of(seats: usize) -> Self {
        Self { seats, longest_queue: LONGEST_QUEUE, most_waiting: MOST_WAITING, longest_wait: LONGEST_WAIT }
    }
}

/// Names of the queues, as in metrics.
pub(crate) const LEVELS: [&str; 3] = ["reads", "writes", "large-lists"];

/// Queues of a server.
#[derive(Debug)]
pub(crate) struct FlowControl {
    pub(crate) reads: Arc<FairQueue>,
    pub(crate) writes: Arc<FairQueue>,
    pub(crate) large_lists: Arc<FairQueue>,
}

impl FlowControl {
    pub(crate) fn new(reads: usize, writes: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let queue = |seats: usize| Arc::new(FairQueue::new(Limits::of(seats)));
        Self { reads: queue(reads), writes: queue(writes), large_lists: queue(processors / 2) }
    }

    /// Returns the queues with their names.
    pub(crate) fn levels(&self) -> [(&'static str, &Arc<FairQueue>); 3] {
        let [reads, writes, large_lists] = LEVELS;
        [(reads, &self.reads), (writes, &self.writes), (large_lists, &self.large_lists)]
    }
}
