//! Keys that sign tokens.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Key that signs tokens with one algorithm.
#[derive(Debug)]
pub struct SigningKey {
    algorithm: &'static str,
    pair: Pair,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl SigningKey {
    /// Creates a key for `RS256`, `PS256`, `ES256`, `ES384`, `ES512` or `EdDSA`.
    pub fn new(algorithm: &'static str) -> Self {
        let pair = match algorithm {
            "RS256" | "PS256" => Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
            "ES256" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap()),
            "ES384" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap()),
            "ES512" => Pair::Ec(EcdsaKeyPair::generate(&ECDSA_P521_SHA512_FIXED_SIGNING).unwrap()),
            "EdDSA" => Pair::Ed(Ed25519KeyPair::generate().unwrap()),
            other => panic!("no key for {other}"),
        };
        Self { algorithm, pair }
    }

    /// Returns the name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    /// Returns the public key as a JSON Web Key.
    pub fn public(&self, id: &str) -> Value {
        let mut key = match &self.pair {
            Pair::Rsa(pair) => {
                let public = pair.public_key();
                json!({"kty": "RSA", "n": encoded(public.modulus().big_endian_without_leading_zero()),
                    "e": encoded(public.exponent().big_endian_without_leading_zero())})
            }
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref().get(1..).unwrap();
                let (x, y) = point.split_at(point.len() / 2);
                let curve = match self.algorithm {
                    "ES256" => "P-256",
                    "ES384" => "P-384",
                    _ => "P-521",
                };
                json!({"kty": "EC", "crv": curve, "x": encoded(x), "y": encoded(y)})
            }
            Pair::Ed(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key().as_ref())})
            }
        };
        key["kid"] = json!(id);
        key["use"] = json!("sig");
        key
    }

    /// Returns a token with this header and these claims.
    pub fn token(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let with: &'static dyn aws_lc_rs::signature::RsaEncoding =
                    if self.algorithm == "PS256" { &RSA_PSS_SHA256 } else { &RSA_PKCS1_SHA256 };
                pair.sign(with, &random, message.as_bytes(), &mut signature).unwrap();
                signature
            }
            Pair::Ec(pair) => pair.sign(&random, message.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(signature))
    }
}

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
