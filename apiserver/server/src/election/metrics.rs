//! Metrics of the election.

use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Metrics of a candidate. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ElectionMetrics {
    leader: Gauge,
    epoch: Gauge,
}

impl ElectionMetrics {
    /// Creates the metrics `capstan_leader` and `capstan_leader_epoch` in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "capstan_leader",
            "1 while this server holds the controller lease, else 0",
            metrics.leader.clone(),
        );
        registry.register(
            "capstan_leader_epoch",
            "Revision of the write with which this server last acquired the controller lease",
            metrics.epoch.clone(),
        );
        metrics
    }

    /// Records the begin of a term.
    pub(super) fn begin(&self, lease: &Lease) {
        self.leader.set(1);
        self.epoch.set(lease.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default());
    }

    /// Records the end of a term.
    pub(super) fn end(&self) {
        self.leader.set(0);
    }
}
