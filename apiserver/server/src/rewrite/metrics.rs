//! Metrics of the rewrite of all values.

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::Job;

/// Metrics of the newest rewrite, as the leader sees it. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct RewriteMetrics {
    running: Gauge,
    read: Gauge,
    rewritten: Gauge,
    failed: Gauge,
}

impl RewriteMetrics {
    /// Creates the metrics in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let it = Self::default();
        for (name, help, gauge) in [
            ("capstan_rewrite_running", "1 while this server rewrites the values of the store", &it.running),
            ("capstan_rewrite_values_read", "Values that the newest rewrite has read", &it.read),
            ("capstan_rewrite_values_written", "Values that the newest rewrite has written", &it.rewritten),
            ("capstan_rewrite_values_failed", "Values that the newest rewrite cannot rewrite", &it.failed),
        ] {
            registry.register(name, help, gauge.clone());
        }
        it
    }

    pub(super) fn show(&self, job: &Job) {
        let (total, number) = (job.total(), |count| i64::try_from(count).unwrap_or(i64::MAX));
        self.running.set(i64::from(job.is_running()));
        self.read.set(number(total.read));
        self.rewritten.set(number(total.rewritten));
        self.failed.set(number(total.failed));
    }

    /// Shows that another server may be the leader.
    pub(super) fn stop(&self) {
        self.running.set(0);
    }
}
