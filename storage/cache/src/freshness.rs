//! How fresh the cache must be for a reader that wants to see everything written before it came.
//!
//! One task asks the store for its newest revision, one question at a time. A reader needs the
//! answer to a question that was asked after it came: the next one. So however many read at once,
//! the store is asked as often as it can answer one after the other, and a reader waits for two
//! answers at most.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use storage_contract::{Revision, Store, StoreError, StoreResult};
use tokio::sync::{Notify, watch as signal};

/// How long a reader waits for the cache before progress is asked for: the news itself is usually
/// there sooner. Then it is asked for as often.
const HASTEN_EVERY: Duration = Duration::from_millis(20);

/// The answer to a question.
#[derive(Debug, Clone)]
struct Answer {
    /// The question's number, from one.
    number: u64,
    /// The newest revision, or why it could not be learned.
    newest: Result<Revision, String>,
}

/// The questions and their answers.
#[derive(Debug)]
pub(crate) struct Freshness {
    /// How many questions have been asked.
    asked: Mutex<u64>,
    wanted: Notify,
    answer: signal::Sender<Answer>,
    hastened: Mutex<Option<Instant>>,
}

impl Default for Freshness {
    fn default() -> Self {
        let nothing = Answer { number: 0, newest: Ok(Revision::NONE) };
        Self {
            asked: Mutex::default(),
            wanted: Notify::new(),
            answer: signal::Sender::new(nothing),
            hastened: Mutex::default(),
        }
    }
}

impl Freshness {
    /// The store's newest revision as of some moment after this call began.
    pub(crate) async fn newest(&self) -> StoreResult<Revision> {
        let mut answers = self.answer.subscribe();
        let mine = self.number(0) + 1;
        self.wanted.notify_one();
        let unavailable =
            |why: String| StoreError::Unavailable { operation: "current revision", source: why.into() };
        let answer = answers.wait_for(|answer| answer.number >= mine).await;
        let answer = answer.map_err(|_| unavailable("the cache has ended".to_owned()))?;
        answer.newest.clone().map_err(unavailable)
    }

    /// Asks whenever somebody wants to know. Never returns.
    pub(crate) async fn run(&self, store: &dyn Store) {
        loop {
            self.wanted.notified().await;
            let number = self.number(1);
            let newest = store.current_revision().await.map_err(|error| crate::follower::chain(&error));
            self.answer.send_replace(Answer { number, newest });
        }
    }

    /// Has the store's watches say how far they are, again and again: for somebody who waits to
    /// see them there. Never returns.
    pub(crate) async fn hasten(&self, store: &dyn Store) {
        loop {
            tokio::time::sleep(HASTEN_EVERY).await;
            let mut last = self.hastened.lock().unwrap_or_else(PoisonError::into_inner);
            // All who wait are served by one request.
            if last.is_none_or(|last| last.elapsed() >= HASTEN_EVERY / 2) {
                *last = Some(Instant::now());
                store.hasten_progress();
            }
        }
    }

    /// The number of the last question asked, after asking `more`.
    fn number(&self, more: u64) -> u64 {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked += more;
        *asked
    }
}
