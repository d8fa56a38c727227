//! Metrics of requests: number, duration and size.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{
    BodyLabels, CodeLabels, DeprecatedLabels, ScopeLabels, TerminationLabels, WatchedLabels,
};
use super::request_labels::{RequestLabels, SeriesKey};
use super::{Count, Counters, Histograms};

/// Buckets as in upstream, from a cache hit to the longest deadline. Unit: seconds.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// Buckets as in upstream, for service levels. Unit: seconds.
const SLI_DURATIONS: [f64; 21] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Buckets as in upstream. Unit: bytes.
const ANSWER_SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// Buckets as in upstream. Unit: bytes.
const EVENT_SIZES: [f64; 8] = [1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0];

/// Buckets as in upstream, up to the largest body. Unit: bytes.
fn body_sizes() -> impl Iterator<Item = f64> {
    (0..=30).map(|step| f64::from(step).mul_add(100_000.0, 50_000.0))
}

#[derive(Debug)]
pub(super) struct RequestMetrics {
    families: Families,
    series: RwLock<HashMap<SeriesKey, Arc<RequestSeries>>>,
}

/// Families of series. Clones share them.
#[derive(Debug, Clone)]
struct Families {
    requests: Counters<CodeLabels>,
    durations: Histograms<RequestLabels>,
    sli_durations: Histograms<ScopeLabels>,
    sizes: Histograms<ScopeLabels>,
    long_running: Family<ScopeLabels, Gauge>,
    terminations: Counters<TerminationLabels>,
    watch_events: Counters<WatchedLabels>,
    watch_event_sizes: Histograms<WatchedLabels>,
    deprecated: Family<DeprecatedLabels, Gauge>,
    bodies: Histograms<BodyLabels>,
}

impl RequestMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let families = Families {
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            sli_durations: Family::new_with_constructor(|| Histogram::new(SLI_DURATIONS)),
            sizes: Family::new_with_constructor(|| Histogram::new(ANSWER_SIZES)),
            long_running: Family::default(),
            terminations: Family::default(),
            watch_events: Family::default(),
            watch_event_sizes: Family::new_with_constructor(|| Histogram::new(EVENT_SIZES)),
            deprecated: Family::default(),
            bodies: Family::new_with_constructor(|| Histogram::new(body_sizes())),
        };
        families.register(registry);
        families.register_watches(registry);
        // A counter starts at zero, so that the first increment is seen as a change.
        drop(families.terminations.get_or_create(&TerminationLabels::new(&SeriesKey::default(), 429)));
        Self { families, series: RwLock::default() }
    }

    /// Returns all series of requests with this key: one lookup for a request.
    pub(super) fn series(&self, key: &SeriesKey) -> Arc<RequestSeries> {
        if let Some(known) = self.series.read().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Arc::clone(known);
        }
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(RequestSeries::new(key.clone(), self.families.clone()));
        Arc::clone(series.entry(key.clone()).or_insert_with(new))
    }
}

impl Families {
    // The encoder adds `_total` to counters.
    fn register(&self, registry: &mut Registry) {
        registry.register("apiserver_request", "Requests answered", self.requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to answer; of watches, until they end",
            self.durations.clone(),
        );
        registry.register(
            "apiserver_request_sli_duration_seconds",
            "Time to answer, without watches and without time in the queue",
            self.sli_durations.clone(),
        );
        registry.register("apiserver_response_sizes", "Bytes of an answer to a read", self.sizes.clone());
        registry.register(
            "apiserver_request_body_size_bytes",
            "Bytes of the body of a write",
            self.bodies.clone(),
        );
        registry.register(
            "apiserver_request_terminations",
            "Requests that were refused or cut short to protect the server",
            self.terminations.clone(),
        );
        registry.register(
            "apiserver_requested_deprecated_apis",
            "Deprecated versions that were requested",
            self.deprecated.clone(),
        );
    }

    fn register_watches(&self, registry: &mut Registry) {
        registry.register("apiserver_longrunning_requests", "Watches open", self.long_running.clone());
        registry.register("apiserver_watch_events", "Watch events sent", self.watch_events.clone());
        registry.register(
            "apiserver_watch_events_sizes",
            "Bytes of a watch event",
            self.watch_event_sizes.clone(),
        );
    }
}

