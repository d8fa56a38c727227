//! Verification of the certificates of servers. The sessions of a process share their verifiers.
//!
//! A verifier holds all CAs of the system. It reads and parses them, which takes milliseconds, and keeps about a hundred
//! kilobytes. A site may have hundreds of credentials, and each has a session.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_platform_verifier::Verifier;

use crate::error_mapping::root_cause;

/// Time after which a new session reads the CAs of the system again, so that a changed CA counts without a restart.
const FRESH: Duration = Duration::from_mins(10);

/// Verifiers that are kept. The clouds of a site mostly have the same CA; with more, those that were made first are made
/// again.
const KEPT: usize = 16;

/// Protocols that a client offers, the preferred one first, as the HTTP library does by default.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Verifiers, in the order in which they were made.
static KNOWN: Mutex<Vec<Known>> = Mutex::new(Vec::new());

/// A verifier, and the CAs in PEM that it trusts beside those of the system.
struct Known {
    authority: Option<String>,
    made: Instant,
    verifier: Arc<Verifier>,
}

impl Known {
    fn is_fresh(&self) -> bool {
        self.made.elapsed() < FRESH
    }
}

/// Returns the TLS settings of a client. `authority`: CAs in PEM that it trusts beside those of the system.
///
/// # Errors
/// The text says why the CAs cannot be used.
pub(crate) fn client_config(authority: Option<&str>) -> Result<ClientConfig, String> {
    let provider = provider();
    let verifier = verifier(authority, &provider)?;
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| root_cause(&error))?.dangerous();
    let mut config = config.with_custom_certificate_verifier(verifier).with_no_client_auth();
    config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).into();
    Ok(config)
}

/// Returns the crypto provider of the process.
fn provider() -> Arc<CryptoProvider> {
    CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()))
}

/// Returns the verifier for these CAs, and makes it if none is known.
fn verifier(authority: Option<&str>, provider: &Arc<CryptoProvider>) -> Result<Arc<Verifier>, String> {
    if let Some(known) = known(authority) {
        return Ok(known);
    }
    let roots = authority.map(certificates).transpose()?.unwrap_or_default();
    let made = Verifier::new_with_extra_roots(roots, Arc::clone(provider));
    let made = Arc::new(made.map_err(|error| root_cause(&error))?);
    keep(authority, &made);
    Ok(made)
}

fn known(authority: Option<&str>) -> Option<Arc<Verifier>> {
    let all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let found = all.iter().find(|it| it.is_fresh() && it.authority.as_deref() == authority)?;
    Some(Arc::clone(&found.verifier))
}

fn keep(authority: Option<&str>, verifier: &Arc<Verifier>) {
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|it| it.is_fresh() && it.authority.as_deref() != authority);
    if all.len() >= KEPT {
        all.remove(0);
    }
    let (authority, made) = (authority.map(str::to_owned), Instant::now());
    all.push(Known { authority, made, verifier: Arc::clone(verifier) });
}

/// Reads certificates in PEM.
fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    found.map_err(|error| root_cause(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_with_the_same_cas_share_a_verifier() {
        let ca = || rcgen::generate_simple_self_signed(vec!["cloud.example".to_owned()]).unwrap().cert.pem();
        let (one, other) = (ca(), ca());
        let of = |authority: Option<&str>| verifier(authority, &provider()).unwrap();
        assert!(Arc::ptr_eq(&of(Some(&one)), &of(Some(&one))));
        assert!(!Arc::ptr_eq(&of(Some(&one)), &of(Some(&other))));
        assert!(!Arc::ptr_eq(&of(Some(&one)), &of(None)));
        assert_eq!(client_config(Some(&one)).unwrap().alpn_protocols, PROTOCOLS);
    }

    #[test]
    fn cas_that_cannot_be_read_or_parsed_are_errors() {
        for content in ["!!!", "AAAA"] {
            let pem = format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
            assert!(client_config(Some(&pem)).is_err(), "{content}");
        }
    }
}
