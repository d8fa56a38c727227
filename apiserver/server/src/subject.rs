//! Subject of a client certificate with several groups.
//!
//! The library that signs certificates allows one organization. Each group of a user is an organization, so this module
//! replaces the subject of a signed certificate, and signs it again.

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, SigningKey};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Content of the object identifier of a common name: 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// Content of the object identifier of an organization: 2.5.4.10.
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];

const BIT_STRING: u8 = 0x03;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// Characters in a line of PEM.
const LINE: usize = 64;

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
    Ok(pem(&element(SEQUENCE, &[&signed[..], algorithm, &signature].concat())))
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

fn subject(user: &str, groups: &[String]) -> Vec<u8> {
    let organizations = groups.iter().map(|group| (ORGANIZATION, group.as_str()));
    let names = std::iter::once((COMMON_NAME, user)).chain(organizations);
    let names = names.map(|(kind, text)| {
        let parts = [element(OBJECT_IDENTIFIER, &kind), element(UTF8_STRING, text.as_bytes())];
        element(SET, &element(SEQUENCE, &parts.concat()))
    });
    element(SEQUENCE, &names.collect::<Vec<_>>().concat())
}

/// Encodes an element: its tag, its length and its content.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut encoded = vec![tag];
    match *length.as_slice() {
        [] => encoded.push(0),
        [short] if short < 0x80 => encoded.push(short),
        _ => {
            // A length has at most eight bytes.
            encoded.push(0x80 | u8::try_from(length.len()).unwrap_or_default());
            encoded.extend(length);
        }
    }
    encoded.extend(content);
    encoded
}

fn pem(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
        pem.push_str(line);
        pem.push('\n');
        rest = next;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
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
