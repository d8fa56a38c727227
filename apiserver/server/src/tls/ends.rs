//! Metric with the ends of the server's certificates. Alerts use it.

use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::pki;

/// Certificate that a series is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Certificate {
    certificate: &'static str,
}

/// Ends of certificates.
#[derive(Debug, Clone, Default)]
pub(super) struct CertificateEnds(Family<Certificate, Gauge>);

impl CertificateEnds {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "capstan_certificate_end_timestamp_seconds",
            "End of each certificate that the server uses, the first one of a chain to end",
            self.0.clone(),
        );
    }

    /// Sets the end of a certificate in PEM. Without one, or if it cannot be read, the series is left out.
    pub(super) fn set(&self, certificate: &'static str, pem: Option<&str>) {
        let labels = Certificate { certificate };
        match pem.and_then(end) {
            Some(end) => {
                self.0.get_or_create(&labels).set(end);
            }
            None => {
                self.0.remove(&labels);
            }
        }
    }
}

/// Returns the first end in a chain, in seconds since 1970.
fn end(pem: &str) -> Option<i64> {
    let chain = pki::certificates(pem, "a certificate").ok()?;
    let ends = chain.iter().filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        // A year beyond the range of timestamps means that the certificate never ends.
        let end = certificate.validity().not_after.timestamp();
        Timestamp::from_second(end).ok().map(Timestamp::as_second)
    });
    ends.min()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;

    use super::*;
    use crate::pki::Authority;

    #[test]
    fn a_chain_ends_with_its_first_certificate_and_a_file_without_one_has_no_series() {
        let directory = tempfile::tempdir().unwrap();
        let ca = Authority::open(directory.path()).unwrap();
        let short = ca.client("a", &[], None, Duration::from_secs(3600)).unwrap();
        let (ends, mut registry) = (CertificateEnds::default(), Registry::default());
        ends.register(&mut registry);
        ends.set("serving", Some(&format!("{}{}", ca.certificate(), short.certificate)));
        ends.set("etcd-client", Some("none"));
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let prefix = "capstan_certificate_end_timestamp_seconds{certificate=\"serving\"} ";
        let line = text().lines().find_map(|line| line.strip_prefix(prefix).map(str::to_owned)).unwrap();
        let left = line.parse::<i64>().unwrap() - Timestamp::now().as_second();
        assert!((3500..=3600).contains(&left), "{left}");
        assert!(!text().contains("etcd-client"));
        ends.set("serving", None);
        assert!(!text().contains("\"serving\""));
    }
}
