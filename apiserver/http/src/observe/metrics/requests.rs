//! Requests: how many, how long they took, and how much they were told.

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
use super::request_labels::{Asked, RequestLabels};
use super::{Count, Counters, Histograms};

/// Upstream's, from a cache hit to the longest deadline. Unit: seconds.
const DURATIONS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];

/// Upstream's for what service levels are made of. Unit: seconds.
const SLI_DURATIONS: [f64; 21] = [
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// Upstream's. Unit: bytes.
const ANSWER_SIZES: [f64; 7] = [1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];

/// Upstream's. Unit: bytes.
const EVENT_SIZES: [f64; 8] = [1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0];

/// Upstream's: up to what a body may have. Unit: bytes.
fn body_sizes() -> impl Iterator<Item = f64> {
    (0..=30).map(|step| f64::from(step).mul_add(100_000.0, 50_000.0))
}

#[derive(Debug)]
pub(super) struct RequestMetrics {
    families: Families,
    series: RwLock<HashMap<Asked, Arc<RequestSeries>>>,
}

/// Clones are the same.
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
        // What has not happened yet is shown as zero, so that its first time is seen as a change.
        drop(families.terminations.get_or_create(&TerminationLabels::new(&Asked::default(), 429)));
        Self { families, series: RwLock::default() }
    }

    /// All series of requests with these labels: one question for all that is to be said of a request.
    pub(super) fn series(&self, asked: &Asked) -> Arc<RequestSeries> {
        if let Some(known) = self.series.read().unwrap_or_else(PoisonError::into_inner).get(asked) {
            return Arc::clone(known);
        }
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(RequestSeries::new(asked.clone(), self.families.clone()));
        Arc::clone(series.entry(asked.clone()).or_insert_with(new))
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
            "Time to answer, without watches and without waiting for a turn",
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
            "Deprecated versions that somebody asked for",
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

/// The series of all requests that have the same labels, each made when it is first needed.
#[derive(Debug)]
pub(crate) struct RequestSeries {
    asked: Asked,
    families: Families,
    codes: Mutex<Vec<(u16, Count)>>,
    duration: OnceLock<Histogram>,
    sli_duration: OnceLock<Histogram>,
    size: OnceLock<Histogram>,
    body: OnceLock<Histogram>,
    events: OnceLock<(Count, Histogram)>,
}

impl RequestSeries {
    fn new(asked: Asked, families: Families) -> Self {
        Self {
            asked,
            families,
            codes: Mutex::default(),
            duration: OnceLock::new(),
            sli_duration: OnceLock::new(),
            size: OnceLock::new(),
            body: OnceLock::new(),
            events: OnceLock::new(),
        }
    }

    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// An answer was given after `took`, `waited` of it for a turn; `size` is that of its body, when that
    /// is known. A watch is answered when it ends.
    pub(crate) fn answered(&self, code: u16, took: Duration, waited: Duration, size: Option<u64>) {
        let (asked, labels) = (&self.asked, &self.asked.labels);
        self.count(code).inc();
        self.duration
            .get_or_init(|| self.families.durations.get_or_create_owned(labels))
            .observe(took.as_secs_f64());
        if asked.is_for_service_level() {
            self.sli_duration
                .get_or_init(|| self.families.sli_durations.get_or_create_owned(&ScopeLabels::new(labels)))
                .observe(took.saturating_sub(waited).as_secs_f64());
        }
        if let Some(size) = size {
            self.sized(size);
        }
    }

    /// The body of an answer had so many bytes.
    pub(crate) fn sized(&self, size: u64) {
        if self.asked.is_read() {
            // Up to 2^53 bytes are counted exactly.
            #[allow(clippy::as_conversions, reason = "there is no lossless way, and none is needed")]
            self.size
                .get_or_init(|| {
                    self.families.sizes.get_or_create_owned(&ScopeLabels::new(&self.asked.labels))
                })
                .observe(size as f64);
        }
    }

    /// Few codes are ever given to the same kind of request.
    fn count(&self, code: u16) -> Count {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = codes.iter().find(|(known, _)| *known == code) {
            return known.clone();
        }
        let new = self.families.requests.get_or_create_owned(&CodeLabels::new(&self.asked.labels, code));
        codes.push((code, new.clone()));
        new
    }

    /// A request was refused or cut short to protect the server.
    pub(crate) fn terminated(&self, code: u16) {
        self.families.terminations.get_or_create(&TerminationLabels::new(&self.asked, code)).inc();
    }

    /// A request got no turn. It is counted as answered, too, whatever it was for.
    pub(crate) fn dropped(&self, code: u16) {
        self.terminated(code);
        self.families.requests.get_or_create(&CodeLabels::dropped(&self.asked, code)).inc();
    }

    /// The body of a write was read, of `verb` in upstream's words.
    pub(crate) fn body_read(&self, verb: &'static str, size: usize) {
        self.body
            .get_or_init(|| {
                self.families.bodies.get_or_create_owned(&BodyLabels::new(&self.asked.labels, verb))
            })
            .observe(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }

    /// Somebody asked for a version that is to go.
    pub(crate) fn deprecated(&self) {
        self.families.deprecated.get_or_create(&DeprecatedLabels::new(&self.asked.labels)).set(1);
    }

    pub(crate) fn watch_opened(&self) {
        self.families.long_running.get_or_create(&ScopeLabels::at_first(&self.asked)).inc();
    }

    pub(crate) fn watch_closed(&self) {
        self.families.long_running.get_or_create(&ScopeLabels::at_first(&self.asked)).dec();
    }

    pub(crate) fn watch_event(&self, size: usize) {
        let (count, sizes) = self.events.get_or_init(|| {
            let kind = WatchedLabels::new(&self.asked.labels);
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
