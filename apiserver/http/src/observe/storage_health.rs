//! Whether storage answers, asked for all the time, so that nobody who wants to know has to wait.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use apiserver_machinery::store::ObjectStore;
use tokio::time::Instant;

/// Between two questions. The cheapest there is, so that it is no burden.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Longest an answer may take: upstream's number.
const PATIENCE: Duration = Duration::from_secs(2);

/// After so long without an answer requests that need storage are refused at once. Electing a leader
/// takes an etcd less, and who asks meanwhile is better off waiting for it.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// How often somebody who waits for storage looks whether that is of use: rarely enough to cost nothing.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// After so long the server itself may be what is broken, and starting it anew may help.
const HOPELESS: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody has asked yet, since then.
    Unknown(Instant),
    Answers,
    /// Since then it does not.
    Silent(Instant),
}

/// What is known of storage.
#[derive(Debug)]
pub(crate) struct StorageHealth(Mutex<State>);

impl StorageHealth {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Unknown(Instant::now())))
    }

    /// Asks for as long as the objects are used by anybody.
    pub(crate) async fn follow(self: Arc<Self>, objects: Weak<ObjectStore>) {
        while let Some(objects) = objects.upgrade() {
            let asked = Instant::now();
            let answer = tokio::time::timeout(PATIENCE, objects.ping()).await;
            self.note(matches!(answer, Ok(Ok(_))), asked);
            drop(objects);
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Whether the question of then was answered.
    fn note(&self, answers: bool, asked: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match (*state, answers) {
            (_, true) => State::Answers,
            (State::Unknown(since) | State::Silent(since), false) => State::Silent(since),
            (State::Answers, false) => State::Silent(asked),
        };
    }

    fn silent_for(&self) -> Option<Duration> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Answers => None,
            State::Unknown(since) | State::Silent(since) => Some(since.elapsed()),
        }
    }

    /// Whether it answered when it was last asked.
    pub(crate) fn answers(&self) -> bool {
        self.silent_for().is_none()
    }

    /// Whether it has been silent for so long that waiting for it is of no use.
    pub(crate) fn is_given_up(&self) -> bool {
        self.silent_for().is_some_and(|silent| silent >= GIVEN_UP)
    }

    /// Waits until waiting for it is of no use any more.
    pub(crate) async fn given_up(&self) {
        while !self.is_given_up() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Whether it has been silent for so long that this server may be the reason.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.silent_for().is_some_and(|silent| silent >= HOPELESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_short_silence_is_no_outage_and_an_answer_ends_it() {
        let health = StorageHealth::new();
        assert!(!health.answers() && !health.is_given_up());
        health.note(true, Instant::now());
        assert!(health.answers());
        health.note(false, Instant::now());
        assert!(!health.answers() && !health.is_given_up() && !health.is_hopeless());
        tokio::time::sleep(GIVEN_UP).await;
        health.note(false, Instant::now());
        assert!(health.is_given_up() && !health.is_hopeless());
        tokio::time::sleep(HOPELESS).await;
        assert!(health.is_hopeless());
        health.note(true, Instant::now());
        assert!(health.answers() && !health.is_given_up() && !health.is_hopeless());
    }
}
