//! Last time at which data were those of the host, and their age since then.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Last contact. Its age is the longer one of what the wall clock and the monotonic clock say, so that no jump of a clock
/// makes a copy younger.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contact {
    at: Instant,
    wall: Timestamp,
    /// Age of the contact at that time: it may be of an earlier process.
    age: Duration,
}

impl Contact {
    /// Returns a contact that never was: without one, no copy is valid.
    pub(crate) fn never() -> Self {
        Self { age: Duration::MAX, ..Self::now() }
    }

    pub(crate) fn now() -> Self {
        Self { at: Instant::now(), wall: Timestamp::now(), age: Duration::ZERO }
    }

    /// Returns the contact in the record of an earlier process.
    pub(crate) fn of(recorded: Timestamp) -> Self {
        let now = Self::now();
        Self { age: Duration::try_from(now.wall.duration_since(recorded)).unwrap_or_default(), ..now }
    }

    /// Sets the contact from the record of an earlier process, unless this process had one.
    pub(crate) fn restore(&mut self, recorded: Timestamp) {
        if self.age == Duration::MAX {
            *self = Self::of(recorded);
        }
    }

    /// Returns the time since the contact; the longest time if there was none.
    pub(crate) fn age(&self) -> Duration {
        let wall = Duration::try_from(Timestamp::now().duration_since(self.wall)).unwrap_or_default();
        self.age.saturating_add(wall.max(self.at.elapsed()))
    }
}
