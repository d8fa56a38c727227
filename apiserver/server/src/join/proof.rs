//! Key of a node, and the proof that it holds that key.

use std::path::Path;

use anyhow::Context;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::KeyPair as PemKey;

use super::JoinRequest;
use crate::pki;

/// Key of a node.
pub(crate) struct NodeKey(EcdsaKeyPair);

impl NodeKey {
    /// Reads the key from a file, and creates it if there is none.
    ///
    /// # Errors
    /// A file that cannot be read or written, or that has another key.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let pem = if path.exists() {
            PemKey::from_pem(&pki::read(path)?)
        } else {
            let key = PemKey::generate()?;
            pki::write_private(path, &key.serialize_pem())?;
            Ok(key)
        };
        let pem = pem.with_context(|| format!("{}: is no key of a node; remove it", path.display()))?;
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &pem.serialize_der());
        let key = key.map_err(|_| anyhow::anyhow!("{}: is no P-256 key; remove it", path.display()))?;
        Ok(Self(key))
    }

    /// Adds the public key and the proof to a request.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn sign(&self, request: &mut JoinRequest) -> anyhow::Result<()> {
        request.key = STANDARD.encode(self.0.public_key().as_ref());
        let signature = self.0.sign(&SystemRandom::new(), message(request).as_bytes());
        let signature = signature.map_err(|_| anyhow::anyhow!("the node's key cannot sign"))?;
        request.signature = STANDARD.encode(signature.as_ref());
        Ok(())
    }
}

/// Reports whether the sender of a request holds the key in it.
pub(super) fn is_proved(request: &JoinRequest) -> bool {
    let (Ok(key), Ok(signature)) = (STANDARD.decode(&request.key), STANDARD.decode(&request.signature))
    else {
        return false;
    };
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, key);
    key.verify(message(request).as_bytes(), &signature).is_ok()
}

/// Text that the node signs. Each field is on a line of its own, and none has a line end.
fn message(request: &JoinRequest) -> String {
    let JoinRequest { id, node, address, key, .. } = request;
    format!("capstan join 1\n{id}\n{node:?}\n{address}\n{key}\n")
}
