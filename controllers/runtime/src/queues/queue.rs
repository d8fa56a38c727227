//! Queue of one controller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::state::{Load, State};

/// Account of one controller's queue, for metrics. It does not order the objects.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    added: Counter,
    retried: Counter,
    waited: Histogram,
    worked: Histogram,
}

impl Queue {
    pub(super) fn new(added: Counter, retried: Counter, waited: Histogram, worked: Histogram) -> Self {
        Self { state: Mutex::default(), added, retried, waited, worked }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an object because of a change.
    pub fn add(&self, key: &str) {
        if self.state().add(key, Instant::now()) {
            self.added.inc();
        }
    }

    /// Adds an object that is due after `interval`.
    pub fn add_after(&self, key: &str, interval: Duration) {
        let now = Instant::now();
        // An interval too long for the clock never ends.
        if let Some(due) = now.checked_add(interval) {
            self.state().add_at(key, due);
        }
        self.retried.inc();
    }

    /// Takes an object out of the queue. It is worked on until the result is dropped.
    pub fn begin(self: &Arc<Self>, key: &str) -> Work {
        let (waited, is_new) = self.state().begin(key, Instant::now());
        if is_new {
            self.added.inc();
        }
        self.waited.observe(waited.as_secs_f64());
        Work { queue: Arc::clone(self), key: key.to_owned() }
    }

    pub(super) fn load(&self, now: Instant) -> Load {
        self.state().load(now)
    }
}

/// Guard of an object that is being worked on.
#[derive(Debug)]
#[must_use = "the work ends when this is dropped"]
pub struct Work {
    queue: Arc<Queue>,
    key: String,
}

impl Drop for Work {
    fn drop(&mut self) {
        let took = self.queue.state().end(&self.key, Instant::now());
        self.queue.worked.observe(took.as_secs_f64());
    }
}
