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

/// Returns the hash that a join token has for a CA in PEM: SHA-256 of its public key, in hex.
///
/// # Errors
/// A text that is no certificate.
pub(crate) fn hash_of_ca(pem: &str) -> anyhow::Result<String> {
    let found = pki::certificates(pem, "the CA")?;
    found.first().and_then(hash).context("the CA is no X.509 certificate")
}

fn hash(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Some(hex(digest(&SHA256, parsed.public_key().raw).as_ref()))
}

/// Creates a client that talks only to servers whose certificate is signed by the CA with this hash. The handshake with
/// any other server fails before the client has sent a request.
///
/// # Errors
/// TLS cannot be set up.
pub(crate) fn client(hash: &str) -> anyhow::Result<reqwest::Client> {
    let provider = CryptoProvider::get_default().context("no provider of TLS is installed")?;
    let verifier = PinnedCa { hash: hash.to_owned(), provider: Arc::clone(provider) };
    let tls = ClientConfig::builder_with_protocol_versions(&[&version::TLS13])
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    // A redirect would send the token elsewhere.
    let builder = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy();
    builder.timeout(TIMEOUT).tls_backend_preconfigured(tls).build().context("cannot create an HTTP client")
}

/// Verifier that finds the CA in the chain of the server, by the hash of its key.
#[derive(Debug)]
struct PinnedCa {
    hash: String,
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
        let is_pinned =
            |certificate: &&CertificateDer<'_>| hash(certificate).as_deref() == Some(self.hash.as_str());
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
