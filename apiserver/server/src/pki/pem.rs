//! Certificates, revocation lists and keys in PEM.

use anyhow::{Context, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Parses the certificates in a PEM text. Errors begin with `what`.
pub(crate) fn certificates(pem: &str, what: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.with_context(|| format!("{what}: not valid PEM"))?;
    if found.is_empty() {
        bail!("{what}: holds no certificate");
    }
    Ok(found)
}

/// Parses the certificate revocation lists in a PEM text. Errors begin with `what`.
pub(crate) fn revocation_lists(
    pem: &str,
    what: &str,
) -> anyhow::Result<Vec<CertificateRevocationListDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem.as_bytes()).collect();
    let found = found.with_context(|| format!("{what}: not valid PEM"))?;
    if found.is_empty() {
        bail!("{what}: holds no certificate revocation list");
    }
    Ok(found)
}

/// Returns certificates of which at least one has not expired.
pub(crate) fn valid_certificates(pem: &str, what: &str) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = certificates(pem, what)?;
    let is_valid = |certificate: &CertificateDer<'_>| {
        X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| parsed.validity().is_valid())
    };
    if !found.iter().any(is_valid) {
        bail!("{what}: has expired");
    }
    Ok(found)
}

/// Returns the DNS names of a certificate.
pub(crate) fn names(chain: &[CertificateDer<'static>]) -> anyhow::Result<Vec<String>> {
    let leaf = chain.first().context("the chain holds no certificate")?;
    let (_, certificate) = X509Certificate::from_der(leaf).context("not an X.509 certificate")?;
    let found = certificate.subject_alternative_name().context("cannot read the names of the certificate")?;
    let names =
        found.into_iter().flat_map(|found| &found.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        });
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        bail!("a certificate in tls.sniCertificates has no DNS name: give `names`");
    }
    Ok(names)
}

/// Parses the private key in a PEM text. Errors begin with `what`.
pub(crate) fn key(pem: &str, what: &str) -> anyhow::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| anyhow::anyhow!("{what}: holds no private key"))
}
