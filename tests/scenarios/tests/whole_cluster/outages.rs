//! Random failures of a workload API that pass.

use std::time::Duration;

use proptest::prelude::*;
use tests_hollow_cluster::{EndpointFault, HollowClusters, WorkloadCall, WorkloadEffect, WorkloadFault};

/// Kinds of calls of all controllers.
const CALLS: [(&str, &str); 19] = [
    ("get", "/"),
    ("list", "nodes"),
    ("watch", "nodes"),
    ("get", "nodes"),
    ("patch", "nodes"),
    ("delete", "nodes"),
    ("get", "secrets"),
    ("create", "secrets"),
    ("patch", "secrets"),
    ("delete", "secrets"),
    ("get", "configmaps"),
    ("get", "pods"),
    ("list", "pods"),
    ("create", "pods/eviction"),
    ("get", "pods/portforward"),
    ("get", "daemonsets"),
    ("list", "services"),
    ("list", "volumeattachments"),
    ("list", "csidrivers"),
];

/// Time after which an endpoint works again.
const OUTAGE: Duration = Duration::from_secs(2);

/// Failures during one change.
#[derive(Debug, Clone)]
pub(crate) struct Outages {
    calls: Vec<WorkloadFault>,
    endpoint: Option<EndpointFault>,
}

impl Outages {
    pub(crate) fn begin(&self, hollow: &HollowClusters) {
        self.calls.iter().for_each(|fault| hollow.inject(fault.clone()));
        hollow.endpoint_fault(self.endpoint);
    }

    /// Lets the endpoint work again after a while. Never returns.
    pub(crate) async fn endpoint_returns(&self, hollow: &HollowClusters) {
        tokio::time::sleep(OUTAGE).await;
        hollow.endpoint_fault(None);
        std::future::pending().await
    }
}

fn status(code: u16, reason: &'static str, message: &'static str) -> WorkloadEffect {
    WorkloadEffect::Status { code, reason, message, retry_after: (code == 503).then_some(1) }
}

fn fault() -> impl Strategy<Value = WorkloadFault> {
    let effects = [
        WorkloadEffect::ResetBefore,
        WorkloadEffect::ResetAfter,
        WorkloadEffect::HalfAnswer,
        WorkloadEffect::Hang,
        WorkloadEffect::Html { code: 502 },
        WorkloadEffect::Html { code: 200 },
        status(500, "InternalError", "etcdserver: leader changed"),
        status(503, "ServiceUnavailable", "apiserver not ready"),
        status(429, "TooManyRequests", "too many requests"),
        status(403, "Forbidden", "forbidden"),
        status(409, "Conflict", "the object has been modified"),
    ];
    let parts = (prop::sample::select(effects.to_vec()), prop::sample::select(CALLS.to_vec()), 1..6u64);
    parts.prop_map(|(effect, (verb, resource), count)| {
        // A call that hangs takes ten seconds.
        let count = if effect == WorkloadEffect::Hang { 1 } else { count };
        let call = Some(WorkloadCall { verb, resource: resource.to_owned() });
        WorkloadFault { endpoint: None, call, effect, count: Some(count) }
    })
}

/// Returns failures that pass.
pub(crate) fn outages() -> impl Strategy<Value = Outages> {
    let endpoint = prop::sample::select(vec![
        None,
        None,
        None,
        Some(EndpointFault::Refuse),
        Some(EndpointFault::OtherAuthority),
        Some(EndpointFault::ExpiredCertificate),
    ]);
    (prop::collection::vec(fault(), 0..4), endpoint).prop_map(|(calls, endpoint)| Outages { calls, endpoint })
}
