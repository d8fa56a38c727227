//! Metrics of the keys of issuers, with kube-apiserver's names.

use std::sync::atomic::AtomicU64;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FetchLabels {
    result: &'static str,
    jwt_issuer_hash: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SetLabels {
    jwt_issuer_hash: String,
    hash: String,
}

/// Metrics of the keys of issuers. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct KeyMetrics {
    last_fetch: Family<FetchLabels, Gauge<f64, AtomicU64>>,
    key_set: Family<SetLabels, Gauge>,
}

impl KeyMetrics {
    /// Creates the metrics in a registry.
    pub fn registered(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
            "Time of the last attempt to fetch the keys of an issuer, by result and by the hash of the issuer",
            metrics.last_fetch.clone(),
        );
        registry.register(
            "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
            "1 for the keys of an issuer that were fetched last, by their hash and by the hash of the issuer",
            metrics.key_set.clone(),
        );
        metrics
    }

    /// Records an attempt. `document` are the keys after a success.
    pub(crate) fn fetched(&self, issuer: &str, document: Option<&str>) {
        let jwt_issuer_hash = hash(issuer);
        let result = if document.is_some() { "success" } else { "failure" };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let labels = FetchLabels { result, jwt_issuer_hash: jwt_issuer_hash.clone() };
        self.last_fetch.get_or_create(&labels).set(now);
        if let Some(document) = document {
            let labels = SetLabels { jwt_issuer_hash, hash: hash(document) };
            self.key_set.get_or_create(&labels).set(1);
        }
    }

    /// Removes the keys that were fetched before these.
    pub(crate) fn replaced(&self, issuer: &str, document: &str) {
        self.key_set.remove(&SetLabels { jwt_issuer_hash: hash(issuer), hash: hash(document) });
    }
}

fn hash(text: &str) -> String {
    let hex: String =
        digest(&SHA256, text.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_set_of_an_issuer_is_shown() {
        let mut registry = Registry::default();
        let metrics = KeyMetrics::registered(&mut registry);
        metrics.fetched("https://i", Some("a"));
        metrics.replaced("https://i", "a");
        metrics.fetched("https://i", Some("b"));
        metrics.fetched("https://i", None);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!(
            (count("key_set_info{"), count("result=\"success\""), count("result=\"failure\"")),
            (1, 1, 1)
        );
        assert!(!text.contains("https://i"), "{text}");
    }
}
