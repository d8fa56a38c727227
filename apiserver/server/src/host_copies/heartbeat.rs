//! Heartbeats of the copies: the last times at which they were those of the host cluster.
//!
//! A heartbeat is a time of the clock of a leader. If the clock of this machine was set back since then, a copy would seem
//! younger than it is. The records of the replicas and that of the leader show which time has passed at least.

use std::time::Duration;

use apiserver_host::HostHealth;
use jiff::{SignedDuration, Timestamp};
use storage_contract::Outage;

use super::{HEARTBEAT, HostCopies};
use crate::replicas;

/// Name of the leader's record of the time, beside the heartbeats. A replica that ends in order removes its own record.
const CLOCK: &str = "clock";

/// Interval of that record.
const CLOCK_INTERVAL: Duration = Duration::from_mins(1);

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

    /// Returns the time by which the clock of this machine is behind the last time in the records of the replicas and of the
    /// leader.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn behind(&self) -> anyhow::Result<SignedDuration> {
        let replicas = replicas::all(self.values.store.as_ref()).await?;
        let recorded = self.recorded_time().await?.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let passed = replicas.iter().map(|replica| replica.renewed).chain(recorded).max();
        Ok(behind(Timestamp::now(), passed))
    }

    /// Records the time once a minute. Never returns.
    pub(super) async fn keep_time(&self, health: &HostHealth) {
        let mut outage = Outage::default();
        loop {
            let is_up = health.age().is_zero();
            if let Err(error) = self.record_time(Timestamp::now(), is_up).await
                && outage.should_log()
            {
                tracing::warn!("the time cannot be recorded in the store; retrying: {error:#}");
            }
            tokio::time::sleep(CLOCK_INTERVAL).await;
        }
    }

    /// Records a time. An earlier one than before is recorded only while the host is up, when it stamps the copies anew. So
    /// several restarts with a wrong clock make no copy younger, and a clock that was ahead makes none older for ever.
    pub(super) async fn record_time(&self, now: Timestamp, is_up: bool) -> anyhow::Result<()> {
        let (now, before) = (now.as_second(), self.recorded_time().await?);
        if is_up || before.is_none_or(|before| before < now) {
            self.values.write(HEARTBEAT, CLOCK, &now).await?;
        }
        Ok(())
    }

    /// Returns the recorded time, in Unix seconds.
    async fn recorded_time(&self) -> anyhow::Result<Option<i64>> {
        self.values.read(HEARTBEAT, CLOCK).await
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
