//! Metrics of the authorizers: the requests that each of them has allowed or denied.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::Registry;

use super::{Count, Counters};

/// Authorizers of the server itself, which have one instance each.
const OWN: [&str; 7] = ["Host", "HostMirror", "Keystone", "Machine", "RBAC", "ServiceAccounts", "System"];

/// Decisions of one authorizer, as metric labels. They end a chain.
const DECISIONS: [&str; 2] = ["allowed", "denied"];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AuthorizerLabels {
    r#type: String,
    name: String,
    decision: &'static str,
}

impl AuthorizerLabels {
    /// Creates the labels of an authorizer, such as `RBAC` or `Webhook/NAME`. As in upstream, the name of an
    /// authorizer that has only its type is that type in lower case.
    fn new(authorizer: &str, decision: &'static str) -> Self {
        let (kind, name) = match authorizer.split_once('/') {
            Some((kind, name)) => (kind, name.to_owned()),
            None => (authorizer, authorizer.to_lowercase()),
        };
        Self { r#type: kind.to_owned(), name, decision }
    }
}

#[derive(Debug)]
pub(super) struct AuthorizerMetrics {
    all: Counters<AuthorizerLabels>,
    own: [(&'static str, [Count; DECISIONS.len()]); OWN.len()],
}

impl AuthorizerMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let all: Counters<AuthorizerLabels> = Counters::default();
        registry.register(
            "apiserver_authorization_decisions",
            "Requests that an authorizer has allowed or denied, by authorizer",
            all.clone(),
        );
        let count = |name, decision| all.get_or_create_owned(&AuthorizerLabels::new(name, decision));
        let own = OWN.map(|name| (name, DECISIONS.map(|decision| count(name, decision))));
        Self { all, own }
    }

    /// Counts the decision of an authorizer. Only `allowed` and `denied` are decisions of one authorizer. The name is
    /// empty if no authorizer of a chain has decided, or if it has no name.
    pub(super) fn decided(&self, authorizer: &str, decision: &'static str) {
        let Some(index) = DECISIONS.iter().position(|known| *known == decision) else { return };
        if authorizer.is_empty() {
            return;
        }
        let own = self.own.iter().find(|(name, _)| *name == authorizer);
        match own.and_then(|(_, counts)| counts.get(index)) {
            Some(count) => {
                count.inc();
            }
            // Names of webhooks are in a file of the operator, so there are few.
            None => {
                self.all.get_or_create(&AuthorizerLabels::new(authorizer, decision)).inc();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::observe::metrics::text::prometheus;

    #[test]
    fn only_the_authorizer_that_has_decided_is_counted() {
        let mut registry = Registry::default();
        let metrics = AuthorizerMetrics::new(&mut registry);
        for (authorizer, decision) in [
            ("RBAC", "allowed"),
            ("RBAC", "allowed"),
            ("Webhook/tenants", "denied"),
            ("Webhook/tenants", "allowed"),
            ("", "allowed"),
            ("", "no-opinion"),
            ("Host", "error"),
        ] {
            metrics.decided(authorizer, decision);
        }
        let mut encoded = String::new();
        encode(&mut encoded, &registry).unwrap();
        let text = prometheus(&encoded);
        let line = |labels: &str, count: u64| {
            format!("apiserver_authorization_decisions_total{{{labels}}} {count}\n")
        };
        for (labels, count) in [
            ("type=\"RBAC\",name=\"rbac\",decision=\"allowed\"", 2),
            ("type=\"RBAC\",name=\"rbac\",decision=\"denied\"", 0),
            ("type=\"Host\",name=\"host\",decision=\"allowed\"", 0),
            ("type=\"Webhook\",name=\"tenants\",decision=\"allowed\"", 1),
            ("type=\"Webhook\",name=\"tenants\",decision=\"denied\"", 1),
        ] {
            assert!(text.contains(&line(labels, count)), "{labels} {count}\n{text}");
        }
        let series = text.lines().filter(|line| line.starts_with("apiserver_authorization_decisions_total{"));
        assert_eq!(series.count(), 2 * (OWN.len() + 1), "{text}");
    }
}
