//! Freshness of consistent reads: the store's newest revision, read once for all readers that wait for it.
//!
//! One task reads the revision, one read at a time. A reader needs the result of a read that started after the reader
//! arrived: the next one. So the store gets one read after the other, however many readers there are, and a reader
//! waits for two of them at most.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use storage_contract::{Revision, Store, StoreError, StoreResult};
use tokio::sync::{Notify, watch as signal};

/// Interval of a reader that waits until the cache shows what it needs: then it requests progress from the store's
/// watches. The change events are usually sooner.
const HASTEN_EVERY: Duration = Duration::from_millis(20);

/// Result of one read of the revision.
#[derive(Debug, Clone)]
struct RevisionRead {
    /// Number of the read, from one.
    number: u64,
    /// The newest revision, or the error of the read.
    newest: Result<Revision, String>,
}

/// Reads of the newest revision, and their results.
#[derive(Debug)]
pub(crate) struct Freshness {
    /// Number of reads that have started.
    started: Mutex<u64>,
    requested: Notify,
    answer: signal::Sender<RevisionRead>,
    hastened: Mutex<Option<Instant>>,
}

impl Default for Freshness {
    fn default() -> Self {
        let nothing = RevisionRead { number: 0, newest: Ok(Revision::NONE) };
        Self {
            started: Mutex::default(),
            requested: Notify::new(),
            answer: signal::Sender::new(nothing),
            hastened: Mutex::default(),
        }
    }
}

impl Freshness {
    /// Returns the store's newest revision as of some moment after this call began.
    pub(crate) async fn newest(&self) -> StoreResult<Revision> {
        let mut answers = self.answer.subscribe();
        let next = self.count_started(0) + 1;
        self.requested.notify_one();
        let unavailable =
            |why: String| StoreError::Unavailable { operation: "current revision", source: why.into() };
        let answer = answers.wait_for(|answer| answer.number >= next).await;
        let answer = answer.map_err(|_| unavailable("the cache has ended".to_owned()))?;
        answer.newest.clone().map_err(unavailable)
    }

    /// Reads the revision whenever a reader needs it. Never returns.
    pub(crate) async fn run(&self, store: &dyn Store) {
        loop {
            self.requested.notified().await;
            // Readers that are ready to arrive share this read.
            tokio::task::yield_now().await;
            let number = self.count_started(1);
            let newest = store.current_revision().await.map_err(|error| crate::reflector::chain(&error));
            self.answer.send_replace(RevisionRead { number, newest });
        }
    }

    /// Requests progress from the store's watches again and again, for a reader that waits for it. Never returns.
    pub(crate) async fn hasten(&self, store: &dyn Store) {
        loop {
            tokio::time::sleep(HASTEN_EVERY).await;
            let mut last = self.hastened.lock().unwrap_or_else(PoisonError::into_inner);
            // One request serves all readers that wait.
            if last.is_none_or(|last| last.elapsed() >= HASTEN_EVERY / 2) {
                *last = Some(Instant::now());
                store.hasten_progress();
            }
        }
    }

    /// Returns the number of reads that have started, after starting `more`.
    fn count_started(&self, more: u64) -> u64 {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        *started += more;
        *started
    }
}
