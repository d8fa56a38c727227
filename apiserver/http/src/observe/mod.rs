//! Observability of requests: the scope of one request, metrics, the audit log, and the health of the store.

pub(crate) mod audit;
pub(crate) mod metrics;
pub(crate) mod request_scope;
pub(crate) mod request_trace;
pub(crate) mod storage_health;

use crate::observe::audit::AuditLog;
use crate::observe::metrics::Metrics;

/// Metrics and the audit log: what every request scope reports to.
#[derive(Debug)]
pub(crate) struct Telemetry {
    pub(crate) metrics: Metrics,
    pub(crate) audit: Option<AuditLog>,
}
