//! Metrics of the host cluster.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::health::HostState;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LossLabels {
    reason: &'static str,
}

/// Reason why an Event is not copied.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Loss {
    /// The queue was full.
    Full,
    /// The host will never take it.
    Refused,
}

impl Loss {
    const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Refused => "refused",
        }
    }
}

/// Metrics of the connection to the host. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct HostMetrics {
    credential_end: Gauge,
    state: Family<StateLabels, Gauge>,
    dropped_events: Family<LossLabels, Counter>,
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
        registry.register(
            "capstan_host_state",
            "1 for the state that the host cluster is in, and 0 for each other one",
            metrics.state.clone(),
        );
        for loss in [Loss::Full, Loss::Refused] {
            metrics.count_dropped_events(loss, 0);
        }
        registry.register(
            "capstan_host_events_dropped",
            "Events that were not copied to the host cluster, because the queue was full or the host refused them",
            metrics.dropped_events.clone(),
        );
        metrics
    }

    pub(crate) fn count_dropped_events(&self, loss: Loss, count: u64) {
        self.dropped_events.get_or_create(&LossLabels { reason: loss.name() }).inc_by(count);
    }

    #[cfg(test)]
    pub(crate) fn dropped_events(&self, loss: Loss) -> u64 {
        self.dropped_events.get_or_create(&LossLabels { reason: loss.name() }).get()
    }

    pub(crate) fn set_state(&self, state: HostState) {
        for each in HostState::ALL {
            let labels = StateLabels { state: each.name() };
            self.state.get_or_create(&labels).set(i64::from(each == state));
        }
    }

    pub(crate) fn set_credential_end(&self, end: Option<Timestamp>) {
        self.credential_end.set(end.map_or(0, Timestamp::as_second));
    }
}
