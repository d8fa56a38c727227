//! `/metrics`, with upstream's names and labels, so that common dashboards work.

mod access;
mod labels;
mod process;
mod text;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use apiserver_access::{Unauthenticated, User};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::connection::Connection;
use crate::fairness::{LEVELS, Refusal};
use crate::filters::authorization::Decided;
use crate::response::{self, Answer};
use crate::server::ApiServer;

use access::AccessMetrics;
pub(crate) use labels::RequestLabels;
use labels::{
    CodeLabels, KindLabels, LevelLabels, PluginLabels, RefusalLabels, RequestKindLabels, ResourceLabels,
    ScopeLabels, TerminationLabels, WaitLabels, WatchedLabels,
};

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

/// Upstream's. Unit: seconds.
const WAITS: [f64; 11] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;
type Counters<L> = Family<L, Counter<u64, AtomicU64>>;

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    access: AccessMetrics,
    requests: Counters<CodeLabels>,
    durations: Histograms<RequestLabels>,
    sli_durations: Histograms<ScopeLabels>,
    sizes: Histograms<ScopeLabels>,
    long_running: Family<ScopeLabels, Gauge>,
    in_flight: Family<RequestKindLabels, Gauge>,
    queued: Family<RequestKindLabels, Gauge>,
    executing: Family<LevelLabels, Gauge>,
    waiting: Family<LevelLabels, Gauge>,
    waits: Histograms<WaitLabels>,
    refusals: Counters<RefusalLabels>,
    terminations: Counters<TerminationLabels>,
    watch_events: Counters<WatchedLabels>,
    watch_event_sizes: Histograms<WatchedLabels>,
    storage_objects: Family<ResourceLabels, Gauge>,
    resource_objects: Family<KindLabels, Gauge>,
    kept_changes: Family<KindLabels, Gauge>,
    cached_revision: Family<KindLabels, Gauge>,
    audit_events: Counter<u64, AtomicU64>,
    audit_errors: Counters<PluginLabels>,
}

impl Metrics {
    /// `registry` may hold further metrics, of storage for one.
    pub(crate) fn new(mut registry: Registry) -> Self {
        let mut metrics = Self {
            access: AccessMetrics::new(&mut registry),
            registry,
            requests: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            sli_durations: Family::new_with_constructor(|| Histogram::new(SLI_DURATIONS)),
            sizes: Family::new_with_constructor(|| Histogram::new(ANSWER_SIZES)),
            long_running: Family::default(),
            in_flight: Family::default(),
            queued: Family::default(),
            executing: Family::default(),
            waiting: Family::default(),
            waits: Family::new_with_constructor(|| Histogram::new(WAITS)),
            refusals: Family::default(),
            terminations: Family::default(),
            watch_events: Family::default(),
            watch_event_sizes: Family::new_with_constructor(|| Histogram::new(EVENT_SIZES)),
            storage_objects: Family::default(),
            resource_objects: Family::default(),
            kept_changes: Family::default(),
            cached_revision: Family::default(),
            audit_events: Counter::default(),
            audit_errors: Family::default(),
        };
        metrics.register_requests();
        metrics.register_fairness();
        metrics.register_objects();
        metrics.begin();
        metrics
    }

    /// What has not happened yet is shown as zero, so that its first time is seen as a change.
    fn begin(&self) {
        drop(self.audit_errors.get_or_create(&PluginLabels { plugin: "log" }));
        drop(self.terminations.get_or_create(&TerminationLabels::new(&RequestLabels::default(), 429)));
        for level in LEVELS {
            drop(self.waits.get_or_create(&WaitLabels::new(level)));
            for why in [Refusal::QueueFull, Refusal::TimedOut] {
                drop(self.refusals.get_or_create(&RefusalLabels::new(level, why.word())));
            }
        }
    }

    // The encoder adds `_total` to counters.
    fn register_requests(&mut self) {
        let registry = &mut self.registry;
        registry.register("apiserver_request", "Requests answered", self.requests.clone());
        registry.register(
            "apiserver_request_duration_seconds",
            "Time to answer, without watches",
            self.durations.clone(),
        );
        registry.register(
            "apiserver_request_sli_duration_seconds",
            "Time to answer, without watches and without waiting for a turn",
            self.sli_durations.clone(),
        );
        registry.register("apiserver_response_sizes", "Bytes of an answer", self.sizes.clone());
        registry.register("apiserver_longrunning_requests", "Watches open", self.long_running.clone());
        registry.register(
            "apiserver_request_terminations",
            "Requests that were refused or cut short to protect the server",
            self.terminations.clone(),
        );
        registry.register("apiserver_audit_event", "Audit events written", self.audit_events.clone());
        registry.register("apiserver_audit_error", "Audit events that were lost", self.audit_errors.clone());
    }

