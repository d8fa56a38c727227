//! Clock by which intervals and ages are measured.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clock by which intervals and ages are measured. By default that of the system; a test may have one that it advances.
#[derive(Clone)]
pub struct SteadyClock(Arc<dyn Fn() -> Instant + Send + Sync>);

impl SteadyClock {
    /// Creates a clock that shows what `now` returns. It must never go back.
    pub fn new(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the present time.
    pub fn now(&self) -> Instant {
        (self.0)()
    }

    /// Returns the time since a moment.
    pub fn since(&self, moment: Instant) -> Duration {
        self.now().saturating_duration_since(moment)
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::new(Instant::now)
    }
}

impl fmt::Debug for SteadyClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SteadyClock")
    }
}
