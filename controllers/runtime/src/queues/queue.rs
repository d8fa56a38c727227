//! The queue of one controller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::state::{Load, State};

/// One controller's queue, as metrics see it: it keeps account, and orders nothing.
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

    /// Something happened to an object.
    pub fn add(&self, key: &str) {
        if self.state().add(key, Instant::now()) {
            self.added.inc();
        }
    }

    /// An object is to be looked at again after `pause`.
    pub fn add_after(&self, key: &str, pause: Duration) {
        let now = Instant::now();
        // A pause too long for the clock is as good as none.
        if let Some(due) = now.checked_add(pause) {
            self.state().add_at(key, due);
        }
        self.retried.inc();
    }

    /// An object's turn has come; it is worked on until what is returned is dropped.
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

/// An object is being worked on.
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
