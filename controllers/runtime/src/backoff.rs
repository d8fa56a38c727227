//! Exponential backoff per object.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// First interval: longer than a brief failure.
const FIRST: Duration = Duration::from_secs(1);

/// Longest interval: an outage that ends, or a quota that is raised, is noticed within a minute, and
/// a cloud that is down gets one request per minute and object.
const LONGEST: Duration = Duration::from_mins(1);

/// Part of the longest interval by which those of different objects differ, so that the Machines that wait for a quota do
/// not all ask at the same moment. Unit: seconds.
const SPREAD: u64 = 10;

/// Failures in a row of every object, by uid. Lost with the process, which then begins with short
/// intervals.
#[derive(Debug, Default)]
pub struct Backoff(Mutex<HashMap<String, Failures>>);

/// Failures in a row of one object.
#[derive(Debug, Default)]
struct Failures {
    count: u32,
    /// End of the present interval, by this process's own clock, which never jumps.
    until: Option<Instant>,
}

impl Backoff {
    /// Counts a failure. Returns the interval before the next attempt: twice the one before, and at
    /// least `at_least`.
    pub fn failed(&self, uid: &str, at_least: Duration) -> Duration {
        let mut objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failures = objects.entry(uid.to_owned()).or_default();
        let factor = 1_u32.checked_shl(failures.count).unwrap_or(u32::MAX);
        let longest = LONGEST.saturating_sub(spread(uid));
        let interval = FIRST.saturating_mul(factor).min(longest).max(at_least);
        failures.count = failures.count.saturating_add(1).min(16);
        failures.until = Instant::now().checked_add(interval);
        interval
    }

    /// Returns the rest of the interval of an object, or `None` after its end.
    pub fn remaining(&self, uid: &str) -> Option<Duration> {
        let objects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let until = objects.get(uid)?.until?;
        until.checked_duration_since(Instant::now()).filter(|remaining| !remaining.is_zero())
    }

    /// Forgets the failures of an object that succeeded or does not exist any more.
    pub fn reset(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// Returns by how much the longest interval of an object is shorter than that of others: 0 to 9 seconds.
fn spread(uid: &str) -> Duration {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    Duration::from_secs(hasher.finish() % SPREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_a_minute_and_respects_retry_after() {
        let backoff = Backoff::default();
        let seconds: Vec<u64> = (0..8).map(|_| backoff.failed("a", Duration::ZERO).as_secs()).collect();
        let longest = 60 - spread("a").as_secs();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, longest, longest]);
        assert_eq!(backoff.failed("b", Duration::from_secs(7)).as_secs(), 7);
        assert!(backoff.remaining("a").is_some());
        backoff.reset("a");
        assert_eq!(backoff.remaining("a"), None);
        assert_eq!(backoff.failed("a", Duration::ZERO).as_secs(), 1);
    }

    #[test]
    fn r15_3_the_longest_intervals_of_many_objects_are_spread_over_ten_seconds() {
        let spreads: std::collections::BTreeSet<u64> =
            (0..100).map(|index| spread(&format!("uid-{index}")).as_secs()).collect();
        assert_eq!(spreads, (0..10).collect());
    }
}
