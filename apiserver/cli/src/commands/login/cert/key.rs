//! Key of a login, and the request for its certificate (PKCS #10).

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use jiff::Timestamp;
use x509_parser::pem::parse_x509_pem;

use crate::commands::login::{ClientCertificate, EARLY};
use crate::der::{BIT_STRING, OBJECT_IDENTIFIER, SEQUENCE, element, pem, subject};
use crate::error::{ExitCode, Failure};

/// Content of the object identifier of ECDSA with SHA-256: 1.2.840.10045.4.3.2.
const ECDSA_WITH_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];

const INTEGER: u8 = 0x02;
/// Attributes of a request. This one has none.
const ATTRIBUTES: u8 = 0xa0;

/// Reason for which a certificate is not used.
const UNREADABLE: &str = "it cannot be read";

/// Key in memory. Not `Debug`: it is a secret.
pub(super) struct Key {
    pair: EcdsaKeyPair,
    /// Public key, as a certificate has it.
    public: Vec<u8>,
}

impl Key {
    /// Makes a key.
    ///
    /// # Errors
    /// The system cannot make one.
    pub(super) fn generate() -> Result<Self, Failure> {
        let failure = |_| Failure::new(ExitCode::Failed, "the system cannot make a key");
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failure)?;
        let public = AsDer::<PublicKeyX509Der<'_>>::as_der(pair.public_key()).map_err(failure)?;
        let public = public.as_ref().to_vec();
        Ok(Self { pair, public })
    }

    /// Returns the request in PEM for a certificate of this user and these groups.
    ///
    /// # Errors
    /// The key cannot sign it.
    pub(super) fn request(&self, user: &str, groups: &[String]) -> Result<String, Failure> {
        let version = element(INTEGER, &[0]);
        let subject = subject(user, groups);
        let attributes = element(ATTRIBUTES, &[]);
        let body = element(SEQUENCE, &[&version[..], &subject, &self.public, &attributes].concat());
        let signature = self.pair.sign(&SystemRandom::new(), &body);
        let signature =
            signature.map_err(|_| Failure::new(ExitCode::Failed, "the new key cannot sign its request"))?;
        // The first byte is the number of unused bits.
        let signature = element(BIT_STRING, &[&[0_u8][..], signature.as_ref()].concat());
        let algorithm = element(SEQUENCE, &element(OBJECT_IDENTIFIER, ECDSA_WITH_SHA256));
        Ok(pem("CERTIFICATE REQUEST", &element(SEQUENCE, &[body, algorithm, signature].concat())))
    }

    /// Returns the credential of this key and its certificate in PEM.
    ///
    /// # Errors
    /// The certificate cannot be read, or is one for another key.
    pub(super) fn with_certificate(&self, certificate: Vec<u8>) -> Result<ClientCertificate, Failure> {
        let failure = |why: &str| {
            let summary = format!("cannot log in by a certificate: the server has issued one, but {why}");
            Failure::new(ExitCode::Failed, summary)
        };
        let certificate = String::from_utf8(certificate).map_err(|_| failure(UNREADABLE))?;
        let end = end(&certificate, &self.public).map_err(failure)?;
        let key = self.pair.to_pkcs8v1().map_err(|_| failure("the key cannot be written"))?;
        let renew_at = end.saturating_sub(EARLY).unwrap_or(end);
        Ok(ClientCertificate { certificate, key: pem("PRIVATE KEY", key.as_ref()), renew_at })
    }
}

/// Returns the end of a certificate in PEM, which must be one for this public key.
fn end(certificate: &str, public: &[u8]) -> Result<Timestamp, &'static str> {
    let (_, block) = parse_x509_pem(certificate.as_bytes()).map_err(|_| UNREADABLE)?;
    let parsed = block.parse_x509().map_err(|_| UNREADABLE)?;
    if parsed.public_key().raw != public {
        return Err("it is for another key");
    }
    Timestamp::from_second(parsed.validity().not_after.timestamp()).map_err(|_| UNREADABLE)
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
    use x509_parser::prelude::{FromDer, X509CertificationRequest};

    use super::*;

    /// Certificate of another key.
    const OTHER: &str = "-----BEGIN CERTIFICATE-----
