//! Keys of the configuration file, and the ciphers that use them.
//!
//! Shapes of a value, after `k8s:enc:`:
//! * `aesgcm:v1:<name>:`, a nonce of 12 bytes, the sealed value with its tag. It is upstream's own.
//! * `aesgcm:v2:<name>:`, 32 random bytes, a nonce of 12 bytes, the sealed value with its tag. HKDF-SHA256 (expand only)
//!   derives a key for this value from the configured key and the random bytes. A random nonce of 12 bytes alone is safe
//!   for some 2^32 values with one key; a derived key seals one value. It is of form 4 ([`storage_contract::Form`]).
//! * `aescbc:v1:<name>:`, an initial vector of 16 bytes, the encrypted value. It is upstream's own, and only read: it
//!   does not notice a changed value.
//!
//! With AES-GCM, the store key is the authenticated data, so a sealed value cannot be moved to another key.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::cipher::{self, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk};
use aws_lc_rs::iv::FixedLength;
use bytes::Bytes;

use super::EncryptionError;

const AES_GCM: &str = "k8s:enc:aesgcm:v1:";
const DERIVED: &str = "k8s:enc:aesgcm:v2:";
const AES_CBC: &str = "k8s:enc:aescbc:v1:";

/// Length of a fingerprint in bytes: enough to tell the keys of an installation apart, and useless to guess a key.
const FINGERPRINT: usize = 4;

/// Random bytes from which the key of a value is derived.
pub(super) const INFO: usize = 32;

/// Length of an initial vector of AES-CBC.
const VECTOR: usize = 16;

/// Key of the configuration file, with its cipher.
pub struct LocalKey {
    name: String,
    fingerprint: String,
    cipher: Cipher,
}

enum Cipher {
    AesGcm { key: Box<LessSafeKey>, seed: Seed },
    AesCbc(Box<PaddedBlockDecryptingKey>),
}

impl std::fmt::Debug for LocalKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalKey").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

/// Returns the fingerprint of a key: 8 hexadecimal digits.
pub fn fingerprint(key: &[u8]) -> String {
    digest(&SHA256, key).as_ref().iter().take(FINGERPRINT).map(|byte| format!("{byte:02x}")).collect()
}

impl LocalKey {
    /// Creates an AES-GCM key of 16 or 32 bytes.
    ///
    /// # Errors
    /// `KeyLength`.
    pub fn aes_gcm(name: &str, key: &[u8]) -> Result<Self, EncryptionError> {
        let wrong = || EncryptionError::KeyLength { name: name.to_owned(), expected: "16 or 32" };
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            32 => &AES_256_GCM,
            _ => return Err(wrong()),
        };
        let unbound = UnboundKey::new(algorithm, key).map_err(|_| wrong())?;
        let seed = Seed::new(key, algorithm);
        let cipher = Cipher::AesGcm { key: Box::new(LessSafeKey::new(unbound)), seed };
        Ok(Self { name: name.to_owned(), fingerprint: fingerprint(key), cipher })
    }

    /// Creates an AES-CBC key of 16 or 32 bytes, which only opens values.
    ///
    /// # Errors
    /// `KeyLength`.
    pub fn aes_cbc(name: &str, key: &[u8]) -> Result<Self, EncryptionError> {
        let wrong = || EncryptionError::KeyLength { name: name.to_owned(), expected: "16 or 32" };
        let algorithm = match key.len() {
            16 => &cipher::AES_128,
            32 => &cipher::AES_256,
            _ => return Err(wrong()),
        };
        let unbound = UnboundCipherKey::new(algorithm, key).map_err(|_| wrong())?;
        let decrypting = PaddedBlockDecryptingKey::cbc_pkcs7(unbound).map_err(|_| wrong())?;
        let cipher = Cipher::AesCbc(Box::new(decrypting));
        Ok(Self { name: name.to_owned(), fingerprint: fingerprint(key), cipher })
    }

    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns true if the key can seal values.
    pub(super) const fn seals(&self) -> bool {
        matches!(self.cipher, Cipher::AesGcm { .. })
    }

    /// Seals a value, with a derived key or with the key itself.
    pub(super) fn seal(&self, key: &str, value: &[u8], derived: bool) -> Result<Bytes, EncryptionError> {
        let Cipher::AesGcm { key: cipher, seed } = &self.cipher else {
            return Err(EncryptionError::OnlyReads { key: key.to_owned(), provider: "aescbc" });
        };
        let (version, body) = if derived {
            (DERIVED, seed.seal(key, value)?)
        } else {
            (AES_GCM, seal_with_nonce(cipher, key, value)?)
        };
        let stored = [version.as_bytes(), self.name.as_bytes(), b":", &body].concat();
        Ok(Bytes::from(stored))
    }

    /// Opens a value. `None`, if it does not have the prefix of this key.
    pub(super) fn open(&self, key: &str, stored: &[u8]) -> Option<Result<Bytes, EncryptionError>> {
        let body = |prefix| self.body(prefix, stored);
        match &self.cipher {
            Cipher::AesGcm { key: cipher, seed } => match body(AES_GCM) {
                Some(sealed) => Some(open_with_nonce(cipher, key, sealed)),
                None => body(DERIVED).map(|sealed| seed.open(key, sealed)),
            },
            Cipher::AesCbc(cipher) => body(AES_CBC).map(|sealed| open_cbc(cipher, key, sealed)),
        }
    }

    /// Returns true if the value has the prefix with which this key seals now.
    pub(super) fn is_current(&self, stored: &[u8], derived: bool) -> bool {
        self.seals() && self.body(if derived { DERIVED } else { AES_GCM }, stored).is_some()
    }

    fn body<'s>(&self, prefix: &str, stored: &'s [u8]) -> Option<&'s [u8]> {
        let rest = stored.strip_prefix(prefix.as_bytes())?.strip_prefix(self.name.as_bytes())?;
        rest.strip_prefix(b":")
    }
}