    fn register_fairness(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests being served, without watches",
            self.in_flight.clone(),
        );
        registry.register(
            "apiserver_current_inqueue_requests",
            "Requests that wait for their turn",
            self.queued.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_current_executing_requests",
            "Requests being served, by queue",
            self.executing.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_current_inqueue_requests",
            "Requests that wait for their turn, by queue",
            self.waiting.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_request_wait_duration_seconds",
            "Time that requests waited for their turn",
            self.waits.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_rejected_requests",
            "Requests refused because too much was asked",
            self.refusals.clone(),
        );
    }

    fn register_objects(&mut self) {
        let registry = &mut self.registry;
        registry.register("apiserver_watch_events", "Watch events sent", self.watch_events.clone());
        registry.register(
            "apiserver_watch_events_sizes",
            "Bytes of a watch event",
            self.watch_event_sizes.clone(),
        );
        registry.register("apiserver_storage_objects", "Objects stored", self.storage_objects.clone());
        registry.register(
            "apiserver_resource_objects",
            "Objects stored, by group and resource",
            self.resource_objects.clone(),
        );
        registry.register(
            "watch_cache_capacity",
            "Changes that the cache holds for watches to go on with",
            self.kept_changes.clone(),
        );
        registry.register(
            "apiserver_watch_cache_resource_version",
            "Up to where the cache shows everything",
            self.cached_revision.clone(),
        );
    }

    /// An answer was given after `took`, `waited` of it for a turn; `size` is that of its body, when that
    /// is known.
    pub(crate) fn observe(
        &self,
        request: &RequestLabels,
        code: u16,
        took: Duration,
        waited: Duration,
        size: Option<u64>,
    ) {
        self.requests.get_or_create(&CodeLabels::new(request, code)).inc();
        if request.is_long_running() {
            return;
        }
        self.durations.get_or_create(request).observe(took.as_secs_f64());
        let served = took.saturating_sub(waited);
        self.sli_durations.get_or_create(&ScopeLabels::new(request)).observe(served.as_secs_f64());
        if let Some(size) = size {
            // Up to 2^53 bytes are counted exactly.
            #[allow(clippy::as_conversions, reason = "there is no lossless way, and none is needed")]
            self.sizes.get_or_create(&ScopeLabels::new(request)).observe(size as f64);
        }
    }

    /// It was found out whose a request is, or not.
    pub(crate) fn authenticated(
        &self,
        connection: &Connection,
        found: &Result<User, Unauthenticated>,
        took: Duration,
    ) {
        self.access.authenticated(found, took);
        let by_certificate = connection.peer.identity().filter(|peer| peer.is_client);
        if let (Ok(user), Some(peer)) = (found, by_certificate)
            && user.name == peer.common_name
        {
            self.access.certificate(access::left_until(peer.not_after));
        }
    }

    /// It was found out whether a request is allowed.
    pub(crate) fn authorized(&self, decided: &Decided, took: Duration) {
        self.access.decided(decided, took);
    }

    pub(crate) fn handshake_failed(&self) {
        self.access.handshake_failed();
    }

    /// Somebody asked for a version that is to go.
    pub(crate) fn deprecated(&self, request: &RequestLabels) {
        self.access.deprecated(request);
    }

    /// A request was refused or cut short to protect the server.
    pub(crate) fn terminated(&self, request: &RequestLabels, code: u16) {
        self.terminations.get_or_create(&TerminationLabels::new(request, code)).inc();
    }

    pub(crate) fn waited(&self, level: &'static str, wait: Duration) {
        self.waits.get_or_create(&WaitLabels::new(level)).observe(wait.as_secs_f64());
    }

    pub(crate) fn refused(&self, level: &'static str, why: Refusal) {
        self.refusals.get_or_create(&RefusalLabels::new(level, why.word())).inc();
    }

    pub(crate) fn watch_opened(&self, request: &RequestLabels) {
        self.long_running.get_or_create(&ScopeLabels::new(request)).inc();
    }

    pub(crate) fn watch_closed(&self, request: &RequestLabels) {
        self.long_running.get_or_create(&ScopeLabels::new(request)).dec();
    }

    pub(crate) fn watch_event(&self, request: &RequestLabels, size: usize) {
        let kind = WatchedLabels::new(request);
        self.watch_events.get_or_create(&kind).inc();
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        self.watch_event_sizes.get_or_create(&kind).observe(f64::from(size));
    }

    pub(crate) fn audited(&self) {
        self.audit_events.inc();
    }

    pub(crate) fn audit_lost(&self) {
        self.audit_errors.get_or_create(&PluginLabels { plugin: "log" }).inc();
    }

    /// Takes stock of what changes by itself.
    fn look(&self, server: &ApiServer) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let objects = &server.parts.objects;
        for (qualified, count) in objects.counts() {
            self.resource_objects.get_or_create(&KindLabels::of(&qualified)).set(number(count));
            self.storage_objects.get_or_create(&ResourceLabels { resource: qualified }).set(number(count));
        }
        let revision = i64::try_from(objects.cached_revision().number()).unwrap_or(i64::MAX);
        for (qualified, count) in objects.kept_changes() {
            let kind = KindLabels::of(&qualified);
            self.kept_changes.get_or_create(&kind).set(number(count));
            self.cached_revision.get_or_create(&kind).set(revision);
        }
        let (mut reading, mut changing) = ((0, 0), (0, 0));
        for (level, queue) in server.fairness.levels() {
            let load = queue.load();
            self.executing.get_or_create(&LevelLabels::new(level)).set(number(load.executing));
            self.waiting.get_or_create(&LevelLabels::new(level)).set(number(load.waiting));
            let sum = if level == "writes" { &mut changing } else { &mut reading };
            *sum = (sum.0 + load.executing, sum.1 + load.waiting);
        }
        for (request_kind, (executing, waiting)) in [("readOnly", reading), ("mutating", changing)] {
            self.in_flight.get_or_create(&RequestKindLabels { request_kind }).set(number(executing));
            self.queued.get_or_create(&RequestKindLabels { request_kind }).set(number(waiting));
        }
    }

    pub(crate) fn serve(&self, server: &ApiServer) -> Answer {
        self.look(server);
        let mut encoded = String::new();
        if encode(&mut encoded, &self.registry).is_err() {
            return response::text(500, "metrics cannot be encoded\n");
        }
        let mut text = text::prometheus(&encoded);
        process::write(&mut text);
        response::bytes(200, "text/plain; version=0.0.4; charset=utf-8", text)
    }
}
