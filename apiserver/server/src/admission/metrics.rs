//! Metrics of the admission configurations.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    source: &'static str,
}

/// Metrics of the admission configurations. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdmissionMetrics {
    uncompiled: Family<Labels, Gauge>,
}

impl AdmissionMetrics {
    /// Creates the metric `capstan_admission_uncompiled_expressions` in a registry.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "capstan_admission_uncompiled_expressions",
            "Expressions of webhooks and admission policies that cannot be compiled, by the source of their configurations",
            metrics.uncompiled.clone(),
        );
        metrics
    }

    /// Sets the numbers of expressions by source.
    pub(super) fn set_uncompiled(&self, counts: [(&'static str, usize); 3]) {
        for (source, count) in counts {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.uncompiled.get_or_create(&Labels { source }).set(count);
        }
    }
}
