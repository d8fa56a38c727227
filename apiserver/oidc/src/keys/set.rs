//! Keys of an issuer, and the verification of a signature with one of them.

use aws_lc_rs::signature::{ECDSA_P521_SHA512_FIXED, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm as Signature, DecodingKey, crypto};
use serde::Deserialize;
use serde_json::Value;

use crate::algorithm::Algorithm;

/// Key that verifies signatures.
#[derive(Debug)]
pub(crate) struct VerificationKey {
    id: Option<String>,
    /// Only algorithm that the issuer allows for the key.
    algorithm: Option<String>,
    form: Form,
    key: DecodingKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
}

#[derive(Deserialize)]
struct KeySetDocument {
    keys: Vec<Value>,
}

/// Reads a JSON Web Key Set. Keys of other kinds, and keys for encryption, are left out.
///
/// # Errors
/// The document is no key set, or no key is left.
pub(crate) fn read(document: &[u8]) -> Result<Vec<VerificationKey>, String> {
    let found: KeySetDocument =
        serde_json::from_slice(document).map_err(|error| format!("it is no JSON Web Key Set: {error}"))?;
    let keys: Vec<_> = found.keys.into_iter().filter_map(VerificationKey::of).collect();
    if keys.is_empty() { Err("it has no key that verifies signatures".to_owned()) } else { Ok(keys) }
}

impl VerificationKey {
    fn of(value: Value) -> Option<Self> {
        let algorithm = value.get("alg").and_then(Value::as_str).map(str::to_owned);
        let key: Jwk = serde_json::from_value(value).ok()?;
        if !matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let form = match &key.algorithm {
            AlgorithmParameters::RSA(_) => Form::Rsa,
            AlgorithmParameters::EllipticCurve(curve) => match curve.curve {
                EllipticCurve::P256 => Form::P256,
                EllipticCurve::P384 => Form::P384,
                EllipticCurve::P521 => Form::P521,
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(pair) if pair.curve == EllipticCurve::Ed25519 => Form::Ed25519,
            _ => return None,
        };
        Some(Self { key: DecodingKey::from_jwk(&key).ok()?, id: key.common.key_id, algorithm, form })
    }

    /// Returns true if a token with this key id may be signed by the key.
    pub(crate) fn has_id(&self, id: Option<&str>) -> bool {
        id.is_none_or(|id| self.id.as_deref() == Some(id))
    }

    /// Returns true if the signature of the message is one of this key. `signature` is in base64url.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &str) -> bool {
        if self.algorithm.as_deref().is_some_and(|own| own != algorithm.name()) {
            return false;
        }
        let of_rsa = |signature| (Form::Rsa, signature);
        let (form, with) = match algorithm {
            Algorithm::Rs256 => of_rsa(Signature::RS256),
            Algorithm::Rs384 => of_rsa(Signature::RS384),
            Algorithm::Rs512 => of_rsa(Signature::RS512),
            Algorithm::Ps256 => of_rsa(Signature::PS256),
            Algorithm::Ps384 => of_rsa(Signature::PS384),
            Algorithm::Ps512 => of_rsa(Signature::PS512),
            Algorithm::Es256 => (Form::P256, Signature::ES256),
            Algorithm::Es384 => (Form::P384, Signature::ES384),
            Algorithm::EdDsa => (Form::Ed25519, Signature::EdDSA),
            Algorithm::Es512 => return self.form == Form::P521 && self.verifies_p521(message, signature),
        };
        self.form == form && crypto::verify(signature, message, &self.key, with).unwrap_or(false)
    }

    /// Verifies with the one algorithm that the library for tokens lacks.
    fn verifies_p521(&self, message: &[u8], signature: &str) -> bool {
        let Ok(signature) = URL_SAFE_NO_PAD.decode(signature) else { return false };
        self.key.try_get_as_bytes().is_ok_and(|point| {
            UnparsedPublicKey::new(&ECDSA_P521_SHA512_FIXED, point).verify(message, &signature).is_ok()
        })
    }
}
