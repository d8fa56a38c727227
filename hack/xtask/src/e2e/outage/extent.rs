//! Sizes of the scenario, and the time of each event after the begin of the rollout.

use std::time::Duration;

use anyhow::Context;

/// Environment variable that selects the long form. Its value is the time at which the host returns, in seconds; 600 is usual.
const SECONDS: &str = "CAPSTAN_OUTAGE_SECONDS";

/// Sizes and times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Clusters beside the one whose workers are rolled.
    pub(super) others: usize,
    /// Workers that are rolled.
    pub(super) workers: usize,
    /// Pause of each client between two calls. Unit: milliseconds.
    pub(super) pace: u64,
    pub(super) host_dies: Duration,
    pub(super) etcd_dies: Duration,
    pub(super) leader_dies: Duration,
    pub(super) files_change: Duration,
    pub(super) replica_restarts: Duration,
    pub(super) leader_freezes: Duration,
    /// Time for which a leader is frozen. It is longer than all terms and time limits of calls to the host.
    pub(super) frozen: Duration,
    pub(super) host_returns: Duration,
    /// Longest time from the readiness of the host's kube-apiserver until it serves all of Capstan's APIs. It probes each
    /// APIService every 30 s.
    pub(super) available: Duration,
    /// Longest time from that readiness until the host has all copies of the outage.
    pub(super) copied: Duration,
}

/// Form of CI: each event has an effect of its own before the next one, and the host returns after the last one. Other parts
/// run on the same processors.
const SHORT: Extent = Extent {
    others: 1,
    workers: 4,
    pace: 400,
    host_dies: Duration::from_secs(5),
    etcd_dies: Duration::from_secs(6),
    leader_dies: Duration::from_secs(17),
    files_change: Duration::from_secs(28),
    replica_restarts: Duration::from_secs(38),
    leader_freezes: Duration::from_secs(48),
    frozen: Duration::from_secs(30),
    host_returns: Duration::ZERO,
    available: Duration::from_secs(75),
    copied: Duration::from_secs(150),
};

/// Form for the run by hand.
const LONG: Extent = Extent {
    others: 19,
    workers: 30,
    pace: 200,
    host_dies: Duration::from_secs(20),
    etcd_dies: Duration::from_secs(25),
    leader_dies: Duration::from_secs(60),
    files_change: Duration::from_secs(90),
    replica_restarts: Duration::from_secs(120),
    leader_freezes: Duration::from_secs(150),
    frozen: Duration::from_secs(60),
    host_returns: Duration::from_secs(600),
    available: Duration::from_secs(35),
    copied: Duration::from_secs(60),
};

impl Extent {
    /// Returns the extent that the environment selects.
    ///
    /// # Errors
    /// A variable that is no number.
    pub(super) fn of_environment() -> anyhow::Result<Self> {
        std::env::var_os(SECONDS).map_or(Ok(SHORT), |text| Self::lasting(&text.to_string_lossy()))
    }

    fn lasting(text: &str) -> anyhow::Result<Self> {
        let seconds = text.parse().with_context(|| format!("{SECONDS}: {text:?} is no number of seconds"))?;
        Ok(Self { host_returns: Duration::from_secs(seconds), ..LONG })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_events_come_in_one_order_and_the_long_form_is_selected_by_seconds() {
        let long = Extent::lasting("900").unwrap();
        assert_eq!((long.host_returns, long.workers), (Duration::from_secs(900), LONG.workers));
        for it in [SHORT, LONG] {
            let times = [
                it.host_dies,
                it.etcd_dies,
                it.leader_dies,
                it.files_change,
                it.replica_restarts,
                it.leader_freezes,
            ];
            assert!(times.is_sorted(), "{it:?}");
        }
        let error = Extent::lasting("10m").unwrap_err().to_string();
        assert!(error.contains(SECONDS), "{error}");
    }
}
