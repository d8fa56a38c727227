//! Client certificates in the handshake: requested, and never refused.
//!
//! A client that fails in the handshake learns no reason and tries again. So the handshake accepts every certificate,
//! and [`apiserver_access::CertificatePools`] classifies it afterwards. A client with an untrusted certificate and no
//! other valid credential gets 401.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

/// Verifier that accepts every certificate whose key the client has.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    /// Names of the CAs in the request for a certificate: a client with several certificates chooses by them.
    ca_names: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyCertificate {
    pub(super) fn verifier(roots: &RootCertStore) -> Arc<dyn ClientCertVerifier> {
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(Self { ca_names: roots.subjects(), algorithms })
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.ca_names
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unless_unreadable(
            certificate,
            verify_tls12_signature(message, certificate, signature, &self.algorithms),
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        unless_unreadable(
            certificate,
            verify_tls13_signature(message, certificate, signature, &self.algorithms),
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Accepts a certificate that the library cannot parse, such as one of X.509 version 1, without a check of its
/// signature. The same library classifies certificates afterwards and cannot parse it then either, so its client is
/// untrusted.
fn unless_unreadable(
    certificate: &CertificateDer<'_>,
    verified: Result<HandshakeSignatureValid, Error>,
) -> Result<HandshakeSignatureValid, Error> {
    match ParsedCertificate::try_from(certificate) {
        Ok(_) => verified,
        Err(_) => Ok(HandshakeSignatureValid::assertion()),
    }
}
