//! Certificate authorities, and the certificates that they sign.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyUsagePurpose,
    PublicKeyData as _, SerialNumber,
};

use super::key::{encode, generate};
use super::{CertificateError, KeyAlgorithm, PemPair, key, read};

/// Time before its creation from which a CA is valid, because clocks differ.
const SKEW: Duration = Duration::from_mins(5);

/// Validity period of a CA if the user sets none. Unit: days. kubeadm's own value.
const CA_VALIDITY: i32 = 3650;

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;

/// Subject of all generated authorities. kubeadm's own value.
const CA_NAME: &str = "kubernetes";

/// Generates a certificate authority: of the cluster, of etcd, or of the front proxy.
///
/// # Errors
/// The generation failed.
pub fn certificate_authority(
    algorithm: KeyAlgorithm,
    validity_days: Option<i32>,
    now: Timestamp,
) -> Result<PemPair, CertificateError> {
    let key = generate(algorithm)?;
    let days = u64::try_from(validity_days.unwrap_or(CA_VALIDITY)).unwrap_or_default();
    let now = SystemTime::from(now);
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, CA_NAME);
    // A certificate's own default would be derived from its key. kubeadm's authorities have the serial number 0.
    params.serial_number = Some(SerialNumber::from_slice(&[0]));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::KeyCertSign,
    ];
    params.not_before = (now - SKEW).into();
    params.not_after = (now + Duration::from_secs(days.saturating_mul(DAY))).into();
    let certificate = params.self_signed(&key.pair)?;
    Ok(PemPair { certificate: certificate.pem(), key: key.pem })
}

/// Generates the pair that signs service account tokens: a public key in PKIX form, and its private key.
///
/// # Errors
/// The generation failed.
pub fn service_account_keys(algorithm: KeyAlgorithm) -> Result<PemPair, CertificateError> {
    let key = generate(algorithm)?;
    Ok(PemPair { certificate: encode("PUBLIC KEY", &key.pair.subject_public_key_info()), key: key.pem })
}

/// Generates a client certificate. It is valid from the same time as the certificate of the CA.
///
/// `ca` may be a bundle: the certificate that the private key belongs to is the issuer.
///
/// # Errors
/// The CA cannot be read, its certificate and key do not belong together, or the generation failed.
pub fn client_certificate(
    ca: &PemPair,
    common_name: &str,
    organization: Option<&str>,
    validity: Duration,
    algorithm: KeyAlgorithm,
    now: Timestamp,
) -> Result<PemPair, CertificateError> {
    let signer = key::read(&ca.key)?;
    let signing = read::of_key(&ca.certificate, &signer)?;
    let issuer = Issuer::from_ca_cert_der(&signing.der.into(), signer)?;
    let key = generate(algorithm)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params.not_before = SystemTime::from(signing.not_before).into();
    params.not_after = (SystemTime::from(now) + validity).into();
    let certificate = params.signed_by(&key.pair, &issuer)?;
    Ok(PemPair { certificate: certificate.pem(), key: key.pem })
}
