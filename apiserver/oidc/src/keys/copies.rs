//! Copies of the keys outside of this process, so that a restart does not lose them while the issuer is silent.

use std::time::Duration;

use apiserver_access::CLOCK;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// Age at which an unchanged copy is written again: its time says how old the keys are.
const REFRESH: Duration = Duration::from_secs(3600);

/// Largest difference between the clocks of two replicas that are synchronized.
const SKEW: Duration = Duration::from_mins(5);

/// Keys of an issuer, as it published them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCopy {
    /// Place that they come from. A copy from another place is not used.
    pub(crate) place: String,
    /// JSON Web Key Set.
    pub(crate) document: String,
    /// Time of the fetch in Unix seconds.
    pub(crate) at: u64,
}

/// Place of the copies. It keeps them from change by others: who writes a copy can pose as each user of the issuer.
#[async_trait]
pub trait KeyCopies: std::fmt::Debug + Send + Sync {
    /// Returns the copy of an issuer's keys. Failures are logged, and are as good as no copy.
    async fn read(&self, issuer: &str) -> Option<KeyCopy>;

    /// Writes the copy of an issuer's keys. Returns false after a failure, which is logged.
    async fn write(&self, issuer: &str, copy: &KeyCopy) -> bool;
}

impl KeyCopy {
    /// Creates a copy of keys that were fetched now.
    pub(super) fn new(place: &str, document: String) -> Self {
        Self { place: place.to_owned(), document, at: now() }
    }

    /// Returns the time since the fetch. `None` if the fetch is in the future by more than [`SKEW`]: a clock was set back, so
    /// the age is not known.
    pub(super) fn age(&self) -> Option<Duration> {
        self.age_at(now())
    }

    fn age_at(&self, now: u64) -> Option<Duration> {
        let ahead = Duration::from_secs(self.at.saturating_sub(now));
        (ahead <= SKEW).then(|| Duration::from_secs(now.saturating_sub(self.at)))
    }

    /// Returns true if this copy should replace an earlier one.
    pub(super) fn replaces(&self, earlier: Option<&Self>) -> bool {
        earlier.is_none_or(|earlier| {
            let is_same = (&earlier.place, &earlier.document) == (&self.place, &self.document);
            !is_same || Duration::from_secs(self.at.saturating_sub(earlier.at)) >= REFRESH
        })
    }
}

/// Returns the corrected time, in Unix seconds: a clock that was set back makes no copy younger.
fn now() -> u64 {
    CLOCK.time().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_copy_is_written_once_per_hour() {
        let copy = |document: &str, at| KeyCopy { place: "p".into(), document: document.into(), at };
        assert!(copy("a", 0).replaces(None) && copy("b", 1).replaces(Some(&copy("a", 0))));
        assert!(!copy("a", 3599).replaces(Some(&copy("a", 0))));
        assert!(copy("a", 3600).replaces(Some(&copy("a", 0))));
    }

    #[test]
    fn tm_25_the_age_of_a_copy_from_the_future_is_not_known() {
        let copy = KeyCopy { place: "p".into(), document: "a".into(), at: 10_000 };
        for (now, expected) in
            [(10_100, Some(100)), (10_000, Some(0)), (9_700, Some(0)), (9_699, None), (0, None)]
        {
            assert_eq!(copy.age_at(now).map(|age| age.as_secs()), expected, "{now}");
        }
    }
}
