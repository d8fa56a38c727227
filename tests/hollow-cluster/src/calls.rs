//! Calls of the workload API: their kinds, and failures that tests inject.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Mutex;

use http::Method;

use crate::api::request::Request;
use crate::lock;

/// Kind of call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadCall {
    /// Verb of Kubernetes, e.g. `list`. An eviction is `create`, a port-forward is `get`.
    pub verb: &'static str,
    /// Plural of the kind with its subresource, e.g. `pods/eviction`. A path without a kind stands for itself.
    pub resource: String,
}

impl fmt::Display for WorkloadCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

impl WorkloadCall {
    pub(crate) fn of(request: &Request) -> Self {
        let Ok(target) = request.target() else {
            return Self { verb: verb(request, true), resource: request.path.clone() };
        };
        let subresource = target.subresource.map(|it| format!("/{it}")).unwrap_or_default();
        let resource = format!("{}{subresource}", target.kind.plural);
        Self { verb: verb(request, target.name.is_some()), resource }
    }
}

fn verb(request: &Request, named: bool) -> &'static str {
    let watches = ["true", "1"].contains(&request.parameter("watch"));
    match request.method {
        Method::GET if watches => "watch",
        Method::GET if named => "get",
        Method::GET => "list",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if named => "delete",
        Method::DELETE => "deletecollection",
        _ => "other",
    }
}

/// Failure of calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadEffect {
    /// The connection is reset before the call has an effect.
    ResetBefore,
    /// The call has its effect, and the connection is reset instead of an answer.
    ResetAfter,
    /// The call has its effect, and the connection is reset after half of the answer.
    HalfAnswer,
    /// The call has no effect and no answer.
    Hang,
    /// A proxy answers with its own page.
    Html {
        /// HTTP status.
        code: u16,
    },
    /// The API server answers with an error.
    Status {
        /// HTTP status.
        code: u16,
        /// Reason of the Status, e.g. `Forbidden`.
        reason: &'static str,
        /// Message of the Status.
        message: &'static str,
        /// Seconds in the header `Retry-After`.
        retry_after: Option<u32>,
    },
}

/// Injected failure of the workload APIs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFault {
    /// Endpoint of the cluster whose calls fail; `None` for all clusters.
    pub endpoint: Option<SocketAddr>,
    /// Kind of the calls that fail; `None` for all.
    pub call: Option<WorkloadCall>,
    /// Way in which they fail.
    pub effect: WorkloadEffect,
    /// Number of calls that fail; `None` until the error is cleared.
    pub count: Option<u64>,
}

/// Injected failure of the endpoints, before any call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointFault {
    /// Connections are refused.
    Refuse,
    /// The serving certificate is of an authority of others.
    OtherAuthority,
    /// The serving certificate is of the cluster's authority, and expired yesterday.
    ExpiredCertificate,
}

/// Calls so far, and the failures of the next ones.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    seen: Mutex<BTreeMap<WorkloadCall, u64>>,
    faults: Mutex<Vec<WorkloadFault>>,
    failed: Mutex<BTreeMap<WorkloadCall, u64>>,
    endpoints: Mutex<Option<EndpointFault>>,
}

impl Calls {
    pub(crate) fn inject(&self, fault: WorkloadFault) {
        lock(&self.faults).push(fault);
    }

    pub(crate) fn set_endpoints(&self, fault: Option<EndpointFault>) {
        *lock(&self.endpoints) = fault;
    }

    pub(crate) fn endpoints(&self) -> Option<EndpointFault> {
        *lock(&self.endpoints)
    }

    /// Ends the failures of one kind of call.
    pub(crate) fn clear_faults_of(&self, call: &WorkloadCall) {
        lock(&self.faults).retain(|fault| fault.call.as_ref() != Some(call));
    }

    /// Ends all failures.
    pub(crate) fn clear_faults(&self) {
        lock(&self.faults).clear();
        self.set_endpoints(None);
    }

    /// Forgets the calls so far.
    pub(crate) fn forget(&self) {
        lock(&self.seen).clear();
        lock(&self.failed).clear();
    }

    pub(crate) fn seen(&self) -> BTreeMap<WorkloadCall, u64> {
        lock(&self.seen).clone()
    }

    pub(crate) fn failed(&self) -> BTreeMap<WorkloadCall, u64> {
        lock(&self.failed).clone()
    }

    /// Records a call, and returns how it fails. The oldest failure that applies has precedence.
    pub(crate) fn record(&self, endpoint: SocketAddr, call: WorkloadCall) -> Option<WorkloadEffect> {
        *lock(&self.seen).entry(call.clone()).or_default() += 1;
        let mut faults = lock(&self.faults);
        let applies = |fault: &WorkloadFault| {
            fault.endpoint.is_none_or(|it| it == endpoint)
                && fault.call.as_ref().is_none_or(|kind| *kind == call)
        };
        let position = faults.iter().position(applies)?;
        let fault = faults.get_mut(position)?;
        let effect = fault.effect.clone();
        if let Some(count) = &mut fault.count {
            *count = count.saturating_sub(1);
            if *count == 0 {
                faults.remove(position);
            }
        }
        *lock(&self.failed).entry(call).or_default() += 1;
        Some(effect)
    }
}
