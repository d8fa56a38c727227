//! Time by which the ends of credentials are judged.
//!
//! If the clock of this machine was set back, credentials that have ended seem valid. If the server knows a later time that
//! has passed, it adds the difference.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Correction of the clock of this process.
pub static CLOCK: ClockCorrection = ClockCorrection::none();

/// Correction of a clock: the time by which it is behind.
#[derive(Debug)]
pub struct ClockCorrection(AtomicU64);

impl ClockCorrection {
    /// Creates a correction of a clock that is right.
    pub const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Sets the time by which the clock is behind. Unit: seconds.
    pub fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::Relaxed);
    }

    /// Returns the time by which the clock is behind. Unit: seconds. Zero if it is right, as far as is known.
    pub fn seconds(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the corrected time of now, since the Unix epoch. If the clock is before that, the longest time, so that every
    /// credential has ended.
    pub fn time(&self) -> Duration {
        self.of(SystemTime::now())
    }

    fn of(&self, now: SystemTime) -> Duration {
        let behind = Duration::from_secs(self.seconds());
        now.duration_since(UNIX_EPOCH).map_or(Duration::MAX, |since| since.saturating_add(behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tm_25_a_corrected_clock_is_later_by_the_correction() {
        let clock = ClockCorrection::none();
        let now = UNIX_EPOCH + Duration::from_secs(100);
        assert_eq!(clock.of(now), Duration::from_secs(100));
        clock.set(3600);
        assert_eq!((clock.of(now), clock.seconds()), (Duration::from_secs(3700), 3600));
        assert_eq!(clock.of(UNIX_EPOCH - Duration::from_secs(1)), Duration::MAX);
    }
}
