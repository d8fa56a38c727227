//! `/metrics`, with upstream's names, so that common dashboards work.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::request_info::RequestInfo;
use crate::response::{self, Answer};
use crate::server::ApiServer;

/// From a cache hit to the longest deadline.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 30.0, 60.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResourceLabels {
    resource: String,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    watches: Gauge,
    watch_events: Counter<u64, AtomicU64>,
    objects: Family<ResourceLabels, Gauge>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let mut metrics = Self {
            registry: Registry::default(),
            requests: Family::default(),
            durations: Family::new_with_constructor(histogram),
            watches: Gauge::default(),
            watch_events: Counter::default(),
            objects: Family::default(),
        };
        let registry = &mut metrics.registry;
        // The encoder adds `_total` to counters.
        registry.register(
            "apiserver_request",
            "Requests by verb, resource and code",
            metrics.requests.clone(),
        );
        registry.register("apiserver_request_duration_seconds", "Time to answer", metrics.durations.clone());
        registry.register("apiserver_longrunning_requests", "Watches open", metrics.watches.clone());
        registry.register("apiserver_watch_events", "Watch events sent", metrics.watch_events.clone());
        registry.register("apiserver_storage_objects", "Objects stored", metrics.objects.clone());
        metrics
    }

    pub(crate) fn observe(&self, info: &RequestInfo, code: u16, took: Duration) {
        let path = info.resource().cloned().unwrap_or_default();
        let (group, version, resource) = (path.group, path.version, path.resource);
        let duration = DurationLabels {
            verb: info.verb.to_uppercase(),
            group: group.clone(),
            version: version.clone(),
            resource: resource.clone(),
            subresource: path.subresource.clone(),
        };
        let request = RequestLabels {
            verb: info.verb.to_uppercase(),
            group,
            version,
            resource,
            subresource: path.subresource,
            code: u32::from(code),
        };
        // Unknown paths must not make series without end.
        if code != 404 || info.resource().is_none() {
            self.requests.get_or_create(&request).inc();
        }
        if !info.is_long_running() && code < 400 {
            self.durations.get_or_create(&duration).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn watch_opened(&self) {
        self.watches.inc();
    }

    pub(crate) fn watch_closed(&self) {
        self.watches.dec();
    }

    pub(crate) fn watch_event(&self) {
        self.watch_events.inc();
    }

    pub(crate) fn serve(&self, server: &ApiServer) -> Answer {
        for (resource, count) in server.parts.objects.counts() {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.objects.get_or_create(&ResourceLabels { resource }).set(count);
        }
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => {
                response::bytes(200, "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
            }
            Err(_) => response::text(500, "metrics cannot be encoded\n"),
        }
    }
}
