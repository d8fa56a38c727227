//! Metrics of the host cluster.

use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of the connection to the host. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct HostMetrics {
    credential_end: Gauge,
}

impl HostMetrics {
    /// Creates the metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "capstan_host_credential_end_timestamp_seconds",
            "End of the client certificate of Capstan in the host cluster, in Unix time; 0 without one",
            metrics.credential_end.clone(),
        );
        metrics
    }

    pub(crate) fn set_credential_end(&self, end: Option<Timestamp>) {
        self.credential_end.set(end.map_or(0, Timestamp::as_second));
    }
}
