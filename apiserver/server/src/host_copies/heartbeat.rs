//! Heartbeats of the copies: the last times at which they were those of the host cluster.
//!
//! A heartbeat is a time of the clock of a leader. If the clock of this machine was set back since then, a copy would seem
//! younger than it is. The times in the store show which time has passed at least.

use jiff::Timestamp;

use super::{HEARTBEAT, HostCopies};

impl HostCopies {
    /// Returns a heartbeat, by the clock of this machine. If that is behind, the heartbeat is earlier by as much.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) async fn heartbeat(&self, name: &str) -> anyhow::Result<Option<Timestamp>> {
        let seconds: Option<i64> = self.values.read(HEARTBEAT, name).await?;
        let at = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
        let behind = self.time.behind().await?;
        Ok(at.and_then(|at| at.checked_sub(behind).ok()))
    }
}
