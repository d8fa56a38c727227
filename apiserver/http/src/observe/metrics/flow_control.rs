//! Metrics of flow control: seats, queues and refusals.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::{LevelLabels, RefusalLabels, RequestKindLabels, WaitLabels};
use super::{Counters, Histograms, number};
use crate::flow_control::{FlowControl, LEVELS, Refusal};

/// Buckets as in upstream. Unit: seconds.
const WAITS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

#[derive(Debug)]
pub(super) struct FlowControlMetrics {
    in_flight: Family<RequestKindLabels, Gauge>,
    queued: Family<RequestKindLabels, Gauge>,
    executing: Family<LevelLabels, Gauge>,
    waiting: Family<LevelLabels, Gauge>,
    waits: [(&'static str, Histogram); LEVELS.len()],
    refusals: Counters<RefusalLabels>,
}

impl FlowControlMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let waits: Histograms<WaitLabels> = Family::new_with_constructor(|| Histogram::new(WAITS));
        let metrics = Self {
            in_flight: Family::default(),
            queued: Family::default(),
            executing: Family::default(),
            waiting: Family::default(),
            waits: LEVELS.map(|level| (level, waits.get_or_create_owned(&WaitLabels::new(level)))),
            refusals: Family::default(),
        };
        // Counters start at zero, so that the first increment is seen as a change.
        for level in LEVELS {
            for why in [Refusal::QueueFull, Refusal::TimedOut] {
                drop(metrics.refusals.get_or_create(&RefusalLabels::new(level, why.word())));
            }
        }
        metrics.register(registry);
        registry.register(
            "apiserver_flowcontrol_request_wait_duration_seconds",
            "Time that requests waited in the queue",
            waits,
        );
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests being served, without watches",
            self.in_flight.clone(),
        );
        registry.register("apiserver_current_inqueue_requests", "Requests in the queue", self.queued.clone());
        registry.register(
            "apiserver_flowcontrol_current_executing_requests",
            "Requests being served, by queue",
            self.executing.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_current_inqueue_requests",
            "Requests in the queue, by queue",
            self.waiting.clone(),
        );
        registry.register(
            "apiserver_flowcontrol_rejected_requests",
            "Requests refused by flow control",
            self.refusals.clone(),
        );
    }

    pub(super) fn waited(&self, level: &'static str, wait: Duration) {
        if let Some((_, waits)) = self.waits.iter().find(|(known, _)| *known == level) {
            waits.observe(wait.as_secs_f64());
        }
    }

    pub(super) fn refused(&self, level: &'static str, why: Refusal) {
        self.refusals.get_or_create(&RefusalLabels::new(level, why.word())).inc();
    }

    /// Collects the load of the queues.
    pub(super) fn collect(&self, flow_control: &FlowControl) {
        let (mut reading, mut changing) = ((0, 0), (0, 0));
        for (level, queue) in flow_control.levels() {
            let load = queue.load();
            self.executing.get_or_create(&LevelLabels::new(level)).set(number(load.executing));
            self.waiting.get_or_create(&LevelLabels::new(level)).set(number(load.waiting));
            let sum = if level.ends_with("writes") { &mut changing } else { &mut reading };
            *sum = (sum.0 + load.executing, sum.1 + load.waiting);
        }
        for (request_kind, (executing, waiting)) in [("readOnly", reading), ("mutating", changing)] {
            self.in_flight.get_or_create(&RequestKindLabels { request_kind }).set(number(executing));
            self.queued.get_or_create(&RequestKindLabels { request_kind }).set(number(waiting));
        }
    }
}
