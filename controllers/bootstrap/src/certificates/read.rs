//! Reading of certificates that exist already.

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use rcgen::{KeyPair, PublicKeyData as _};
use x509_parser::pem::Pem;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::time::ASN1Time;

use super::{CertificateError, PemPair, key};

/// Certificate of a bundle.
pub(super) struct Parsed {
    pub der: Vec<u8>,
    /// SubjectPublicKeyInfo, in DER.
    pub public_key: Vec<u8>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
    pub is_authority: bool,
}

/// Returns the end of a certificate's validity. Of a bundle, the first certificate counts.
///
/// # Errors
/// The text is no certificate in PEM.
pub fn expiry(certificate_pem: &str) -> Result<Timestamp, CertificateError> {
    let first = bundle(certificate_pem)?.into_iter().next();
    first.map(|it| it.not_after).ok_or_else(|| CertificateError::Certificate("the text is empty".to_owned()))
}

/// Returns the end of validity of the certificate with a common name, among certificates in DER; `None` if there is none.
///
/// # Errors
/// A part is no certificate in DER.
pub fn expiry_of(certificates: &[Vec<u8>], common_name: &str) -> Result<Option<Timestamp>, CertificateError> {
    let failed = |error: &dyn std::fmt::Display| CertificateError::Certificate(error.to_string());
    for der in certificates {
        let (_, certificate) = X509Certificate::from_der(der).map_err(|error| failed(&error))?;
        let mut names = certificate.subject().iter_common_name();
        if names.any(|name| name.as_str().is_ok_and(|name| name == common_name)) {
            let end = certificate.validity().not_after.timestamp();
            return Timestamp::from_second(end).map(Some).map_err(|error| failed(&error));
        }
    }
    Ok(None)
}

/// Returns the hash of each certificate's public key, in the form of kubeadm's `caCertHashes`.
///
/// # Errors
/// The text is no certificate in PEM.
pub fn ca_certificate_hashes(bundle_pem: &str) -> Result<Vec<String>, CertificateError> {
    let hash = |certificate: Parsed| {
        let hash = digest(&SHA256, &certificate.public_key);
        let hex: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256:{hex}")
    };
    Ok(bundle(bundle_pem)?.into_iter().map(hash).collect())
}

/// Checks that a certificate can be used now: an authority to sign others with it, and both to authenticate with it. Of a
/// bundle, the certificate of the private key counts; without a key, one of them must be usable.
///
/// # Errors
/// The text is no certificate, none is valid at this time, or an authority is required and it is none.
pub fn usable(pair: &PemPair, authority: bool, now: Timestamp) -> Result<(), CertificateError> {
    let candidates = match pair.key.is_empty() {
        true => bundle(&pair.certificate)?,
        false => vec![of_key(&pair.certificate, &key::read(&pair.key)?)?],
    };
    let judge = |certificate: &Parsed| match certificate {
        it if authority && !it.is_authority => Err(CertificateError::NoAuthority),
        it if now < it.not_before || now > it.not_after => Err(CertificateError::NotValid {
            from: it.not_before.to_string(),
            until: it.not_after.to_string(),
        }),
        _ => Ok(()),
    };
    let mut result = Err(CertificateError::Mismatch);
    for candidate in &candidates {
        result = judge(candidate);
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Checks that a private key belongs to one of the certificates, or to the public key of the service account pair.
///
/// # Errors
/// A part cannot be read, or they do not belong together.
pub fn matches(pair: &PemPair) -> Result<(), CertificateError> {
    let private = key::read(&pair.key)?;
    let public = Pem::iter_from_buffer(pair.certificate.as_bytes()).filter_map(Result::ok);
    match public.into_iter().find(|block| block.label == "PUBLIC KEY") {
        Some(public) if public.contents == private.subject_public_key_info() => Ok(()),
        Some(_) => Err(CertificateError::Mismatch),
        None => of_key(&pair.certificate, &private).map(drop),
    }
}

/// Returns the certificate of a bundle that a private key belongs to.
pub(super) fn of_key(bundle_pem: &str, key: &KeyPair) -> Result<Parsed, CertificateError> {
    let public_key = key.subject_public_key_info();
    let found = bundle(bundle_pem)?.into_iter().find(|certificate| certificate.public_key == public_key);
    found.ok_or(CertificateError::Mismatch)
}

/// Parses all certificates of a text. There is at least one.
fn bundle(pem: &str) -> Result<Vec<Parsed>, CertificateError> {
    let failed = |error: &dyn std::fmt::Display| CertificateError::Certificate(error.to_string());
    let mut certificates = Vec::new();
    for block in Pem::iter_from_buffer(pem.as_bytes()) {
        let block = block.map_err(|error| failed(&error))?;
        if block.label == "CERTIFICATE" {
            certificates.push(parse(block)?);
        }
    }
    if certificates.is_empty() {
        return Err(failed(&"the text has no block CERTIFICATE"));
    }
    Ok(certificates)
}

fn parse(block: Pem) -> Result<Parsed, CertificateError> {
    let failed = |error: &dyn std::fmt::Display| CertificateError::Certificate(error.to_string());
    let certificate = block.parse_x509().map_err(|error| failed(&error))?;
    let time = |time: ASN1Time| Timestamp::from_second(time.timestamp()).map_err(|error| failed(&error));
    Ok(Parsed {
        public_key: certificate.public_key().raw.to_vec(),
        not_before: time(certificate.validity().not_before)?,
        not_after: time(certificate.validity().not_after)?,
        is_authority: certificate.is_ca(),
        der: block.contents,
    })
}
