//! Pace of the passes: a least distance between two passes over one health check, because Nodes change often.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time of the last pass over each health check, by uid.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<HashMap<String, Instant>>);

impl Pace {
    /// Returns how long the next pass has to wait; `None` if it can begin now.
    pub(super) fn remaining(&self, uid: &str, distance: Duration) -> Option<Duration> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(uid).copied()?;
        distance.checked_sub(last.elapsed()).filter(|rest| !rest.is_zero())
    }

    /// Notes a pass.
    pub(super) fn passed(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned(), Instant::now());
    }

    /// Forgets a health check that does not exist any more.
    pub(super) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_pass_waits_for_the_distance() {
        let pace = Pace::default();
        let hour = Duration::from_hours(1);
        assert_eq!(pace.remaining("u", hour), None);
        pace.passed("u");
        assert!(pace.remaining("u", hour).is_some());
        assert_eq!(pace.remaining("u", Duration::ZERO), None);
        assert_eq!(pace.remaining("other", hour), None);
        pace.forget("u");
        assert_eq!(pace.remaining("u", hour), None);
    }
}
