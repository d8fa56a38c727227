//! When to try again what failed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// First pause: a blip is over by then.
const FIRST: Duration = Duration::from_secs(1);

/// Longest pause: a quota that was raised is noticed within a minute, and a cloud that is down is
/// asked once a minute and object.
const LONGEST: Duration = Duration::from_mins(1);

/// Failures in a row, by object. Lost with the process, which then begins with short pauses.
#[derive(Debug, Default)]
pub(crate) struct Backoff(Mutex<HashMap<String, u32>>);

impl Backoff {
    /// The pause after one more failure: doubling, and at least what the cloud asked for.
    pub(crate) fn failed(&self, uid: &str, asked: Option<Duration>) -> Duration {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(uid.to_owned()).or_insert(0);
        let pause = FIRST.saturating_mul(1_u32.checked_shl(*count).unwrap_or(u32::MAX)).min(LONGEST);
        *count = count.saturating_add(1).min(16);
        pause.max(asked.unwrap_or_default())
    }

    /// Forgets the failures of an object that succeeded or is gone.
    pub(crate) fn succeeded(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_a_minute_and_heed_the_cloud() {
        let backoff = Backoff::default();
        let seconds: Vec<u64> = (0..8).map(|_| backoff.failed("a", None).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(backoff.failed("b", Some(Duration::from_secs(7))).as_secs(), 7);
        backoff.succeeded("a");
        assert_eq!(backoff.failed("a", None).as_secs(), 1);
    }
}
