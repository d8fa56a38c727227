//! Who goes next when too much is asked at once: nobody waits for what another user asks.
//!
//! There are three queues. Reads and writes have as many seats as upstream gives them, and lists of
//! many objects, which cost processor time and not waiting, have half as many as there are
//! processors. In each queue the next free seat goes to the user who had least of it so far, by
//! the time that their requests really took.

mod queue;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use queue::{FairQueue, Refusal, Seat};

/// Longest anybody waits for a seat: a quarter of the time that a request has, as upstream.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Requests of one user that may wait: upstream's number.
const LONGEST_QUEUE: usize = 50;

/// Requests of all users that may wait: what memory allows, at some KiB each.
const MOST_WAITING: usize = 5000;

/// How much may be served at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Seats.
    pub(crate) seats: usize,
    /// Requests of one user that may wait.
    pub(crate) longest_queue: usize,
    /// Requests that may wait altogether.
    pub(crate) most_waiting: usize,
    /// Longest a request waits.
    pub(crate) longest_wait: Duration,
}

impl Limits {
    pub(crate) const fn of(seats: usize) -> Self {
        Self { seats, longest_queue: LONGEST_QUEUE, most_waiting: MOST_WAITING, longest_wait: LONGEST_WAIT }
    }
}

/// The queues' names, as metrics have them.
pub(crate) const LEVELS: [&str; 3] = ["reads", "writes", "large-lists"];

/// The queues.
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

    /// The queues with the names that metrics give them.
    pub(crate) fn levels(&self) -> [(&'static str, &Arc<FairQueue>); 3] {
        let [reads, writes, large_lists] = LEVELS;
        [(reads, &self.reads), (writes, &self.writes), (large_lists, &self.large_lists)]
    }
}
