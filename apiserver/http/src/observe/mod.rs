//! Observability of requests: the scope of one request, metrics, the audit log, and the health of the store.

pub(crate) mod audit;
pub(crate) mod metrics;
pub(crate) mod request_scope;
pub(crate) mod storage_health;
