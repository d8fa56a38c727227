//! Outage log: rate limit for the messages about a failure that lasts.

use std::time::{Duration, Instant};

/// Interval of the log messages. A reader who follows the log needs one message; a reader who opens it later should
/// find one, too.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Failure that repeats while a store does not answer. It is logged once per minute.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outage {
    last_logged: Option<Instant>,
}

impl Outage {
    /// Records one more failure. Returns true if it is to be logged, and counts it as logged.
    pub fn should_log(&mut self) -> bool {
        self.should_log_at(Instant::now())
    }

    fn should_log_at(&mut self, now: Instant) -> bool {
        let is_due = self.last_logged.is_none_or(|last| now.saturating_duration_since(last) >= LOG_INTERVAL);
        if is_due {
            self.last_logged = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_logged_at_first_and_then_once_a_minute() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let logged =
            [0, 1, 59, 60, 61, 119, 120].map(|at| outage.should_log_at(start + Duration::from_secs(at)));
        assert_eq!(logged, [true, false, false, true, false, false, true]);
    }
}