MIIBlDCCATmgAwIBAgIUfvYSuIMvuKbC0FXbbAGN+h6KDl8wCgYIKoZIzj0EAwIw
HjEMMAoGA1UECgwDZGV2MQ4wDAYDVQQDDAVhbGljZTAgFw0yNjExMzAxOTA5MDha
GA8yMDc2MTExNzE5MDkwOFowHjEMMAoGA1UECgwDZGV2MQ4wDAYDVQQDDAVhbGlj
ZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABPpuSsM1pTfUAb9hCq5b2axwzNzN
irAe7BirV2GXgh1Pzq3RvNVb28j8gzdmfKUFB3s4Yk2Td1fdYTPJT+BFpp6jUzBR
MB0GA1UdDgQWBBSi1cobIK1Wky1sh6P9KQEnFLYgBzAfBgNVHSMEGDAWgBSi1cob
IK1Wky1sh6P9KQEnFLYgBzAPBgNVHRMBAf8EBTADAQH/MAoGCCqGSM49BAMCA0kA
MEYCIQC/cGtdnD+E8WbFe+TWVQgP5/PRQvtbfPXkJ8JJMF0wsQIhALELfbLA2HzS
1PaZvpawUC/9pInE/kBqUQzpDAEd4rj0
-----END CERTIFICATE-----
";
    /// End of that certificate.
    const END: &str = "2076-11-17T19:09:08Z";

    #[test]
    fn a_request_names_the_user_and_all_groups_and_is_signed_by_its_key() {
        let key = Key::generate().unwrap();
        let long = "x".repeat(300);
        for groups in [vec![], vec!["dev"], vec!["dev", "größe", &long, "ops"]] {
            let groups: Vec<String> = groups.into_iter().map(str::to_owned).collect();
            let request = key.request("oidc:alice", &groups).unwrap();
            assert!(request.lines().all(|line| line.len() <= 64), "{request}");
            let (_, block) = parse_x509_pem(request.as_bytes()).unwrap();
            assert_eq!(block.label, "CERTIFICATE REQUEST");
            let (rest, parsed) = X509CertificationRequest::from_der(&block.contents).unwrap();
            let content = &parsed.certification_request_info;
            let names = content.subject.iter_organization().map(|name| name.as_str().unwrap().to_owned());
            assert!(rest.is_empty() && names.eq(groups), "{:?}", content.subject);
            let name = content.subject.iter_common_name().next().unwrap();
            assert_eq!(name.as_str().unwrap(), "oidc:alice");
            assert_eq!(content.subject_pki.raw, key.public);
            let point = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key.pair.public_key().as_ref());
            point.verify(content.raw, &parsed.signature_value.data).unwrap();
        }
    }

    #[test]
    fn a_certificate_is_used_until_shortly_before_its_end_and_only_for_its_own_key() {
        let (_, block) = parse_x509_pem(OTHER.as_bytes()).unwrap();
        let public = block.parse_x509().unwrap().public_key().raw.to_vec();
        assert_eq!(end(OTHER, &public), Ok(END.parse().unwrap()));
        let key = Key::generate().unwrap();
        let its_own = Key { pair: key.pair, public };
        let held = its_own.with_certificate(OTHER.as_bytes().to_vec()).unwrap();
        assert_eq!(held.renew_at, "2076-11-17T19:08:08Z".parse().unwrap());
        let (_, block) = parse_x509_pem(held.key.as_bytes()).unwrap();
        assert_eq!((block.label.as_str(), held.certificate.as_str()), ("PRIVATE KEY", OTHER));
        assert!(EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &block.contents).is_ok());
        let key = Key::generate().unwrap();
        for (certificate, expected) in [(OTHER, "it is for another key"), ("", UNREADABLE)] {
            let failure = key.with_certificate(certificate.into()).err().unwrap().to_string();
            assert!(failure.contains(expected), "{failure}");
        }
    }
}
