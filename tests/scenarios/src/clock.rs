//! The clock that operations go by.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// The real clocks, put forward by as much as a test says: a minute that has to pass is over at
/// once. The one on the wall may also be made to jump.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    passed: AtomicU64,
    jumped: AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { start: Instant::now(), passed: AtomicU64::new(0), jumped: AtomicI64::new(0) }
    }
}

impl Clock {
    /// Lets time pass.
    pub fn goes_on(&self, by: Duration) {
        self.passed.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    /// Puts the clock on the wall forward, or back, by so many seconds.
    pub fn jump(&self, seconds: i64) {
        self.jumped.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl controllers_operations::Clock for Clock {
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let passed = i64::try_from(self.passed.load(Ordering::SeqCst)).unwrap_or_default();
        let ahead = SignedDuration::from_secs(passed.saturating_add(self.jumped.load(Ordering::SeqCst)));
        now.checked_add(ahead).unwrap_or(now)
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed() + Duration::from_secs(self.passed.load(Ordering::SeqCst))
    }
}
