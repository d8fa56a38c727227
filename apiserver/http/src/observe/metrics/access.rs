//! Metrics of authentication and authorization.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use apiserver_access::User;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::{Count, Counters, Histograms};

/// Buckets as in upstream: each twice the last, from a millisecond on. Unit: seconds.
const DURATIONS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// Buckets as in upstream, from expired to a year. Unit: seconds.
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

/// User names that upstream uses as labels. Other names are those of people, and too many.
const SHOWN: [&str; 5] =
    ["admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"];

/// Labels of all other user names.
const OTHERS: [&str; 2] = ["email_id", "other"];

/// Authorization decisions, as metric labels. A request on which no authorizer has an opinion is not counted as denied.
pub(crate) const DECISIONS: [&str; 4] = ["allowed", "denied", "no-opinion", "error"];

#[derive(Debug)]
pub(super) struct AccessMetrics {
    known: Outcome,
    refused: Outcome,
    users: [(&'static str, Count); SHOWN.len()],
    others: [(&'static str, Count); OTHERS.len()],
    decisions: [(&'static str, Outcome); DECISIONS.len()],
    lifetimes: Histogram,
    handshake_errors: Count,
    refused_handshakes: Count,
}

/// Number of results, and their time.
#[derive(Debug)]
struct Outcome {
    count: Count,
    took: Histogram,
}

impl Outcome {
    fn of(counts: &Counters<ResultLabels>, took: &Histograms<ResultLabels>, result: &'static str) -> Self {
        let labels = ResultLabels { result };
        Self { count: counts.get_or_create_owned(&labels), took: took.get_or_create_owned(&labels) }
    }

    fn observe(&self, took: Duration) {
        self.count.inc();
        self.took.observe(took.as_secs_f64());
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UserLabels {
    username: &'static str,
}

impl AccessMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let (attempts, attempt_durations) = (Counters::default(), durations());
        let (decisions, decision_durations) = (Counters::default(), durations());
        let (users, lifetimes, handshake_errors) =
            (Counters::default(), Histogram::new(LIFETIMES), Count::default());
        let refused_handshakes = Count::default();
        registry.register(
            "authentication_attempts",
            "Requests by whether it is known whose they are",
            attempts.clone(),
        );
        registry.register(
            "authentication_duration_seconds",
            "Time to find out whose a request is",
            attempt_durations.clone(),
        );
        registry.register("authenticated_user_requests", "Requests by user", users.clone());
        registry.register(
            "authorization_attempts",
            "Requests by whether they were allowed",
            decisions.clone(),
        );
        registry.register(
            "authorization_duration_seconds",
            "Time to find out whether a request is allowed",
            decision_durations.clone(),
        );
        registry.register(
            "apiserver_client_certificate_expiration_seconds",
            "What was left of the certificates that requests came with",
            lifetimes.clone(),
        );
        registry.register(
            "apiserver_tls_handshake_errors",
            "Connections that never became one",
            handshake_errors.clone(),
        );
        registry.register(
            "capstan_tls_handshakes_refused",
            "Connections that were closed before their handshake, because their address had opened too many",
            refused_handshakes.clone(),
        );
        let user = |username| (username, users.get_or_create_owned(&UserLabels { username }));
        let decision = |word| (word, Outcome::of(&decisions, &decision_durations, word));
        Self {
            known: Outcome::of(&attempts, &attempt_durations, "success"),
            refused: Outcome::of(&attempts, &attempt_durations, "error"),
            users: SHOWN.map(user),
            others: OTHERS.map(user),
            decisions: DECISIONS.map(decision),
            lifetimes,
            handshake_errors,
            refused_handshakes,
        }
    }

    /// Counts an authentication. As in upstream, an invalid credential is an `error`; a `failure` would be a request
    /// without credentials where those are required.
    pub(super) fn authenticated(&self, found: Option<&User>, took: Duration) {
        match found {
            Some(user) => {
                self.known.observe(took);
                let label = shown(&user.name);
                if let Some((_, count)) =
                    self.users.iter().chain(&self.others).find(|(known, _)| *known == label)
                {
                    count.inc();
                }
            }
            None => self.refused.observe(took),
        }
    }

    pub(super) fn decided(&self, word: &'static str, took: Duration) {
        if let Some((_, outcome)) = self.decisions.iter().find(|(known, _)| *known == word) {
            outcome.observe(took);
        }
    }

    pub(super) fn certificate(&self, left: Duration) {
        self.lifetimes.observe(left.as_secs_f64());
    }

    pub(super) fn handshake_failed(&self) {
        self.handshake_errors.inc();
    }

    pub(super) fn handshake_refused(&self) {
        self.refused_handshakes.inc();
    }
}

fn durations() -> Histograms<ResultLabels> {
    Histograms::new_with_constructor(|| Histogram::new(DURATIONS))
}

/// Returns the label of a user name.
fn shown(name: &str) -> &'static str {
    let known = SHOWN.into_iter().find(|shown| *shown == name);
    let [email, other] = OTHERS;
    known.unwrap_or_else(|| if name.contains('@') { email } else { other })
}

/// Returns the time until `end`, in seconds since 1970: zero if it is past.
pub(super) fn left_until(end: i64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Duration::from_secs(u64::try_from(end).unwrap_or_default()).saturating_sub(now)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::observe::metrics::text::prometheus;

    #[test]
    fn authentications_are_counted_without_user_names() {
        let mut registry = Registry::default();
        let metrics = AccessMetrics::new(&mut registry);
        let named = |name: &str| User { name: name.to_owned(), ..User::default() };
        let took = Duration::from_millis(3);
        metrics.authenticated(Some(&named("alice@example.com")), took);
        metrics.authenticated(Some(&named("kubelet")), took);
        metrics.authenticated(None, took);
        metrics.decided("no-opinion", took);
        metrics.certificate(left_until(0));
        metrics.handshake_failed();
        metrics.handshake_refused();
        let mut encoded = String::new();
        encode(&mut encoded, &registry).unwrap();
        let text = prometheus(&encoded);
        for line in [
            "authentication_attempts{result=\"success\"} 2\n",
            "authentication_attempts{result=\"error\"} 1\n",
            "authentication_duration_seconds_bucket{le=\"0.004\",result=\"error\"} 1\n",
            "authenticated_user_requests{username=\"email_id\"} 1\n",
            "authenticated_user_requests{username=\"kubelet\"} 1\n",
            "authorization_attempts_total{result=\"no-opinion\"} 1\n",
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"0\"} 1\n",
            "apiserver_client_certificate_expiration_seconds_bucket{le=\"2.592e+06\"} 1\n",
            "apiserver_tls_handshake_errors_total 1\n",
            "capstan_tls_handshakes_refused_total 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
