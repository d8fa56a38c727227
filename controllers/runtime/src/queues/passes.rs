//! Metrics of reconcile passes.

use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::Requeue;

/// Upstream's buckets. Unit: seconds.
const DURATIONS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    controller: &'static str,
    result: &'static str,
}

#[derive(Debug, Clone)]
pub(super) struct PassMetrics {
    results: Family<ResultLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    took: Family<ControllerLabels, Histogram, fn() -> Histogram>,
    active: Family<ControllerLabels, Gauge>,
    most: Family<ControllerLabels, Gauge>,
    kept: Family<ControllerLabels, Gauge>,
}

impl Default for PassMetrics {
    fn default() -> Self {
        Self {
            results: Family::default(),
            errors: Family::default(),
            took: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            active: Family::default(),
            most: Family::default(),
            kept: Family::default(),
        }
    }
}

impl PassMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "controller_runtime_reconcile",
            "Reconcile passes, by result",
            self.results.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconcile passes that failed",
            self.errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Time that reconcile passes took",
            self.took.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Reconcile passes in progress",
            self.active.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "Reconcile passes that may be in progress at the same time, without those in spare slots",
            self.most.clone(),
        );
        registry.register(
            "capstan_controller_kept_objects",
            "Objects that a controller keeps in memory, decoded",
            self.kept.clone(),
        );
    }

    /// Returns the metrics of one controller, whose series exist from now on.
    pub(super) fn of(&self, controller: &'static str, most: u16) -> Passes {
        let labels = ControllerLabels { controller };
        let counter = |result| self.results.get_or_create_owned(&ResultLabels { controller, result });
        self.most.get_or_create(&labels).set(i64::from(most));
        Passes {
            settled: counter("success"),
            at_once: counter("requeue"),
            later: counter("requeue_after"),
            failed: counter("error"),
            errors: self.errors.get_or_create_owned(&labels),
            took: self.took.get_or_create_owned(&labels),
            active: self.active.get_or_create_owned(&labels),
            kept: self.kept.get_or_create_owned(&labels),
        }
    }
}

/// Pass metrics of one controller.
#[derive(Debug, Clone)]
pub struct Passes {
    settled: Counter,
    at_once: Counter,
    later: Counter,
    failed: Counter,
    errors: Counter,
    took: Histogram,
    active: Gauge,
    kept: Gauge,
}

impl Passes {
    /// Sets the number of objects that the controller keeps in memory.
    pub(crate) fn keeps(&self, count: usize) {
        self.kept.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Begins a pass, which is in progress until the result is dropped.
    pub(crate) fn begin(&self) -> Pass {
        self.active.inc();
        Pass { passes: self.clone(), begun: Instant::now() }
    }
}

/// Guard of a pass in progress. One that is dropped before its end has no result.
#[derive(Debug)]
pub(crate) struct Pass {
    passes: Passes,
    begun: Instant,
}

impl Pass {
    /// Ends the pass with a result.
    pub(crate) fn end(self, requeue: Requeue) {
        let passes = &self.passes;
        match requeue {
            Requeue::OnChange => &passes.settled,
            Requeue::Now | Requeue::After(Duration::ZERO) => &passes.at_once,
            Requeue::After(_) => &passes.later,
            Requeue::Retry(_) => {
                passes.errors.inc();
                &passes.failed
            }
        }
        .inc();
        passes.took.observe(self.begun.elapsed().as_secs_f64());
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.passes.active.dec();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn passes_are_counted_by_result_and_failed_ones_also_as_errors() {
        let mut registry = Registry::default();
        let metrics = PassMetrics::default();
        metrics.register(&mut registry);
        let passes = metrics.of("machine", 1);
        let second = Duration::from_secs(1);
        let retries = [Requeue::Retry(second), Requeue::Retry(Duration::ZERO)];
        let others = [Requeue::OnChange, Requeue::Now, Requeue::After(second)];
        for requeue in others.into_iter().chain(retries) {
            passes.begin().end(requeue);
        }
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for (result, count) in [("success", 1), ("requeue", 1), ("requeue_after", 1), ("error", 2)] {
            let line = format!(
                "controller_runtime_reconcile_total{{controller=\"machine\",result=\"{result}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(
            text.contains("controller_runtime_reconcile_errors_total{controller=\"machine\"} 2\n"),
            "{text}"
        );
    }
}
