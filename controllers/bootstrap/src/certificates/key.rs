//! Private keys: their generation, and their forms in PEM.

use apiserver_types::EncryptionAlgorithm;
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
};
use pem::{EncodeConfig, LineEnding};
use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use x509_parser::asn1_rs::{Any, FromDer, OctetString, Sequence};
use x509_parser::pem::Pem;

use super::CertificateError;

/// Algorithm and size of generated keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyAlgorithm {
    /// RSA with 2048 bits.
    #[default]
    Rsa2048,
    /// RSA with 3072 bits.
    Rsa3072,
    /// RSA with 4096 bits.
    Rsa4096,
    /// ECDSA with curve P-256.
    EcdsaP256,
    /// ECDSA with curve P-384.
    EcdsaP384,
}

impl From<EncryptionAlgorithm> for KeyAlgorithm {
    fn from(algorithm: EncryptionAlgorithm) -> Self {
        match algorithm {
            EncryptionAlgorithm::Rsa2048 => Self::Rsa2048,
            EncryptionAlgorithm::Rsa3072 => Self::Rsa3072,
            EncryptionAlgorithm::Rsa4096 => Self::Rsa4096,
            EncryptionAlgorithm::EcdsaP256 => Self::EcdsaP256,
            EncryptionAlgorithm::EcdsaP384 => Self::EcdsaP384,
        }
    }
}

/// Private key in both forms: for signatures, and in PEM.
pub(super) struct PrivateKey {
    pub pair: KeyPair,
    pub pem: String,
}

/// Generates a private key. Its PEM is PKCS#1 for RSA and SEC1 for ECDSA, which are the forms of kubeadm's own keys.
pub(super) fn generate(algorithm: KeyAlgorithm) -> Result<PrivateKey, CertificateError> {
    match algorithm {
        KeyAlgorithm::Rsa2048 => rsa(RsaKeySize::_2048),
        KeyAlgorithm::Rsa3072 => rsa(RsaKeySize::_3072),
        KeyAlgorithm::Rsa4096 => rsa(RsaKeySize::_4096),
        KeyAlgorithm::EcdsaP256 => ecdsa(&ECDSA_P256_SHA256_ASN1_SIGNING),
        KeyAlgorithm::EcdsaP384 => ecdsa(&ECDSA_P384_SHA384_ASN1_SIGNING),
    }
}

fn rsa(size: RsaKeySize) -> Result<PrivateKey, CertificateError> {
    let pair = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size)?;
    let inner = inner_key(pair.serialized_der())
        .ok_or_else(|| CertificateError::Generation("the key is not in PKCS#8".to_owned()))?;
    Ok(PrivateKey { pem: encode("RSA PRIVATE KEY", &inner), pair })
}

/// Returns the algorithm's own form of a key in PKCS#8: the content of its third field.
fn inner_key(pkcs8: &[u8]) -> Option<Vec<u8>> {
    let (_, sequence) = Sequence::from_der(pkcs8).ok()?;
    let (rest, _version) = Any::from_der(&sequence.content).ok()?;
    let (rest, _algorithm) = Any::from_der(rest).ok()?;
    let (_, key) = OctetString::from_der(rest).ok()?;
    Some(key.as_ref().to_vec())
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> Result<PrivateKey, CertificateError> {
    let failed = |error: aws_lc_rs::error::Unspecified| CertificateError::Generation(error.to_string());
    let generated = EcdsaKeyPair::generate(algorithm).map_err(failed)?;
    let der = generated.private_key().as_der().map_err(failed)?;
    let pem = encode("EC PRIVATE KEY", der.as_ref());
    Ok(PrivateKey { pair: read(&pem)?, pem })
}

/// Reads the first private key of a text. `openssl` writes the parameters of a curve before the key.
pub(super) fn read(pem: &str) -> Result<KeyPair, CertificateError> {
    let blocks = Pem::iter_from_buffer(pem.as_bytes()).filter_map(Result::ok);
    let key = blocks.into_iter().find(|block| block.label.ends_with("PRIVATE KEY"));
    KeyPair::try_from(key.ok_or(CertificateError::Key)?.contents).map_err(|_| CertificateError::Key)
}

/// Returns binary data in PEM.
pub(super) fn encode(label: &str, der: &[u8]) -> String {
    let lines = EncodeConfig::new().set_line_ending(LineEnding::LF);
    pem::encode_config(&pem::Pem::new(label, der), lines)
}
