//! Test clock of the operations: the real clocks plus an advance that a test sets.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

/// The real clocks plus an advance that a test sets, so that no test waits for minutes. The wall clock may also jump.
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
    /// Advances both clocks.
    pub fn advance(&self, by: Duration) {
        self.passed.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    /// Moves the wall clock forward, or back. Unit: seconds.
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