/// Series of all requests with the same key, each created when it is first needed.
#[derive(Debug)]
pub(crate) struct RequestSeries {
    key: SeriesKey,
    families: Families,
    codes: Mutex<Vec<(u16, Count)>>,
    duration: OnceLock<Histogram>,
    sli_duration: OnceLock<Histogram>,
    size: OnceLock<Histogram>,
    body: OnceLock<Histogram>,
    events: OnceLock<(Count, Histogram)>,
}

impl RequestSeries {
    fn new(key: SeriesKey, families: Families) -> Self {
        Self {
            key,
            families,
            codes: Mutex::default(),
            duration: OnceLock::new(),
            sli_duration: OnceLock::new(),
            size: OnceLock::new(),
            body: OnceLock::new(),
            events: OnceLock::new(),
        }
    }

    pub(crate) fn key(&self) -> &SeriesKey {
        &self.key
    }

    /// Counts a response after `took`, of which the request was in the queue for `waited`. `size` is that of its body,
    /// if it is known. The response of a watch counts when it ends.
    pub(crate) fn answered(&self, code: u16, took: Duration, waited: Duration, size: Option<u64>) {
        let (key, labels) = (&self.key, &self.key.labels);
        self.count(code).inc();
        self.duration
            .get_or_init(|| self.families.durations.get_or_create_owned(labels))
            .observe(took.as_secs_f64());
        if key.is_for_service_level() {
            self.sli_duration
                .get_or_init(|| self.families.sli_durations.get_or_create_owned(&ScopeLabels::new(labels)))
                .observe(took.saturating_sub(waited).as_secs_f64());
        }
        if let Some(size) = size {
            self.sized(size);
        }
    }

    /// Observes the size of a response body.
    pub(crate) fn sized(&self, size: u64) {
        if self.key.is_read() {
            // Up to 2^53 bytes are counted exactly.
            #[allow(clippy::as_conversions, reason = "there is no lossless way, and none is needed")]
            self.size
                .get_or_init(|| self.families.sizes.get_or_create_owned(&ScopeLabels::new(&self.key.labels)))
                .observe(size as f64);
        }
    }

    /// Returns the counter of a status code. Requests with one key have few codes.
    fn count(&self, code: u16) -> Count {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = codes.iter().find(|(known, _)| *known == code) {
            return known.clone();
        }
        let new = self.families.requests.get_or_create_owned(&CodeLabels::new(&self.key.labels, code));
        codes.push((code, new.clone()));
        new
    }

    /// Counts a request that was refused or cut short to protect the server.
    pub(crate) fn terminated(&self, code: u16) {
        self.families.terminations.get_or_create(&TerminationLabels::new(&self.key, code)).inc();
    }

    /// Counts a request that flow control refused. It counts as a response too, whatever its target.
    pub(crate) fn dropped(&self, code: u16) {
        self.terminated(code);
        self.families.requests.get_or_create(&CodeLabels::dropped(&self.key, code)).inc();
    }

    /// Observes the body of a write, with `verb` in upstream's words.
    pub(crate) fn body_read(&self, verb: &'static str, size: usize) {
        self.body
            .get_or_init(|| {
                self.families.bodies.get_or_create_owned(&BodyLabels::new(&self.key.labels, verb))
            })
            .observe(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }

    /// Notes a request for a deprecated version.
    pub(crate) fn deprecated(&self) {
        self.families.deprecated.get_or_create(&DeprecatedLabels::new(&self.key.labels)).set(1);
    }

    pub(crate) fn watch_opened(&self) {
        self.families.long_running.get_or_create(&ScopeLabels::initial_verb(&self.key)).inc();
    }

    pub(crate) fn watch_closed(&self) {
        self.families.long_running.get_or_create(&ScopeLabels::initial_verb(&self.key)).dec();
    }

    pub(crate) fn watch_event(&self, size: usize) {
        let (count, sizes) = self.events.get_or_init(|| {
            let kind = WatchedLabels::new(&self.key.labels);
            let families = &self.families;
            (
                families.watch_events.get_or_create_owned(&kind),
                families.watch_event_sizes.get_or_create_owned(&kind),
            )
        });
        count.inc();
        sizes.observe(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }
}
