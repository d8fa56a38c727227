//! Metrics of the controllers' queues and passes: queues under client-go's names, passes under
//! controller-runtime's, so that dashboards for either show them.
//!
//! The series of a queue stay when its controller ends; the objects that waited in it do not.

mod passes;
mod queue;
mod state;

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use passes::PassMetrics;
pub use passes::Passes;
pub use queue::{Queue, Work};
use state::Load;

use crate::NamespaceWeights;

/// Upstream's buckets, from ten nanoseconds. Upstream multiplies by ten repeatedly, hence the inexact
/// ones. Unit: seconds.
const DURATIONS: [f64; 12] = [
    1e-8,
    1e-7,
    1e-6,
    9.999_999_999_999_999e-6,
    9.999_999_999_999_999e-5,
    0.001,
    0.01,
    0.1,
    1.0,
    10.0,
    100.0,
    1000.0,
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

/// Name, help text and value of a gauge.
type Gauge = (&'static str, &'static str, fn(&Load) -> f64);

type Histograms = Family<QueueLabels, Histogram, fn() -> Histogram>;

/// Queues of all controllers. Clones share their state.
#[derive(Debug, Clone)]
pub struct Queues {
    added: Family<QueueLabels, Counter>,
    retried: Family<QueueLabels, Counter>,
    waited: Histograms,
    worked: Histograms,
    passes: PassMetrics,
    running: Arc<Mutex<BTreeMap<&'static str, Weak<Queue>>>>,
    weights: Arc<NamespaceWeights>,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            added: Family::default(),
            retried: Family::default(),
            waited: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            worked: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            passes: PassMetrics::default(),
            running: Arc::default(),
            weights: Arc::default(),
        }
    }
}

impl Queues {
    /// Creates queues and registers their metrics.
    pub fn registered(registry: &mut Registry) -> Self {
        let queues = Self::default();
        registry.register("workqueue_adds", "Objects added to the queue", queues.added.clone());
        registry.register("workqueue_retries", "Objects requeued after an interval", queues.retried.clone());
        registry.register(
            "workqueue_queue_duration_seconds",
            "Time that objects waited in the queue",
            queues.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "Time that objects were worked on",
            queues.worked.clone(),
        );
        queues.passes.register(registry);
        registry.register_collector(Box::new(queues.clone()));
        queues
    }

    /// Sets the weights of namespaces in all queues. Default: 1 for each namespace.
    #[must_use]
    pub fn with_weights(self, weights: NamespaceWeights) -> Self {
        Self { weights: Arc::new(weights), ..self }
    }

    /// Returns the weights of namespaces.
    pub fn weights(&self) -> Arc<NamespaceWeights> {
        Arc::clone(&self.weights)
    }

    /// Creates the empty queue of a controller.
    pub fn queue(&self, name: &'static str) -> Arc<Queue> {
        let labels = QueueLabels { name };
        let queue = Arc::new(Queue::new(
            self.added.get_or_create_owned(&labels),
            self.retried.get_or_create_owned(&labels),
            self.waited.get_or_create_owned(&labels),
            self.worked.get_or_create_owned(&labels),
        ));
        self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::downgrade(&queue));
        queue
    }

    /// Returns the pass metrics of a controller that makes up to `most` passes at the same time.
    pub fn passes(&self, controller: &'static str, most: u16) -> Passes {
        self.passes.of(controller, most)
    }

    /// Returns the present load of each queue.
    fn loads(&self) -> Vec<(QueueLabels, Load)> {
        let now = Instant::now();
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let load = |queue: &Weak<Queue>| queue.upgrade().map(|queue| queue.load(now)).unwrap_or_default();
        running.iter().map(|(name, queue)| (QueueLabels { name }, load(queue))).collect()
    }
}

/// Gauges whose values change while time passes.
impl Collector for Queues {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let loads = self.loads();
        let gauges: [Gauge; 3] = [
            ("workqueue_depth", "Objects that wait in the queue", |load| f64::from(load.waiting)),
            (
                "workqueue_unfinished_work_seconds",
                "Time that all work in progress has taken so far, summed",
                |load| load.working.as_secs_f64(),
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "Time that the oldest work in progress has taken so far",
                |load| load.longest.as_secs_f64(),
            ),
        ];
        for (name, help, value) in gauges {
            let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (labels, load) in &loads {
                gauge.encode_family(labels)?.encode_gauge(&value(load))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn a_new_queue_reports_zeros_and_a_dropped_one_keeps_no_entries() {
        let mut registry = Registry::default();
        let queues = Queues::registered(&mut registry);
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let queue = queues.queue("cluster");
        let passes = queues.passes("cluster", 16);
        for line in [
            "workqueue_adds_total{name=\"cluster\"} 0\n",
            "workqueue_retries_total{name=\"cluster\"} 0\n",
            "workqueue_queue_duration_seconds_bucket{le=\"1000.0\",name=\"cluster\"} 0\n",
            "workqueue_depth{name=\"cluster\"} 0.0\n",
            "workqueue_unfinished_work_seconds{name=\"cluster\"} 0.0\n",
            "workqueue_longest_running_processor_seconds{name=\"cluster\"} 0.0\n",
            "controller_runtime_reconcile_total{controller=\"cluster\",result=\"requeue_after\"} 0\n",
            "controller_runtime_reconcile_errors_total{controller=\"cluster\"} 0\n",
            "controller_runtime_max_concurrent_reconciles{controller=\"cluster\"} 16\n",
            "controller_runtime_active_workers{controller=\"cluster\"} 0\n",
            "capstan_controller_kept_objects{controller=\"cluster\"} 0\n",
        ] {
            assert!(text().contains(line), "{line}{}", text());
        }
        queue.add("a/b");
        passes.keeps(7);
        assert!(text().contains("workqueue_depth{name=\"cluster\"} 1.0\n"), "{}", text());
        assert!(text().contains("capstan_controller_kept_objects{controller=\"cluster\"} 7\n"), "{}", text());
        drop(queue);
        assert!(text().contains("workqueue_depth{name=\"cluster\"} 0.0\n"), "{}", text());
        assert!(text().contains("workqueue_adds_total{name=\"cluster\"} 1\n"), "{}", text());
        let again = queues.queue("cluster");
        again.add("a/b");
        assert!(text().contains("workqueue_adds_total{name=\"cluster\"} 2\n"), "{}", text());
    }
}
