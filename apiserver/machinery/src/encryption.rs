//! Encryption of values at rest: plain JSON, or JSON sealed with AES-GCM.
//!
//! Shape: `k8s:enc:aesgcm:v1:<key name>:`, followed by a 12-byte nonce and the sealed value with its tag. It is
//! upstream's own. The store key is the authenticated data, so a sealed value cannot be moved to another key.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;

const PREFIX: &[u8] = b"k8s:enc:";
const AES_GCM: &str = "k8s:enc:aesgcm:v1:";

/// Length of a fingerprint in bytes: enough to tell the keys of an installation apart, and useless to guess a key.
const FINGERPRINT: usize = 4;

/// Error of opening a stored value or of sealing one. It never shows the value.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EncryptionError {
    /// The key has a length that AES does not support.
    #[error("encryption key {0:?} must have 16 or 32 bytes")]
    KeyLength(String),
    /// The value was sealed with a key that is not configured.
    #[error("{0}: sealed with a key that is not in the encryption configuration")]
    UnknownKey(String),
    /// The value is not sealed, and the rule of its resource has no provider `identity`.
    #[error("{0}: is stored unencrypted, and the encryption configuration lists no provider identity for it")]
    Plain(String),
    /// The value is damaged, or was sealed for another key.
    #[error("{0}: cannot be opened: the value is damaged or was moved")]
    Damaged(String),
    /// The system returned no randomness, or the cipher failed.
    #[error("{0}: cannot be sealed")]
    Seal(String),
}

/// One way to seal values.
#[derive(Debug)]
pub enum Provider {
    /// No encryption.
    Identity,
    /// AES-GCM with a named key.
    AesGcm {
        /// Name of the key, written before every value.
        name: String,
        /// The first bytes of the key's SHA-256, in hexadecimal. They name the key in records and errors.
        fingerprint: String,
        /// The cipher.
        key: Box<LessSafeKey>,
    },
}

impl Provider {
    /// Creates an AES-GCM provider from a key of 16 or 32 bytes.
    ///
    /// # Errors
    /// `KeyLength`.
    pub fn aes_gcm(name: &str, key: &[u8]) -> Result<Self, EncryptionError> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            _ => return Err(EncryptionError::KeyLength(name.to_owned())),
        };
        let unbound =
            UnboundKey::new(algorithm, key).map_err(|_| EncryptionError::KeyLength(name.to_owned()))?;
        let (name, fingerprint) = (name.to_owned(), fingerprint(key));
        Ok(Self::AesGcm { name, fingerprint, key: Box::new(LessSafeKey::new(unbound)) })
    }

    /// Returns the fingerprint of the key, if there is one.
    fn fingerprint(&self) -> Option<&str> {
        match self {
            Self::Identity => None,
            Self::AesGcm { fingerprint, .. } => Some(fingerprint),
        }
    }
}

/// Returns the fingerprint of a key: 8 hexadecimal digits.
pub fn fingerprint(key: &[u8]) -> String {
    digest(&SHA256, key).as_ref().iter().take(FINGERPRINT).map(|byte| format!("{byte:02x}")).collect()
}

/// Providers by qualified plural, e.g. `secrets` or `machines.cluster.x-k8s.io`.
pub type Rules = BTreeMap<String, Vec<Provider>>;

/// Encryption rules of all resources: the first provider of a resource writes, all of them read. The rules may change
/// at any time.
#[derive(Debug, Default)]
pub struct Encryption {
    rules: RwLock<Arc<Rules>>,
}

