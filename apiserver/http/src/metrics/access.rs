//! Who came in, and what they were allowed.

use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use apiserver_access::{Unauthenticated, User};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::labels::RequestLabels;
use super::{Counters, Histograms};
use crate::filters::authorization::Decided;

/// Upstream's: doubled from a millisecond. Unit: seconds.
const DECISIONS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// Upstream's, from expired to a year. Unit: seconds.
const LIFETIMES: [f64; 14] = [
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

/// Names that upstream shows; all others are of people, and too many.
const SHOWN: [&str; 5] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];

#[derive(Debug)]
pub(super) struct AccessMetrics {
    attempts: Counters<ResultLabels>,
    attempt_durations: Histograms<ResultLabels>,
    users: Counters<UserLabels>,
    decisions: Counters<ResultLabels>,
    decision_durations: Histograms<ResultLabels>,
    lifetimes: Histogram,
    handshake_errors: Counter<u64, AtomicU64>,
    deprecated: Family<DeprecatedLabels, Gauge>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UserLabels {
    username: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DeprecatedLabels {
    group: String,
    version: String,
    resource: String,
    subresource: String,
    /// The release of Kubernetes that has it no more: none is planned for ours.
    removed_release: &'static str,
}

impl AccessMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let metrics = Self {
            attempts: Family::default(),
            attempt_durations: Family::new_with_constructor(|| Histogram::new(DECISIONS)),
            users: Family::default(),
            decisions: Family::default(),
            decision_durations: Family::new_with_constructor(|| Histogram::new(DECISIONS)),
            lifetimes: Histogram::new(LIFETIMES),
            handshake_errors: Counter::default(),
            deprecated: Family::default(),
        };
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "authentication_attempts",
            "Requests by whether it is known whose they are",
            self.attempts.clone(),
        );
        registry.register(
            "authentication_duration_seconds",
            "Time to find out whose a request is",
            self.attempt_durations.clone(),
        );
        registry.register("authenticated_user_requests", "Requests by user", self.users.clone());
        registry.register(
            "authorization_attempts",
            "Requests by whether they were allowed",
            self.decisions.clone(),
        );
        registry.register(
            "authorization_duration_seconds",
            "Time to find out whether a request is allowed",
            self.decision_durations.clone(),
        );
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "What was left of the certificates that requests came with",
            self.lifetimes.clone(),
        );
        registry.register(
            "apiserver_tls_handshake_errors",
            "Connections that never became one",
            self.handshake_errors.clone(),
        );
        registry.register(
            "apiserver_requested_deprecated_apis",
            "Deprecated versions that somebody asked for",
            self.deprecated.clone(),
        );
    }

    pub(super) fn authenticated(&self, found: &Result<User, Unauthenticated>, took: Duration) {
        let result = match found {
            Ok(_) => "success",
            Err(Unauthenticated::Refused) => "failure",
            Err(Unauthenticated::Unanswered(_)) => "error",
        };
        self.attempts.get_or_create(&ResultLabels { result }).inc();
        self.attempt_durations.get_or_create(&ResultLabels { result }).observe(took.as_secs_f64());
        if let Ok(user) = found {
            self.users.get_or_create(&UserLabels { username: shown(&user.name) }).inc();
        }
    }

    pub(super) fn decided(&self, decided: &Decided, took: Duration) {
        let result = match decided.word {
            Some("allow") => "allowed",
            Some(_) => "denied",
            None => "error",
        };
        self.decisions.get_or_create(&ResultLabels { result }).inc();
        self.decision_durations.get_or_create(&ResultLabels { result }).observe(took.as_secs_f64());
    }

    pub(super) fn certificate(&self, left: Duration) {
        self.lifetimes.observe(left.as_secs_f64());
    }

    pub(super) fn handshake_failed(&self) {
        self.handshake_errors.inc();
    }

    pub(super) fn deprecated(&self, request: &RequestLabels) {
        let RequestLabels { group, version, resource, subresource, .. } = request.clone();
        let labels = DeprecatedLabels { group, version, resource, subresource, removed_release: "" };
        self.deprecated.get_or_create(&labels).set(1);
    }
}

/// The name of a user as a label.
fn shown(name: &str) -> &'static str {
    let known = SHOWN.into_iter().find(|shown| *shown == name);
    let kind = if name.contains('@') { "email_id" } else { "other" };
    known.unwrap_or(kind)
}

/// What is left until `end`, in seconds since 1970: nothing, when it is past.
pub(super) fn left_until(end: i64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(u64::try_from(end).unwrap_or_default()).saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::metrics::text::prometheus;

    #[test]
    fn who_came_in_is_counted_without_names_of_people() {
        let mut registry = Registry::default();
        let metrics = AccessMetrics::new(&mut registry);
        let named = |name: &str| User { name: name.to_owned(), ..User::default() };
        let took = Duration::from_millis(3);
        metrics.authenticated(&Ok(named("alice@example.com")), took);
        metrics.authenticated(&Ok(named("kubelet")), took);
        metrics.authenticated(&Err(Unauthenticated::Refused), took);
        metrics.decided(&Decided { word: Some("forbid"), reason: String::new(), result: Ok(()) }, took);
        metrics.certificate(left_until(0));
        metrics.handshake_failed();
        metrics.deprecated(&RequestLabels { resource: "machines".to_owned(), ..RequestLabels::default() });
        let mut encoded = String::new();
        encode(&mut encoded, &registry).unwrap();
        let text = prometheus(&encoded);
        for line in [
            "authentication_attempts{result=\"success\"} 2\n",
            "authentication_attempts{result=\"failure\"} 1\n",
            "authentication_duration_seconds_bucket{le=\"0.004\",result=\"failure\"} 1\n",
            "authenticated_user_requests{username=\"email_id\"} 1\n",
            "authenticated_user_requests{username=\"kubelet\"} 1\n",
            "authorization_attempts_total{result=\"denied\"} 1\n",
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"0\"} 1\n",
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"2.592e+06\"} 1\n",
            "apiserver_tls_handshake_errors_total 1\n",
            "apiserver_requested_deprecated_apis{group=\"\",version=\"\",resource=\"machines\",subresource=\"\",removed_release=\"\"} 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
