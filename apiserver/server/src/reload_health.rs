//! Health of files that the server reads again while it runs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use apiserver_http::Check;

/// Time after which files that cannot be used make the server not ready. A volume that is mounted again, or a
/// certificate that is written before its key, takes less.
const PATIENCE: Duration = Duration::from_secs(5 * 60);

/// Interval at which the same error is logged again.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Outcome of the newest reload. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReloadHealth(Arc<Mutex<Option<Failure>>>);

#[derive(Debug)]
struct Failure {
    since: Instant,
    logged: Instant,
    error: String,
}

impl ReloadHealth {
    /// Records that the files could be used.
    pub(crate) fn succeed(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Records that the files could not be used. Returns true if the error should be logged: it is new, or was last
    /// logged a minute ago.
    pub(crate) fn fail(&self, error: &str, now: Instant) -> bool {
        let mut failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match failure.as_mut() {
            Some(known) if known.error == error && now.duration_since(known.logged) < LOG_INTERVAL => false,
            Some(known) => {
                error.clone_into(&mut known.error);
                known.logged = now;
                true
            }
            None => {
                *failure = Some(Failure { since: now, logged: now, error: error.to_owned() });
                true
            }
        }
    }

    /// Returns false if the files have been unusable for five minutes.
    fn is_well(&self, now: Instant) -> bool {
        let failure = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().is_none_or(|failure| now.duration_since(failure.since) < PATIENCE)
    }

    /// Returns the readiness check of this name.
    pub(crate) fn check(&self, name: &'static str) -> Check {
        let health = self.clone();
        Check { name, is_well: Arc::new(move || health.is_well(Instant::now())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_stay_unusable_are_logged_each_minute_and_end_readiness_after_five() {
        let (health, start) = (ReloadHealth::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        assert!(health.fail("no ca.key", start));
        assert!(!health.fail("no ca.key", after(30)));
        assert!(health.fail("no ca.crt", after(31)), "another error");
        assert!(health.fail("no ca.crt", after(91)));
        assert!(health.is_well(after(299)) && !health.is_well(after(300)));
        health.succeed();
        assert!(health.is_well(after(300)));
        assert!(health.fail("no ca.crt", after(301)) && health.is_well(after(301)));
    }
}
