//! Subject of a client certificate with several groups.
//!
//! The library that signs certificates allows one organization. Each group of a user is an organization, so this module
//! replaces the subject of a signed certificate, and signs it again.

use anyhow::{Context, anyhow};
use apiserver_cli::der::{BIT_STRING, SEQUENCE, element, pem, subject};
use rcgen::{KeyPair, SigningKey};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Returns the certificate with the name of this user and these groups as its subject, in PEM.
///
/// # Errors
/// The certificate cannot be read or signed.
pub(crate) fn replace(
    certificate: &[u8],
    user: &str,
    groups: &[String],
    key: &KeyPair,
) -> anyhow::Result<String> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).context("cannot read the new client certificate")?;
    let body = parsed.tbs_certificate.as_ref();
    let old = parsed.subject().as_raw();
    let at = body.windows(old.len()).rposition(|part| part == old);
    let (at, header) = at.zip(header_length(body)).ok_or_else(|| anyhow!("the subject is not found"))?;
    let (before, after) = (body.get(header..at), body.get(at.saturating_add(old.len())..));
    let (before, after) = before.zip(after).ok_or_else(|| anyhow!("the subject is not found"))?;
    let signed = element(SEQUENCE, &[before, &subject(user, groups), after].concat());
    let signature = key.sign(&signed).context("cannot sign the client certificate")?;
    // The first byte is the number of unused bits.
    let signature = element(BIT_STRING, &[&[0][..], &signature].concat());
    let algorithm = algorithm(certificate, body).ok_or_else(|| anyhow!("the signature is not found"))?;
    Ok(pem("CERTIFICATE", &element(SEQUENCE, &[&signed[..], algorithm, &signature].concat())))
}

/// Returns the element with the algorithm of the signature: it follows the signed part.
fn algorithm<'a>(certificate: &'a [u8], body: &[u8]) -> Option<&'a [u8]> {
    let rest = certificate.get(header_length(certificate)?.checked_add(body.len())?..)?;
    let length = usize::from(*rest.get(1)?);
    rest.get(..length.checked_add(2)?)
}

/// Returns the length of an element's tag and length.
fn header_length(element: &[u8]) -> Option<usize> {
    let first = usize::from(*element.get(1)?);
    Some(if first < 0x80 { 2 } else { first - 0x80 + 2 })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apiserver_access::{CertificatePools, Peer};
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, UnixTime};

    use crate::pki::{self, Authority};

    #[test]
    fn a_certificate_with_many_groups_is_valid_and_names_all_of_them() {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::open(directory.path()).unwrap();
        let ca = pki::certificates(authority.certificate(), "ca").unwrap();
        let pools = CertificatePools::new(&ca, &[]).unwrap();
        let long = "x".repeat(300);
        for groups in [vec![], vec!["a"], vec!["a", "b"], vec!["dev", "größe", &long, "ops"]] {
            let groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
            let pair = authority.client("alice", &groups, None, Duration::from_secs(60)).unwrap();
            let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
            let Peer::Known(peer) = pools.classify(&[certificate], UnixTime::now()) else {
                panic!("not valid: {groups:?}")
            };
            assert_eq!((peer.common_name.as_str(), &peer.organizations), ("alice", &groups));
        }
    }
}