/// Secret from which the key of each value is derived.
pub(super) struct Seed {
    secret: Prk,
    algorithm: &'static Algorithm,
}

impl Seed {
    /// Creates a seed of secret bytes. The derived keys are of this algorithm.
    pub(super) fn new(secret: &[u8], algorithm: &'static Algorithm) -> Self {
        Self { secret: Prk::new_less_safe(HKDF_SHA256, secret), algorithm }
    }

    fn cipher(&self, info: &[u8]) -> Option<LessSafeKey> {
        let info = [info];
        let derived = self.secret.expand(&info, self.algorithm).ok()?;
        Some(LessSafeKey::new(UnboundKey::from(derived)))
    }

    /// Seals a value with a key of its own.
    pub(super) fn seal(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, EncryptionError> {
        let failed = || EncryptionError::Seal(key.to_owned());
        let mut info = [0_u8; INFO];
        aws_lc_rs::rand::fill(&mut info).map_err(|_| failed())?;
        let cipher = self.cipher(&info).ok_or_else(failed)?;
        let sealed = seal_with_nonce(&cipher, key, value)?;
        Ok([info.as_slice(), &sealed].concat())
    }

    /// Opens a value that [`Seed::seal`] has sealed.
    pub(super) fn open(&self, key: &str, sealed: &[u8]) -> Result<Bytes, EncryptionError> {
        let damaged = || EncryptionError::Damaged(key.to_owned());
        let (info, body) = sealed.split_at_checked(INFO).ok_or_else(damaged)?;
        open_with_nonce(&self.cipher(info).ok_or_else(damaged)?, key, body)
    }
}

fn seal_with_nonce(cipher: &LessSafeKey, key: &str, value: &[u8]) -> Result<Vec<u8>, EncryptionError> {
    let failed = || EncryptionError::Seal(key.to_owned());
    let mut nonce = [0_u8; NONCE_LEN];
    aws_lc_rs::rand::fill(&mut nonce).map_err(|_| failed())?;
    let (mut body, aad) = (value.to_vec(), Aad::from(key.as_bytes()));
    let sealed = cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut body);
    sealed.map_err(|_| failed())?;
    Ok([nonce.as_slice(), &body].concat())
}

fn open_with_nonce(cipher: &LessSafeKey, key: &str, sealed: &[u8]) -> Result<Bytes, EncryptionError> {
    let damaged = || EncryptionError::Damaged(key.to_owned());
    let (nonce, body) = sealed.split_at_checked(NONCE_LEN).ok_or_else(damaged)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| damaged())?;
    let mut body = body.to_vec();
    let length =
        cipher.open_in_place(nonce, Aad::from(key.as_bytes()), &mut body).map_err(|_| damaged())?.len();
    body.truncate(length);
    Ok(Bytes::from(body))
}

fn open_cbc(cipher: &PaddedBlockDecryptingKey, key: &str, sealed: &[u8]) -> Result<Bytes, EncryptionError> {
    let damaged = || EncryptionError::Damaged(key.to_owned());
    let (vector, body) = sealed.split_first_chunk::<VECTOR>().ok_or_else(damaged)?;
    let context = DecryptionContext::Iv128(FixedLength::from(*vector));
    let mut body = body.to_vec();
    let length = cipher.decrypt(&mut body, context).map_err(|_| damaged())?.len();
    body.truncate(length);
    Ok(Bytes::from(body))
}
