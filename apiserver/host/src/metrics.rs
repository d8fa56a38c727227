//! Metrics of the host cluster.

use std::time::Duration;

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::health::{Backlog, HostState};
use crate::mirror::Class;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LossLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MirrorLabels {
    what: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClassLabels {
    class: &'static str,
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

/// Kind of the objects that wait to be written to the host.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outbox {
    /// Copies of Events.
    Events,
    /// Copies of Secrets of clusters.
    Secrets,
    /// Provisional namespaces.
    Namespaces,
}

impl Outbox {
    /// Name in metrics and in HostStatus.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Secrets => "secrets",
            Self::Namespaces => "namespaces",
        }
    }
}

/// Metrics of the connection to the host. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct HostMetrics {
    credential_end: Gauge,
    state: Family<StateLabels, Gauge>,
    dropped_events: Family<LossLabels, Counter>,
    mirror_age: Family<MirrorLabels, Gauge>,
    disagreements: Family<KindLabels, Counter>,
    stale: Family<ClassLabels, Counter>,
    outbox_objects: Family<KindLabels, Gauge>,
    outbox_oldest: Family<KindLabels, Gauge>,
    outbox_refused: Family<KindLabels, Gauge>,
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
        metrics.register_mirror(registry);
        metrics.register_outbox(registry);
        metrics
    }

    fn register_outbox(&self, registry: &mut Registry) {
        for outbox in [Outbox::Events, Outbox::Secrets, Outbox::Namespaces] {
            self.set_outbox(outbox, Backlog::default());
        }
        registry.register(
            "capstan_host_outbox_objects",
            "Objects that wait to be written to the host cluster, by kind; 0 on a server that does not run the controllers",
            self.outbox_objects.clone(),
        );
        registry.register(
            "capstan_host_outbox_oldest_seconds",
            "Time for which the oldest of these objects has waited",
            self.outbox_oldest.clone(),
        );
        registry.register(
            "capstan_host_outbox_refused",
            "Secrets and namespaces that the host cluster refuses now, and Events that it has refused since the start of the \
             process",
            self.outbox_refused.clone(),
        );
    }

    pub(crate) fn set_outbox(&self, outbox: Outbox, backlog: Backlog) {
        let labels = KindLabels { kind: outbox.name() };
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let oldest = i64::try_from(backlog.oldest.as_secs()).unwrap_or(i64::MAX);
        self.outbox_objects.get_or_create(&labels).set(count(backlog.objects));
        self.outbox_oldest.get_or_create(&labels).set(oldest);
        self.outbox_refused.get_or_create(&labels).set(count(backlog.refused));
    }

    #[cfg(test)]
    pub(crate) fn outbox(&self, outbox: Outbox) -> (i64, i64) {
        let labels = KindLabels { kind: outbox.name() };
        (self.outbox_objects.get_or_create(&labels).get(), self.outbox_oldest.get_or_create(&labels).get())
    }

    fn register_mirror(&self, registry: &mut Registry) {
        for kind in ["narrower", "wider"] {
            let _ = self.disagreements.get_or_create(&KindLabels { kind });
        }
        for class in Class::ALL.map(Class::name) {
            let _ = self.stale.get_or_create(&ClassLabels { class });
        }
        registry.register(
            "capstan_host_mirror_age_seconds",
            "Time since a copy of the host cluster's data had all its changes; -1 if it never had",
            self.mirror_age.clone(),
        );
        registry.register(
            "capstan_host_mirror_disagreements",
            "Decisions of the host cluster that differ from those by the copy of its permissions, which is wider or narrower",
            self.disagreements.clone(),
        );
        registry.register(
            "capstan_authorization_stale",
            "Requests that old permissions of the host cluster have allowed, by class",
            self.stale.clone(),
        );
    }

    pub(crate) fn set_mirror_age(&self, what: &'static str, age: Duration) {
        let seconds = if age == Duration::MAX { -1 } else { i64::try_from(age.as_secs()).unwrap_or(-1) };
        self.mirror_age.get_or_create(&MirrorLabels { what }).set(seconds);
    }

    pub(crate) fn count_disagreement(&self, kind: &'static str) {
        self.disagreements.get_or_create(&KindLabels { kind }).inc();
    }

    pub(crate) fn count_stale(&self, class: &'static str) {
        self.stale.get_or_create(&ClassLabels { class }).inc();
    }

    #[cfg(test)]
    pub(crate) fn disagreements(&self, kind: &'static str) -> u64 {
        self.disagreements.get_or_create(&KindLabels { kind }).get()
    }

    pub(crate) fn count_dropped_events(&self, loss: Loss, count: u64) {
        self.dropped_events.get_or_create(&LossLabels { reason: loss.name() }).inc_by(count);
    }

    /// Returns the number of Events that the host has refused for good.
    pub(crate) fn refused_events(&self) -> u64 {
        self.dropped_events.get_or_create(&LossLabels { reason: Loss::Refused.name() }).get()
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
