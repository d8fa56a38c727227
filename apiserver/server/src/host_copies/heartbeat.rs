//! Heartbeats of the copies: the last times at which they were those of the host cluster.
//!
//! A heartbeat is a time of the clock of a leader. If the clock of this machine was set back since then, a copy would seem
//! younger than it is. The records of the replicas show which time has passed at least.

use jiff::{SignedDuration, Timestamp};

use super::{HEARTBEAT, HostCopies};
use crate::replicas;

/// Largest difference between the clocks of two machines that are synchronized.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

impl HostCopies {
    /// Returns a heartbeat, by the clock of this machine. If that is behind, the heartbeat is earlier by as much.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn heartbeat(&self, name: &str) -> anyhow::Result<Option<Timestamp>> {
        let seconds: Option<i64> = self.values.read(HEARTBEAT, name).await?;
        let at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let behind = self.behind().await?;
        Ok(at.and_then(|at| at.checked_sub(behind).ok()))
    }

    /// Returns the time by which the clock of this machine is behind that of a replica, at its last renewal or now.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn behind(&self) -> anyhow::Result<SignedDuration> {
        let replicas = replicas::all(self.values.store.as_ref()).await?;
        Ok(behind(Timestamp::now(), replicas.iter().map(|replica| replica.renewed).max()))
    }
}

/// Returns the time by which a clock is behind a time that has passed. Zero, if synchronized clocks may differ by it. Pure.
fn behind(now: Timestamp, passed: Option<Timestamp>) -> SignedDuration {
    let difference = passed.map_or(SignedDuration::ZERO, |passed| passed.duration_since(now));
    if difference > SKEW { difference } else { SignedDuration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tm_25_a_clock_is_behind_a_time_that_has_passed_and_not_behind_its_skew() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        for (passed, expected) in [
            (None, 0),
            (Some("2026-11-21T11:00:00Z"), 0),
            (Some("2026-11-21T12:05:00Z"), 0),
            (Some("2026-11-21T12:05:01Z"), 301),
            (Some("2026-11-21T13:00:00Z"), 3600),
        ] {
            let time = passed.map(|text: &str| text.parse().unwrap());
            assert_eq!(behind(now, time).as_secs(), expected, "{passed:?}");
        }
    }
}
