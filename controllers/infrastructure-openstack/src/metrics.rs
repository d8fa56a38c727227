//! Metrics of the calls to clouds.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::Method;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::rate_limit::Gates;
use crate::request::Service;

/// Buckets of the durations, in seconds. A call may take a minute: Nova waits for Neutron and Cinder.
const DURATIONS: [f64; 11] = [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Label `code` of a call without a response, as in the metrics of Kubernetes' clients.
const NO_RESPONSE: &str = "<error>";

/// Label `result` of a permit that the call got.
const GRANTED: &str = "granted";

/// Label `result` of a permit that the call did not get before its end. The call was not sent.
const REFUSED: &str = "refused";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    service: &'static str,
    method: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DurationLabels {
    service: &'static str,
    method: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PermitLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GateLabels {
    service: &'static str,
}

/// Metrics of the calls of all sessions. Clones share them.
#[derive(Debug, Clone)]
pub struct CloudMetrics {
    calls: Family<CallLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
    permits: Family<PermitLabels, Counter>,
    gates: OpenGates,
}

impl Default for CloudMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            permits: Family::default(),
            gates: OpenGates::default(),
        }
    }
}

impl CloudMetrics {
    /// Creates the metrics `capstan_cloud_requests_total`, `capstan_cloud_request_duration_seconds`,
    /// `capstan_cloud_permits_total` and `capstan_cloud_gate_limit` in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "capstan_cloud_requests",
            "Calls to clouds, by service, method and status code",
            metrics.calls.clone(),
        );
        registry.register(
            "capstan_cloud_request_duration_seconds",
            "Time that calls to clouds took",
            metrics.durations.clone(),
        );
        registry.register(
            "capstan_cloud_permits",
            "Permits before calls that change a cloud, by result; a refused call was not sent",
            metrics.permits.clone(),
        );
        for result in [GRANTED, REFUSED] {
            drop(metrics.permits.get_or_create(&PermitLabels { result }));
        }
        registry.register_collector(Box::new(metrics.gates.clone()));
        metrics
    }

    /// Shows the limits of a session until its end.
    pub(crate) fn watch(&self, gates: &Arc<Gates>) {
        let mut open = self.gates.lock();
        open.retain(|gates| gates.strong_count() > 0);
        open.push(Arc::downgrade(gates));
    }

    /// Waits for the permit of a call, and counts the result.
    pub(crate) async fn permitted<T>(&self, granted: impl Future<Output = T>) -> T {
        let mut wait = PermitWait { permits: &self.permits, result: REFUSED };
        let permitted = granted.await;
        wait.result = GRANTED;
        permitted
    }

    /// Records a call. `status` is `None` without a response.
    pub(crate) fn record(&self, service: Service, method: &Method, status: Option<u16>, took: Duration) {
        let (service, method) = (service.name(), method.to_string());
        let code = status.map_or_else(|| NO_RESPONSE.to_owned(), |status| status.to_string());
        self.calls.get_or_create(&CallLabels { service, method: method.clone(), code }).inc();
        self.durations.get_or_create(&DurationLabels { service, method }).observe(took.as_secs_f64());
    }
}

/// Wait for a permit. Its end counts the result: a lost Lease ends it without one.
struct PermitWait<'a> {
    permits: &'a Family<PermitLabels, Counter>,
    result: &'static str,
}

impl Drop for PermitWait<'_> {
    fn drop(&mut self) {
        self.permits.get_or_create(&PermitLabels { result: self.result }).inc();
    }
}

/// Limiters of all sessions that have not ended. Clones share them.
#[derive(Debug, Clone, Default)]
struct OpenGates(Arc<Mutex<Vec<Weak<Gates>>>>);

impl OpenGates {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Gates>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the lowest limit of each service.
    fn limits(&self) -> BTreeMap<&'static str, usize> {
        let open: Vec<Arc<Gates>> = self.lock().iter().filter_map(Weak::upgrade).collect();
        let mut least = BTreeMap::new();
        for (service, gate) in open.iter().flat_map(|gates| Service::ALL.into_iter().zip(gates.iter())) {
            let limit = gate.limit();
            least
                .entry(service.name())
                .and_modify(|known: &mut usize| *known = limit.min(*known))
                .or_insert(limit);
        }
        least
    }
}

/// Gauges whose series end with the sessions.
impl Collector for OpenGates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let (name, help) =
            ("capstan_cloud_gate_limit", "Lowest limit of concurrent calls of a session, by service");
        let mut gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (service, limit) in self.limits() {
            gauge.encode_family(&GateLabels { service })?.encode_gauge(&limit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::rate_limit::{RateLimit, Verdict};

    fn text(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    #[tokio::test]
    async fn the_lowest_limit_of_all_sessions_is_shown_until_its_session_ends() {
        let mut registry = Registry::default();
        let metrics = CloudMetrics::registered(&mut registry);
        let [calm, slowed] = [(); 2].map(|()| Arc::new(Service::ALL.map(|_| RateLimit::default())));
        metrics.watch(&calm);
        metrics.watch(&slowed);
        let leave = slowed[0].enter().await;
        slowed[0].leave(leave, Verdict::TooMany(None));
        let found = text(&registry);
        assert!(found.contains("capstan_cloud_gate_limit{service=\"Nova\"} 8\n"), "{found}");
        assert!(found.contains("capstan_cloud_gate_limit{service=\"Neutron\"} 16\n"), "{found}");
        drop(slowed);
        let found = text(&registry);
        assert!(found.contains("capstan_cloud_gate_limit{service=\"Nova\"} 16\n"), "{found}");
        drop(calm);
        assert!(!text(&registry).contains("capstan_cloud_gate_limit{"), "{}", text(&registry));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_is_granted_or_refused() {
        let mut registry = Registry::default();
        let metrics = CloudMetrics::registered(&mut registry);
        let counts = |granted: u8, refused: u8| {
            let found = text(&registry);
            for (result, count) in [(GRANTED, granted), (REFUSED, refused)] {
                let line = format!("capstan_cloud_permits_total{{result=\"{result}\"}} {count}\n");
                assert!(found.contains(&line), "{line}{found}");
            }
        };
        counts(0, 0);
        metrics.permitted(std::future::ready(())).await;
        counts(1, 0);
        let lost = metrics.permitted(std::future::pending::<()>());
        tokio::time::timeout(Duration::from_secs(1), lost).await.unwrap_err();
        counts(1, 1);
    }
}
