//! TLS of a node that knows the hash of the CA's key and nothing else.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, version,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::token::hex;
use crate::pki;

/// Time limit of a request. The server may have to wait for etcd.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Returns the hash that a join token has for each CA in PEM: SHA-256 of its public key, in hex.
///
/// # Errors
/// A text that is no certificate.
pub(crate) fn hashes_of_cas(pem: &str) -> anyhow::Result<Vec<String>> {
    let found = pki::certificates(pem, "the CA")?;
    found.iter().map(|ca| hash(ca).context("the CA is no X.509 certificate")).collect()
}

fn hash(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(hex(digest(&SHA256, parsed.public_key().raw).as_ref()))
}

/// Creates a client that talks only to servers whose certificate is signed by a CA with one of these hashes. The handshake
/// with any other server fails before the client has sent a request.
///
/// # Errors
/// TLS cannot be set up.
pub(crate) fn client(hashes: &[String]) -> anyhow::Result<reqwest::Client> {
    let provider = CryptoProvider::get_default().context("no provider of TLS is installed")?;
    let verifier = PinnedCa { hashes: hashes.to_vec(), provider: Arc::clone(provider) };
    let tls = ClientConfig::builder_with_protocol_versions(&[&version::TLS13])
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // A redirect would send the token elsewhere.
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
    builder.timeout(TIMEOUT).tls_backend_preconfigured(tls).build().context("cannot create an HTTP client")
}

/// Verifier that finds a CA in the chain of the server, by the hash of its key.
#[derive(Debug)]
struct PinnedCa {
    hashes: Vec<String>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCa {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_pinned = |certificate: &&CertificateDer<'_>| {
            hash(certificate).is_some_and(|hash| self.hashes.contains(&hash))
        };
        let ca = intermediates.iter().find(is_pinned).ok_or(CertificateError::UnknownIssuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(ca.clone().into_owned())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
                .build()
                .map_err(|_| CertificateError::UnknownIssuer)?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not offered".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
