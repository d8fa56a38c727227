//! Flow control: queues for requests above the concurrency limits, fair for each user.
//!
//! There are three queues, and two more for requests through a host cluster. Reads and writes have as many seats as in upstream. Lists of many objects cost processor
//! time and no waiting, so they have half as many seats as there are processors. In each queue, the next free seat
//! goes to the user with the least use so far, by the time that the user's requests really took.

mod lending;
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
pub(crate) const LEVELS: [&str; 5] = ["reads", "writes", "large-lists", "hosted-reads", "hosted-writes"];

/// Queues of a server.
#[derive(Debug)]
pub(crate) struct FlowControl {
    pub(crate) reads: Arc<FairQueue>,
    pub(crate) writes: Arc<FairQueue>,
    pub(crate) large_lists: Arc<FairQueue>,
    /// Queues of requests through a host cluster. `None` if there is one set of queues for all requests.
    pub(crate) hosted: Option<HostedQueues>,
}

/// Queues of requests through a host cluster: reads and writes. They share seats with those of the direct endpoint.
#[derive(Debug)]
pub(crate) struct HostedQueues {
    pub(crate) reads: Arc<FairQueue>,
    pub(crate) writes: Arc<FairQueue>,
}

impl FlowControl {
    pub(crate) fn new(reads: usize, writes: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let queue = |seats: usize| Arc::new(FairQueue::new(Limits::of(seats)));
        let (reads, writes, large_lists) = (queue(reads), queue(writes), queue(processors / 2));
        Self { reads, writes, large_lists, hosted: None }
    }

    /// Creates queues of which each endpoint has its own. Large lists cost processor time, so they have one queue.
    pub(crate) fn of_two_endpoints(reads: usize, writes: usize) -> Self {
        let [own_reads, hosted_reads] = lending::pair(reads);
        let [own_writes, hosted_writes] = lending::pair(writes);
        let hosted = Some(HostedQueues { reads: hosted_reads, writes: hosted_writes });
        Self { reads: own_reads, writes: own_writes, hosted, ..Self::new(reads, writes) }
    }

    /// Returns the queues with their names.
    pub(crate) fn levels(&self) -> Vec<(&'static str, &Arc<FairQueue>)> {
        let [reads, writes, large_lists, hosted_reads, hosted_writes] = LEVELS;
        let own = [(reads, &self.reads), (writes, &self.writes), (large_lists, &self.large_lists)];
        let hosted = self.hosted.iter();
        let hosted = hosted.flat_map(|it| [(hosted_reads, &it.reads), (hosted_writes, &it.writes)]);
        own.into_iter().chain(hosted).collect()
    }
}
