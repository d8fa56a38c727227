//! Intervals and limits of the connections.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Intervals and limits of the connections to workload clusters.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    /// Interval of the probes of a connection.
    pub probe_interval: Duration,
    /// Longest duration of one probe.
    pub probe_timeout: Duration,
    /// Failed probes in a row after which the connection is closed.
    pub probe_failures: u32,
    /// Interval of the first attempts to connect: the control plane is still booting.
    pub first_retry: Duration,
    /// Duration of the first attempts, from the call of `follow`.
    pub first_retries_for: Duration,
    /// Interval of later attempts to connect.
    pub retry: Duration,
    /// Longest duration until all Nodes are known.
    pub first_sync: Duration,
    /// Time without a failure after which a watch works. After twice this time without an event the Nodes are listed
    /// anew. It must be longer than 30 s, the longest pause between two attempts to watch.
    pub watch_silence: Duration,
    /// Ages of the last successful probe at which a change is announced, in ascending order.
    pub ages: [Duration; 2],
    /// Attempts to connect that are made at once. An attempt counts as long as `patience` says.
    pub dials: usize,
    /// Time after which an attempt lets the next one begin: most of the rest is a wait for a server that does not answer.
    pub patience: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            probe_interval: Duration::from_secs(10),
            probe_timeout: Duration::from_secs(5),
            probe_failures: 5,
            first_retry: Duration::from_secs(1),
            first_retries_for: Duration::from_mins(2),
            retry: Duration::from_secs(30),
            first_sync: Duration::from_mins(5),
            watch_silence: Duration::from_secs(45),
            ages: [Duration::from_secs(50), Duration::from_mins(5)],
            dials: 64,
            patience: Duration::from_secs(1),
        }
    }
}

impl Timing {
    /// Returns a timing where everything but the limits of single calls is `factor` times as fast.
    pub fn faster(factor: u32) -> Self {
        let default = Self::default();
        let factor = factor.max(1);
        Self {
            probe_interval: default.probe_interval / factor,
            first_retry: default.first_retry / factor,
            retry: default.retry / factor,
            ages: default.ages.map(|age| age / factor),
            ..default
        }
    }
}

/// Returns a duration between nine and eleven tenths of `interval`, so that clusters are not probed in step.
pub(crate) fn jittered(interval: Duration) -> Duration {
    // A new state has new keys, so that the hash of anything is random.
    let random = u8::try_from(RandomState::new().hash_one(()) % 201).unwrap_or(100);
    interval.mul_f64(0.9 + f64::from(random) / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_tenth() {
        for _ in 0..1000 {
            let interval = jittered(Duration::from_secs(10));
            assert!((9.0..=11.1).contains(&interval.as_secs_f64()), "{interval:?}");
        }
    }
}
