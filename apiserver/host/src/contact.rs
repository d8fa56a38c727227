//! Last time at which data were those of the host, and their age since then.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Largest difference between the clocks of two machines that are synchronized.
const SKEW: Duration = Duration::from_mins(5);

/// Last contact. Its age is the longer one of what the wall clock and the monotonic clock say, so that no jump of a clock
/// makes a copy younger.
#[derive(Debug, Clone, Copy)]
pub struct Contact {
    at: Instant,
    wall: Timestamp,
    /// Age of the contact at that time: it may be of an earlier process.
    age: Duration,
}

impl Contact {
    /// Returns a contact that never was: without one, no copy is valid.
    pub fn never() -> Self {
        Self { age: Duration::MAX, ..Self::now() }
    }

    /// Returns a contact at this moment.
    pub fn now() -> Self {
        Self { at: Instant::now(), wall: Timestamp::now(), age: Duration::ZERO }
    }

    /// Returns the contact in the record of an earlier process. One that is in the future by more than [`SKEW`] proves
    /// nothing: a clock was set back.
    pub(crate) fn of(recorded: Timestamp) -> Self {
        let now = Self::now();
        let age = now.wall.duration_since(recorded);
        match Duration::try_from(age) {
            Ok(age) => Self { age, ..now },
            Err(_) if age.unsigned_abs() <= SKEW => now,
            Err(_) => Self::never(),
        }
    }

    /// Sets the contact from the record of an earlier process, unless this process had one.
    pub fn restore(&mut self, recorded: Timestamp) {
        if self.age == Duration::MAX {
            *self = Self::of(recorded);
        }
    }

    /// Returns the time since the contact; the longest time if there was none.
    pub fn age(&self) -> Duration {
        let wall = Duration::try_from(Timestamp::now().duration_since(self.wall)).unwrap_or_default();
        self.age.saturating_add(wall.max(self.at.elapsed()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_from_the_future_is_no_contact() {
        let recorded =
            |offset: i64| Contact::of(Timestamp::now() + jiff::SignedDuration::from_secs(offset)).age();
        assert!(recorded(60) < Duration::from_secs(10), "clocks of two machines differ");
        assert!(recorded(-60) >= Duration::from_secs(60));
        assert_eq!(recorded(3600), Duration::MAX);
    }
}