impl Encryption {
    /// Creates the encryption with these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules: RwLock::new(Arc::new(rules)) }
    }

    /// Replaces the rules.
    pub fn replace(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    // The lock is held for one assignment, which cannot leave a partial result.
    fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Seals a value for the store.
    ///
    /// # Errors
    /// `Seal`.
    pub fn seal(&self, resource: &str, key: &str, value: Bytes) -> Result<Bytes, EncryptionError> {
        match self.rules().get(resource).and_then(|providers| providers.first()) {
            None | Some(Provider::Identity) => Ok(value),
            Some(Provider::AesGcm { name, key: cipher, .. }) => seal(name, cipher, key, value.to_vec()),
        }
    }

    /// Opens stored bytes. A resource without a rule is stored as it is.
    ///
    /// # Errors
    /// `UnknownKey`; `Damaged`; `Plain`.
    pub fn open(&self, resource: &str, key: &str, stored: &Bytes) -> Result<Bytes, EncryptionError> {
        let rules = self.rules();
        let providers = rules.get(resource);
        if !stored.starts_with(PREFIX) {
            let is_accepted =
                providers.is_none_or(|providers| providers.iter().any(|it| matches!(it, Provider::Identity)));
            return if is_accepted {
                Ok(stored.clone())
            } else {
                Err(EncryptionError::Plain(key.to_owned()))
            };
        }
        open_with(providers.into_iter().flatten(), key, stored)
    }

    /// Returns the resources that have a rule.
    pub fn resources(&self) -> Vec<String> {
        self.rules().keys().cloned().collect()
    }

    /// Returns the fingerprints of the keys that seal new values.
    pub fn sealing_keys(&self) -> BTreeSet<String> {
        let rules = self.rules();
        rules.values().filter_map(|providers| providers.first()?.fingerprint()).map(str::to_owned).collect()
    }

    /// Returns the fingerprints of all keys that open values.
    pub fn opening_keys(&self) -> BTreeSet<String> {
        let rules = self.rules();
        rules.values().flatten().filter_map(|provider| provider.fingerprint()).map(str::to_owned).collect()
    }

    /// Seals a value with the key of this fingerprint. `None` if there is no such key.
    ///
    /// # Errors
    /// `Seal`.
    pub fn seal_with(
        &self,
        fingerprint: &str,
        key: &str,
        value: &[u8],
    ) -> Result<Option<Bytes>, EncryptionError> {
        let rules = self.rules();
        for provider in rules.values().flatten().filter(|it| it.fingerprint() == Some(fingerprint)) {
            if let Provider::AesGcm { name, key: cipher, .. } = provider {
                return seal(name, cipher, key, value.to_vec()).map(Some);
            }
        }
        Ok(None)
    }

    /// Opens stored bytes with any key of any rule.
    ///
    /// # Errors
    /// `UnknownKey`; `Damaged`.
    pub fn open_with_any(&self, key: &str, stored: &Bytes) -> Result<Bytes, EncryptionError> {
        open_with(self.rules().values().flatten(), key, stored)
    }

    /// Returns true if stored bytes have the form that a write would give them now.
    pub fn is_current(&self, resource: &str, stored: &Bytes) -> bool {
        match self.rules().get(resource).and_then(|providers| providers.first()) {
            None | Some(Provider::Identity) => !stored.starts_with(PREFIX),
            Some(Provider::AesGcm { name, .. }) => stored.starts_with(format!("{AES_GCM}{name}:").as_bytes()),
        }
    }
}

fn seal(name: &str, cipher: &LessSafeKey, key: &str, mut value: Vec<u8>) -> Result<Bytes, EncryptionError> {
    let failed = || EncryptionError::Seal(key.to_owned());
    let mut nonce = [0_u8; NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).map_err(|_| failed())?;
    let aad = Aad::from(key.as_bytes());
    cipher
        .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut value)
        .map_err(|_| failed())?;
    let mut stored = format!("{AES_GCM}{name}:").into_bytes();
    stored.extend_from_slice(&nonce);
    stored.extend_from_slice(&value);
    Ok(Bytes::from(stored))
}

/// Opens a sealed value with the keys of its name. Several keys may have the same name.
fn open_with<'a>(
    providers: impl Iterator<Item = &'a Provider>,
    key: &str,
    stored: &Bytes,
) -> Result<Bytes, EncryptionError> {
    let mut result = Err(EncryptionError::UnknownKey(key.to_owned()));
    for provider in providers {
        let Provider::AesGcm { name, key: cipher, .. } = provider else { continue };
        if let Some(sealed) = stored.strip_prefix(format!("{AES_GCM}{name}:").as_bytes()) {
            result = open(cipher, key, sealed);
            if result.is_ok() {
                return result;
            }
        }
    }
    result
}

