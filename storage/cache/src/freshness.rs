//! How fresh the cache must be for a reader that wants to see everything written before it came.
//!
//! One task asks the store for its newest revision, one question at a time. A reader needs the
//! answer to a question that was asked after it came: the next one. So however many read at once,
//! the store is asked as often as it can answer one after the other, and a reader waits for two
//! answers at most.
//!
//! A question costs the store and the server several times what a reader's own work does. So where readers come
//! in numbers, the store has as long a rest before the next question as it took to answer the last, and more of
//! them share the answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use storage_contract::{Revision, Store, StoreError, StoreResult};
use tokio::sync::{Notify, watch as signal};

use crate::micro_timer::Clock;

/// How long a reader waits for the cache before progress is asked for: the news itself is usually
/// there sooner. Then it is asked for as often.
const HASTEN_EVERY: Duration = Duration::from_millis(20);

/// Readers since the last question that are many. One client's readers come one at a time, and those of two are
/// seldom more: they would wait for nobody.
const MANY: u64 = 3;

/// A rest that is worth it: the task has to be woken after it.
const SHORTEST_REST: Duration = Duration::from_micros(50);

/// What a slow answer may cost those who come after it.
const LONGEST_REST: Duration = Duration::from_micros(500);

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
    /// Readers that came since.
    came: AtomicU64,
    wanted: Notify,
    answer: signal::Sender<Answer>,
    hastened: Mutex<Option<Instant>>,
}

impl Default for Freshness {
    fn default() -> Self {
        let nothing = Answer { number: 0, newest: Ok(Revision::NONE) };
        Self {
            asked: Mutex::default(),
            came: AtomicU64::default(),
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
        self.came.fetch_add(1, Ordering::Relaxed);
        self.wanted.notify_one();
        let unavailable =
            |why: String| StoreError::Unavailable { operation: "current revision", source: why.into() };
        let answer = answers.wait_for(|answer| answer.number >= mine).await;
        let answer = answer.map_err(|_| unavailable("the cache has ended".to_owned()))?;
        answer.newest.clone().map_err(unavailable)
    }

    /// Asks whenever somebody wants to know. Never returns.
    pub(crate) async fn run(&self, store: &dyn Store) {
        // Without a clock there is no rest.
        let clock = Clock::new().ok();
        let mut took = Duration::ZERO;
        loop {
            self.wanted.notified().await;
            let rest = rest(self.came.load(Ordering::Relaxed), took);
            if let (Some(clock), Some(rest)) = (&clock, rest) {
                let _ = clock.wait(rest).await;
            }
            self.came.store(0, Ordering::Relaxed);
            let number = self.number(1);
            let asked = Instant::now();
            let newest = store.current_revision().await.map_err(|error| crate::reflector::chain(&error));
            took = asked.elapsed();
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

/// How long to wait for more readers than came, if at all, when the last answer took so long.
fn rest(came: u64, took: Duration) -> Option<Duration> {
    (came >= MANY && took >= SHORTEST_REST).then(|| took.min(LONGEST_REST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_rests_as_long_as_it_took_when_many_ask() {
        let (quick, usual, slow) =
            (Duration::from_micros(10), Duration::from_micros(300), Duration::from_secs(3));
        assert_eq!(rest(1, usual), None);
        assert_eq!(rest(2, slow), None);
        assert_eq!(rest(16, quick), None);
        assert_eq!(rest(3, usual), Some(usual));
        assert_eq!(rest(100, slow), Some(LONGEST_REST));
    }
}
