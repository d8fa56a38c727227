//! Latencies of a measurement, and their summary.

use std::time::Duration;

use serde_json::{Value, json};

/// Durations of the measured requests.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    pub(crate) fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the count, and percentiles in milliseconds.
    pub(crate) fn summary(&mut self) -> Value {
        self.0.sort_unstable();
        json!({"count": self.0.len(), "p50": self.quantile(50), "p99": self.quantile(99), "max": self.quantile(100)})
    }

    /// Returns the latency that this percentage of requests does not exceed, in milliseconds.
    fn quantile(&self, percent: usize) -> Option<f64> {
        let rank = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(rank).map(|latency| latency.as_secs_f64() * 1e3)
    }
}
