//! Client certificates in the handshake: requested, and never refused.
//!
//! A client that fails in the handshake learns no reason and tries again. So the handshake accepts every certificate,
//! and [`apiserver_access::CertificatePools`] classifies it afterwards. A client with an untrusted certificate and no
//! other valid credential gets 401. The one exception is a certificate that costs the server too much.

use std::sync::Arc;

use apiserver_access::rsa_key_bits;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};

/// Largest RSA key in a certificate: the largest that the TLS library verifies signatures of. The cost of a verification
/// grows with the square of the size. Unit: bits.
const LARGEST_RSA_KEY: usize = 8192;

/// Verifier that accepts every certificate whose key the client has, and whose RSA keys are not too large.
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
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut keys = std::iter::once(leaf).chain(intermediates).filter_map(rsa_key_bits);
        if keys.any(|bits| bits > LARGEST_RSA_KEY) {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CertifiedIssuer, KeyPair, SubjectPublicKeyInfo};

    use super::*;

    /// Returns the encoding of a value with its tag, in DER.
    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        let length: Vec<u8> = length.iter().copied().skip_while(|byte| *byte == 0).collect();
        let mut encoded = vec![tag];
        if content.len() < 128 {
            encoded.push(u8::try_from(content.len()).unwrap());
        } else {
            encoded.push(0x80 | u8::try_from(length.len()).unwrap());
            encoded.extend(length);
        }
        encoded.extend(content);
        encoded
    }

    /// Returns a certificate with an RSA key of this size, without its private key.
    fn certificate(bits: usize) -> CertificateDer<'static> {
        let modulus: Vec<u8> = [0].into_iter().chain((0..bits / 8).map(|_| 0xff)).collect();
        let key = der(0x30, &[der(0x02, &modulus), der(0x02, &[1, 0, 1])].concat());
        // rsaEncryption, 1.2.840.113549.1.1.1, with the parameters NULL.
        let kind = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
        let kind = der(0x30, &[der(0x06, &kind), der(0x05, &[])].concat());
        let info = der(0x30, &[kind, der(0x03, &[vec![0], key].concat())].concat());
        let info = SubjectPublicKeyInfo::from_der(&info).unwrap();
        let issuer =
            CertifiedIssuer::self_signed(CertificateParams::default(), KeyPair::generate().unwrap()).unwrap();
        CertificateParams::default().signed_by(&info, &issuer).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_with_an_rsa_key_of_more_than_8192_bits_is_refused_anywhere_in_the_chain() {
        let verifier = AnyCertificate::verifier(&RootCertStore::empty());
        let is_accepted = |leaf: &CertificateDer<'_>, rest: &[CertificateDer<'_>]| {
            verifier.verify_client_cert(leaf, rest, UnixTime::now()).is_ok()
        };
        let [small, large, too_large] = [2048, 8192, 8200].map(certificate);
        assert_eq!(rsa_key_bits(&too_large), Some(8200));
        assert!(is_accepted(&small, &[]) && is_accepted(&large, std::slice::from_ref(&small)));
        assert!(!is_accepted(&too_large, &[]) && !is_accepted(&small, &[too_large]));
        let unreadable = CertificateDer::from(vec![1, 2, 3]);
        assert!(is_accepted(&unreadable, &[]), "it is classified after the handshake");
    }
}
