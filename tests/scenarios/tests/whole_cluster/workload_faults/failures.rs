//! Ways in which calls of a workload API fail, and the words by which the failure is recognized.

use tests_hollow_cluster::{EndpointFault, HollowClusters, WorkloadCall, WorkloadEffect, WorkloadFault};

/// Way in which calls fail.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) name: &'static str,
    kind: Kind,
    /// Parts of a message of which one must appear.
    words: &'static [&'static str],
}

#[derive(Debug, Clone)]
enum Kind {
    Call(WorkloadEffect),
    /// Each call fails, because no connection comes about.
    Endpoint(EndpointFault),
}

impl Failure {
    /// Lets every call of this kind fail.
    pub(crate) fn plant(&self, hollow: &HollowClusters, call: &WorkloadCall) {
        match &self.kind {
            Kind::Call(effect) => {
                let (call, effect) = (Some(call.clone()), effect.clone());
                hollow.inject(WorkloadFault { endpoint: None, call, effect, count: None });
            }
            Kind::Endpoint(fault) => hollow.endpoint_fault(Some(*fault)),
        }
    }

    /// Lets these calls work again.
    pub(crate) fn end(&self, hollow: &HollowClusters, call: &WorkloadCall) {
        match self.kind {
            Kind::Call(_) => hollow.clear_faults_of(call),
            Kind::Endpoint(_) => hollow.endpoint_fault(None),
        }
    }

    /// Returns true if no call succeeds.
    pub(crate) fn is_of_endpoint(&self) -> bool {
        matches!(self.kind, Kind::Endpoint(_))
    }

    /// Returns true if the next call finds that this one had its effect, so that there is nothing to tell.
    pub(crate) fn has_effect(&self, call: &WorkloadCall) -> bool {
        let lost = matches!(self.kind, Kind::Call(WorkloadEffect::ResetAfter | WorkloadEffect::HalfAnswer));
        lost && ["create", "update", "patch", "delete"].contains(&call.verb)
    }

    /// Returns true if a message tells this failure.
    pub(crate) fn is_named_by(&self, message: &str) -> bool {
        self.words.iter().any(|word| message.contains(word))
    }
}

/// Returns an error of the API server.
const fn status(code: u16, reason: &'static str, message: &'static str, retry: Option<u32>) -> Kind {
    Kind::Call(WorkloadEffect::Status { code, reason, message, retry_after: retry })
}

const fn failure(name: &'static str, kind: Kind, words: &'static [&'static str]) -> Failure {
    Failure { name, kind, words }
}

/// Failures of single calls. Those that messages tell alike are at least three positions apart, because three calls fail
/// during one change.
pub(crate) const OF_CALLS: [Failure; 11] = [
    failure("reset", Kind::Call(WorkloadEffect::ResetBefore), &["reset by peer"]),
    failure("hang", Kind::Call(WorkloadEffect::Hang), &["no complete answer within", "no answer to GET /"]),
    failure("page", Kind::Call(WorkloadEffect::Html { code: 502 }), &["HTML"]),
    failure("500", status(500, "InternalError", "etcdserver: leader changed", None), &["leader changed"]),
    failure("unanswered", Kind::Call(WorkloadEffect::ResetAfter), &["reset by peer"]),
    failure(
        "503",
        status(503, "ServiceUnavailable", "apiserver not ready", Some(1)),
        &["apiserver not ready"],
    ),
    failure(
        "429",
        status(429, "TooManyRequests", "too many requests, wait", Some(1)),
        &["too many requests"],
    ),
    failure("page without error", Kind::Call(WorkloadEffect::Html { code: 200 }), &["HTML"]),
    failure("half an answer", Kind::Call(WorkloadEffect::HalfAnswer), &["body", "reset by peer"]),
    failure("403", status(403, "Forbidden", "user admin cannot do it", None), &["user admin cannot"]),
    failure("409", status(409, "Conflict", "the object has been modified", None), &["has been modified"]),
];

/// Failures of all calls.
pub(crate) const OF_ENDPOINTS: [Failure; 3] = [
    failure("refused", Kind::Endpoint(EndpointFault::Refuse), &["Connection refused"]),
    failure(
        "other authority",
        Kind::Endpoint(EndpointFault::OtherAuthority),
        &["authority that the kubeconfig"],
    ),
    failure("expired", Kind::Endpoint(EndpointFault::ExpiredCertificate), &["certificate expired"]),
];
