//! Tests of certificates: their forms, and what other programs read from them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::pem::Pem;

use super::*;

const ALL: [(KeyAlgorithm, &str); 3] = [
    (KeyAlgorithm::Rsa2048, "RSA PRIVATE KEY"),
    (KeyAlgorithm::EcdsaP256, "EC PRIVATE KEY"),
    (KeyAlgorithm::EcdsaP384, "EC PRIVATE KEY"),
];

fn now() -> Timestamp {
    "2026-11-26T10:00:00Z".parse().unwrap()
}

/// Returns the key identifier of a certificate's issuer.
fn issuer_of(certificate: &X509Certificate<'_>) -> Vec<u8> {
    certificate
        .iter_extensions()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::AuthorityKeyIdentifier(id) => Some(id.key_identifier.as_ref()?.0.to_vec()),
            _ => None,
        })
        .unwrap()
}

/// Returns the key identifier of a certificate.
fn key_id(certificate: &X509Certificate<'_>) -> Vec<u8> {
    certificate
        .iter_extensions()
        .find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
            _ => None,
        })
        .unwrap()
}

fn authority(algorithm: KeyAlgorithm) -> PemPair {
    certificate_authority(algorithm, None, now()).unwrap()
}

#[test]
fn an_authority_has_kubeadms_form_and_the_validity_that_is_asked_for() {
    for (algorithm, label) in ALL {
        let ca = certificate_authority(algorithm, Some(10), now()).unwrap();
        assert!(ca.key.starts_with(&format!("-----BEGIN {label}-----\n")), "{algorithm:?}");
        assert_eq!(expiry(&ca.certificate).unwrap(), "2026-12-06T10:00:00Z".parse::<Timestamp>().unwrap());
        matches(&ca).unwrap();
        let block = Pem::iter_from_buffer(ca.certificate.as_bytes()).next().unwrap().unwrap();
        let parsed = block.parse_x509().unwrap();
        assert_eq!(parsed.subject().to_string(), "CN=kubernetes");
        assert_eq!(parsed.raw_serial(), [0]);
        let constraints = parsed.basic_constraints().unwrap().unwrap();
        assert!(constraints.critical && constraints.value.ca);
        assert_eq!(constraints.value.path_len_constraint, Some(0));
        assert_eq!(
            parsed.key_usage().unwrap().unwrap().value.flags,
            0b10_0101,
            "sign, encipher, sign certificates"
        );
        assert_eq!(parsed.validity().not_before.timestamp(), now().as_second() - 300);
    }
}

#[test]
fn a_client_certificate_is_signed_by_the_certificate_of_the_bundle_that_has_the_key() {
    for (algorithm, _) in ALL {
        let (old, new) = (authority(KeyAlgorithm::EcdsaP256), authority(algorithm));
        let bundle =
            PemPair { certificate: old.certificate.clone() + &new.certificate, key: new.key.clone() };
        let hour = Duration::from_secs(3600);
        let client = client_certificate(&bundle, "jane", Some("ops"), hour, algorithm, now()).unwrap();
        matches(&client).unwrap();
        let blocks = |pem: &str| Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap();
        let (signed, issuer) = (blocks(&client.certificate), blocks(&new.certificate));
        let (signed, issuer) = (signed.parse_x509().unwrap(), issuer.parse_x509().unwrap());
        assert_eq!(issuer_of(&signed), key_id(&issuer));
        assert_eq!(signed.subject().to_string(), "CN=jane, O=ops");
        assert_eq!(signed.validity().not_before, issuer.validity().not_before);
        assert_eq!(signed.validity().not_after.timestamp(), now().as_second() + 3600);
    }
}

#[test]
fn a_private_key_in_pkcs8_or_after_the_parameters_of_its_curve_is_read() {
    let mut ca = authority(KeyAlgorithm::Rsa2048);
    ca.key = key::read(&ca.key).unwrap().serialize_pem();
    matches(&ca).unwrap();
    let pkcs8 = rcgen::KeyPair::generate().unwrap();
    assert!(key::read(&pkcs8.serialize_pem()).is_ok());
    let mut ca = authority(KeyAlgorithm::EcdsaP256);
    ca.key =
        format!("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n{}", ca.key);
    matches(&ca).unwrap();
}

#[test]
fn a_key_of_another_certificate_is_a_mismatch_and_no_key_is_printed() {
    let (mut one, other) = (authority(KeyAlgorithm::EcdsaP256), authority(KeyAlgorithm::EcdsaP256));
    one.key = other.key;
    assert_eq!(matches(&one), Err(CertificateError::Mismatch));
    assert!(!format!("{one:?}").contains("PRIVATE"));
    one.key = "x".to_owned();
    assert_eq!(matches(&one), Err(CertificateError::Key));
    assert!(matches!(expiry("x"), Err(CertificateError::Certificate(_))));
}

#[test]
fn the_service_account_pair_is_a_public_and_a_private_key() {
    for (algorithm, _) in ALL {
        let pair = service_account_keys(algorithm).unwrap();
        assert!(pair.certificate.starts_with("-----BEGIN PUBLIC KEY-----\n"));
        matches(&pair).unwrap();
    }
}

#[test]
fn every_certificate_of_a_bundle_has_a_hash() {
    let bundle =
        authority(KeyAlgorithm::EcdsaP256).certificate + &authority(KeyAlgorithm::EcdsaP256).certificate;
    let hashes = ca_certificate_hashes(&bundle).unwrap();
    assert_eq!(hashes.len(), 2);
    assert_ne!(hashes.first(), hashes.last());
    assert!(hashes.iter().all(|hash| hash.starts_with("sha256:") && hash.len() == 71));
}

#[test]
fn a_kubeconfig_names_everything_after_the_cluster() {
    let ca = authority(KeyAlgorithm::EcdsaP256);
    let text = kubeconfig("blue", "https://203.0.113.10:6443", &ca, KeyAlgorithm::EcdsaP256, now()).unwrap();
    let tree: Value = serde_saphyr::from_str(&text).unwrap();
    assert_eq!(tree["current-context"], "blue-admin@blue");
    assert_eq!(tree["contexts"][0]["context"]["user"], "blue-admin");
    assert_eq!(tree["clusters"][0]["cluster"]["server"], "https://203.0.113.10:6443");
    assert_eq!(tree["clusters"][0]["name"], "blue");
    assert_eq!(tree["users"][0]["name"], "blue-admin");
}
