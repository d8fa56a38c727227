//! Client certificates in the handshake: asked for, and none refused.
//!
//! A handshake that fails tells a client nothing but that it failed, and it tries again. So whatever is
//! shown is taken here, and [`apiserver_access::CertificatePools`] says afterwards what it proves: who shows
//! a certificate that nobody vouches for, and nothing else that is good, gets 401.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

/// Takes every certificate whose key the client has.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    /// Names of the CAs that are asked for: a client with several certificates chooses by them.
    asked_for: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyCertificate {
    pub(super) fn verifier(roots: &RootCertStore) -> Arc<dyn ClientCertVerifier> {
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(Self { asked_for: roots.subjects(), algorithms })
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.asked_for
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

/// A certificate that the library cannot read, as one of X.509 version 1, has no key to check anything
/// with. The same library vouches for certificates afterwards and cannot read it then, either: whoever
/// shows it is a stranger.
fn unless_unreadable(
    certificate: &CertificateDer<'_>,
    verified: Result<HandshakeSignatureValid, Error>,
) -> Result<HandshakeSignatureValid, Error> {
    match ParsedCertificate::try_from(certificate) {
        Ok(_) => verified,
        Err(_) => Ok(HandshakeSignatureValid::assertion()),
    }
}
