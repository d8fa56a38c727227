//! Metrics of the calls to clouds.

use std::time::Duration;

use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::request::Service;

/// Buckets of the durations, in seconds. A call may take a minute: Nova waits for Neutron and Cinder.
const DURATIONS: [f64; 11] = [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Label `code` of a call without a response, as in the metrics of Kubernetes' clients.
const NO_RESPONSE: &str = "<error>";

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

/// Metrics of the calls of all sessions. Clones share them.
#[derive(Debug, Clone)]
pub struct CloudMetrics {
    calls: Family<CallLabels, Counter>,
    durations: Family<DurationLabels, Histogram, fn() -> Histogram>,
}

impl Default for CloudMetrics {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
        }
    }
}

impl CloudMetrics {
    /// Creates the metrics `capstan_cloud_requests_total` and `capstan_cloud_request_duration_seconds` in a registry.
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
        metrics
    }

    /// Records a call. `status` is `None` without a response.
    pub(crate) fn record(&self, service: Service, method: &Method, status: Option<u16>, took: Duration) {
        let (service, method) = (service.name(), method.to_string());
        let code = status.map_or_else(|| NO_RESPONSE.to_owned(), |status| status.to_string());
        self.calls.get_or_create(&CallLabels { service, method: method.clone(), code }).inc();
        self.durations.get_or_create(&DurationLabels { service, method }).observe(took.as_secs_f64());
    }
}
