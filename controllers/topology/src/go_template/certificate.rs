//! Certificates with their private keys, as Sprig's functions return them.

use std::fmt;
use std::rc::Rc;

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, RsaKeyPair,
};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;

use super::value::{Outcome, Value};

const CURVES: [&EcdsaSigningAlgorithm; 3] =
    [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING];

/// Certificate and private key, in PEM.
#[derive(PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) certificate: Rc<str>,
    pub(super) key: Rc<str>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the private key.
        formatter.debug_struct("Certificate").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

impl Certificate {
    /// Checks that the first blocks of two texts in PEM are a certificate and a private key. As upstream, they need not
    /// belong together.
    pub(super) fn checked(certificate: &str, key: &str) -> Outcome<Self> {
        let block = first_block(certificate).ok_or("the certificate has no block in PEM")?;
        match parse_x509_certificate(&block.contents) {
            Ok(([], _)) => {}
            Ok(_) => return Err("the certificate is no X.509: it has further bytes at the end".to_owned()),
            Err(error) => return Err(format!("the certificate is no X.509: {error}")),
        }
        check_key(key)?;
        Ok(Self { certificate: certificate.into(), key: key.into() })
    }

    /// Returns the fields, with their names in Go.
    pub(super) fn fields(&self) -> [(&'static str, Value); 2] {
        [("Cert", Value::Text(self.certificate.clone())), ("Key", Value::Text(self.key.clone()))]
    }

    /// Returns a field by its name.
    pub(super) fn field(&self, name: &str, arguments: &[Value]) -> Outcome<Value> {
        if !arguments.is_empty() {
            return Err(format!("{name} is not a method but has arguments"));
        }
        let found = self.fields().into_iter().find(|(known, _)| *known == name);
        let found = found.map(|(_, value)| value);
        found.ok_or_else(|| format!("can't evaluate field {name} in type sprig.certificate"))
    }
}

/// Returns the first block of a text in PEM that can be read.
fn first_block(text: &str) -> Option<Pem> {
    Pem::iter_from_buffer(text.as_bytes()).find_map(Result::ok)
}

/// Checks a private key. Keys of DSA, of other curves, and of RSA with less than 2048 bits are refused: no component of
/// Kubernetes should use them.
fn check_key(text: &str) -> Outcome<()> {
    let block = first_block(text).ok_or("the private key has no block in PEM")?;
    let der = block.contents.as_slice();
    let is_valid = match block.label.as_str() {
        "PRIVATE KEY" => is_pkcs8(der),
        "RSA PRIVATE KEY" => RsaKeyPair::from_der(der).is_ok(),
        "EC PRIVATE KEY" => is_ecdsa(|curve| EcdsaKeyPair::from_private_key_der(curve, der)),
        _ => false,
    };
    if is_valid {
        return Ok(());
    }
    Err(format!(
        "the block {:?} is no private key of RSA with 2048 to 8192 bits, of ECDSA with P-256, P-384 or P-521, or \
         of Ed25519",
        block.label
    ))
}

/// Returns true if a key can be read as one of a curve.
fn is_ecdsa(read: impl Fn(&'static EcdsaSigningAlgorithm) -> Result<EcdsaKeyPair, KeyRejected>) -> bool {
    CURVES.iter().any(|&curve| read(curve).is_ok())
}

fn is_pkcs8(der: &[u8]) -> bool {
    RsaKeyPair::from_pkcs8(der).is_ok()
        || is_ecdsa(|curve| EcdsaKeyPair::from_pkcs8(curve, der))
        || Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).is_ok()
}
