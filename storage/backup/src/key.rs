//! Backup key: 32 random bytes that seal backup files.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};

use crate::BackupError;

/// Bytes of the salt of a file.
pub(crate) const SALT: usize = 32;

/// Purpose of the derived key.
const PURPOSE: &[u8] = b"capstan-backup frames 1";

/// Bytes of a fingerprint: enough to tell the keys of an installation apart.
const FINGERPRINT: usize = 4;

/// Key that seals backup files.
#[derive(Clone, PartialEq, Eq)]
pub struct BackupKey([u8; Self::LENGTH]);

impl fmt::Debug for BackupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackupKey").field(&self.fingerprint()).finish()
    }
}

impl BackupKey {
    /// Bytes of a key.
    pub const LENGTH: usize = 32;

    /// Creates the key of these bytes.
    pub const fn new(bytes: [u8; Self::LENGTH]) -> Self {
        Self(bytes)
    }

    /// Creates a random key.
    ///
    /// # Errors
    /// `Crypto`.
    pub fn generate() -> Result<Self, BackupError> {
        random().map(Self)
    }

    /// Returns the bytes, for the file of the key.
    pub const fn bytes(&self) -> &[u8; Self::LENGTH] {
        &self.0
    }

    /// Returns the first bytes of the key's SHA-256: 8 hexadecimal digits.
    pub fn fingerprint(&self) -> String {
        hexadecimal(digest(&SHA256, &self.0).as_ref().get(..FINGERPRINT).unwrap_or_default())
    }

    /// Derives the cipher of a file. A key of its own for each file means that no two frames ever share a key and a
    /// nonce, however many files a backup key seals.
    pub(crate) fn cipher(&self, salt: &[u8; SALT]) -> Result<LessSafeKey, BackupError> {
        let derived = Salt::new(HKDF_SHA256, salt).extract(&self.0);
        let info = [PURPOSE];
        let key = derived.expand(&info, &AES_256_GCM).map_err(|_| BackupError::Crypto)?;
        Ok(LessSafeKey::new(UnboundKey::from(key)))
    }
}

/// Returns random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], BackupError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| BackupError::Crypto)?;
    Ok(bytes)
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses hexadecimal digits.
pub(crate) fn from_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
    }
    Some(bytes)
}