fn open(cipher: &LessSafeKey, key: &str, sealed: &[u8]) -> Result<Bytes, EncryptionError> {
    let damaged = || EncryptionError::Damaged(key.to_owned());
    let (nonce, body) = sealed.split_at_checked(NONCE_LEN).ok_or_else(damaged)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;
    let mut body = body.to_vec();
    let length =
        cipher.open_in_place(nonce, Aad::from(key.as_bytes()), &mut body).map_err(|_| damaged())?.len();
    body.truncate(length);
    Ok(Bytes::from(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(providers: Vec<Provider>) -> Rules {
        BTreeMap::from([("secrets".to_owned(), providers)])
    }

    fn encryption(keys: &[(&str, u8)]) -> Encryption {
        let providers =
            keys.iter().map(|(name, byte)| Provider::aes_gcm(name, &[*byte; 32]).unwrap()).collect();
        Encryption::new(rules(providers))
    }

    #[test]
    fn an_encrypted_value_decrypts_only_under_its_own_key() {
        let rules = encryption(&[("k1", 1)]);
        let stored = rules.seal("secrets", "/capstan/a", Bytes::from("hunter2")).unwrap();
        assert!(stored.starts_with(b"k8s:enc:aesgcm:v1:k1:"));
        assert!(!stored.windows(7).any(|window| window == b"hunter2"));
        assert_eq!(rules.open("secrets", "/capstan/a", &stored).unwrap(), "hunter2");
        assert_eq!(
            rules.open("secrets", "/capstan/b", &stored),
            Err(EncryptionError::Damaged("/capstan/b".into()))
        );
    }

    #[test]
    fn an_older_key_still_reads_but_is_not_current() {
        let old = encryption(&[("k1", 1)]).seal("secrets", "/a", Bytes::from("v")).unwrap();
        let rotated = encryption(&[("k2", 2), ("k1", 1)]);
        assert_eq!(rotated.open("secrets", "/a", &old).unwrap(), "v");
        assert!(!rotated.is_current("secrets", &old));
        let lost = encryption(&[("k2", 2)]);
        assert_eq!(lost.open("secrets", "/a", &old), Err(EncryptionError::UnknownKey("/a".into())));
    }

    #[test]
    fn replaced_rules_apply_at_once() {
        let encryption = encryption(&[("k1", 1)]);
        let old = encryption.seal("secrets", "/a", Bytes::from("v")).unwrap();
        let key = |name, byte| Provider::aes_gcm(name, &[byte; 32]).unwrap();
        encryption.replace(rules(vec![key("k2", 2), key("k1", 1)]));
        assert!(!encryption.is_current("secrets", &old));
        assert_eq!(encryption.open("secrets", "/a", &old).unwrap(), "v");
        assert!(
            encryption.seal("secrets", "/a", Bytes::from("v")).unwrap().starts_with(b"k8s:enc:aesgcm:v1:k2:")
        );
    }

    #[test]
    fn plain_values_are_refused_without_an_identity_provider() {
        let plain = Bytes::from_static(b"{}");
        let refused = encryption(&[("k1", 1)]).open("secrets", "/a", &plain);
        assert_eq!(refused, Err(EncryptionError::Plain("/a".into())));
        let with_identity = rules(vec![Provider::aes_gcm("k1", &[1; 32]).unwrap(), Provider::Identity]);
        assert_eq!(Encryption::new(with_identity).open("secrets", "/a", &plain).unwrap(), "{}");
    }

    #[test]
    fn keys_of_the_same_name_are_tried_in_turn() {
        let old = encryption(&[("key1", 1)]).seal("secrets", "/a", Bytes::from("v")).unwrap();
        let both = encryption(&[("key1", 2), ("key1", 1)]);
        assert_eq!(both.open("secrets", "/a", &old).unwrap(), "v");
        let fingerprints = [fingerprint(&[1; 32]), fingerprint(&[2; 32])];
        assert_eq!(both.sealing_keys(), BTreeSet::from([fingerprints[1].clone()]));
        let sealed = both.seal_with(&fingerprints[0], "/c", b"check").unwrap().unwrap();
        assert_eq!(encryption(&[("key1", 1)]).open_with_any("/c", &sealed).unwrap(), "check");
        assert!(encryption(&[("key1", 2)]).open_with_any("/c", &sealed).is_err());
        assert_eq!(both.seal_with("00000000", "/c", b"check").unwrap(), None);
    }

    #[test]
    fn other_resources_are_not_encrypted() {
        let rules = encryption(&[("k1", 1)]);
        assert_eq!(rules.seal("machines.cluster.x-k8s.io", "/a", Bytes::from("{}")).unwrap(), "{}");
    }
}
