//! Times of the first attempts of a kind, from which their time limit counts.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// Times by the uid of the object. Lost with the process: the next one grants the time once more.
#[derive(Debug, Default)]
pub(crate) struct FirstAttempts(Mutex<HashMap<String, Timestamp>>);

impl FirstAttempts {
    /// Returns the time of the first attempt, which is now if there was none.
    pub(crate) fn first(&self, uid: &str, now: Timestamp) -> Timestamp {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(uid.to_owned()).or_insert(now)
    }

    /// Forgets an object. Its next attempt is the first one again.
    pub(crate) fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_remembered_until_the_object_is_forgotten() {
        let (attempts, later) = (FirstAttempts::default(), Timestamp::from_second(60).unwrap());
        assert_eq!(attempts.first("u", Timestamp::UNIX_EPOCH), Timestamp::UNIX_EPOCH);
        assert_eq!(attempts.first("u", later), Timestamp::UNIX_EPOCH);
        attempts.forget("u");
        assert_eq!(attempts.first("u", later), later);
    }
}
