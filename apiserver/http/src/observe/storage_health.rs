//! Storage health: probes the store every second, so that no request waits to find out its state.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use apiserver_machinery::store::ObjectStore;
use tokio::time::Instant;

/// Interval of probes. A probe is the cheapest request, so it is no load.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Time limit of a probe: upstream's number.
const PATIENCE: Duration = Duration::from_secs(2);

/// Silence after which requests that need storage are refused at once. An etcd elects a leader in less, and a request
/// is better off waiting for that.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// Interval at which a waiting request checks the health: rare enough to cost nothing.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// Silence after which this server may be the cause, so that a restart may help.
const HOPELESS: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Not probed since then.
    Unknown(Instant),
    Answers,
    /// Without an answer since then.
    Silent(Instant),
}

/// Health of storage.
#[derive(Debug)]
pub(crate) struct StorageHealth(Mutex<State>);

impl StorageHealth {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(State::Unknown(Instant::now())))
    }

    /// Probes storage as long as the objects are in use.
    pub(crate) async fn probe_all(self: Arc<Self>, objects: Weak<ObjectStore>) {
        while let Some(objects) = objects.upgrade() {
            let probed = Instant::now();
            let answer = tokio::time::timeout(PATIENCE, objects.ping()).await;
            self.note(matches!(answer, Ok(Ok(_))), probed);
            drop(objects);
            tokio::time::sleep(PROBE_EVERY).await;
        }
    }

    /// Notes the result of the probe of this time.
    fn note(&self, answers: bool, probed: Instant) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match (*state, answers) {
            (_, true) => State::Answers,
            (State::Unknown(since) | State::Silent(since), false) => State::Silent(since),
            (State::Answers, false) => State::Silent(probed),
        };
    }

    fn silent_for(&self) -> Option<Duration> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Answers => None,
            State::Unknown(since) | State::Silent(since) => Some(since.elapsed()),
        }
    }

    /// Returns true if the last probe was answered.
    pub(crate) fn answers(&self) -> bool {
        self.silent_for().is_none()
    }

    /// Returns true if storage has been silent for so long that waiting for it is useless.
    pub(crate) fn is_given_up(&self) -> bool {
        self.silent_for().is_some_and(|silent| silent >= GIVEN_UP)
    }

    /// Waits until waiting for storage is useless.
    pub(crate) async fn given_up(&self) {
        while !self.is_given_up() {
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// Returns true if storage has been silent for so long that this server may be the cause.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.silent_for().is_some_and(|silent| silent >= HOPELESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_short_silence_is_no_outage_and_an_answer_ends_an_outage() {
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
