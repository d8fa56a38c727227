//! Durations of an election.

use std::time::Duration;

/// Durations of an election.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Time that the other candidates wait after the holder's last renewal.
    pub(super) lease: Duration,
    /// Interval between renewals.
    pub(super) renew: Duration,
    /// Time after its last successful renewal at which the holder stops.
    pub(super) deadline: Duration,
    /// Time that controllers may take to stop. Together with `deadline` it is less than `lease`, so no controller of
    /// this holder still acts when the next holder begins.
    pub(super) grace: Duration,
    /// Longest time for which calls to clouds may end at an orderly shutdown. The Lease is renewed until then.
    pub(super) drain: Duration,
    /// Interval at which the other candidates read the Lease, and pause before a retry.
    pub(super) retry: Duration,
}

impl Default for Timing {
    /// Returns durations with which another replica begins at most 8.5 seconds after the leader was killed. A new
    /// leader of etcd is elected within three seconds, so a deadline of five seconds outlasts that.
    fn default() -> Self {
        let millis = Duration::from_millis;
        Self {
            lease: millis(8000),
            renew: millis(2000),
            deadline: millis(5000),
            grace: millis(1500),
            drain: millis(20_000),
            retry: millis(500),
        }
    }
}
