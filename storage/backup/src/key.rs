//! Backup key: 32 random bytes that seal backup files.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};

use crate::BackupError;

/// Bytes of the salt of a file.
pub(crate) const SALT: usize = 32;

/// Purpose of the derived key.
const PURPOSE: &[u8] = b"capstan-backup frames 1";

/// Purpose of the key that seals keys in a header.
const KEYS: &[u8] = b"capstan-backup keys 1";

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
        self.derive(salt, PURPOSE)
    }

    fn derive(&self, salt: &[u8; SALT], purpose: &[u8]) -> Result<LessSafeKey, BackupError> {
        let derived = Salt::new(HKDF_SHA256, salt).extract(&self.0);
        let info = [purpose];
        let key = derived.expand(&info, &AES_256_GCM).map_err(|_| BackupError::Crypto)?;
        Ok(LessSafeKey::new(UnboundKey::from(key)))
    }
}

impl BackupKey {
    /// Seals a text for the header of a file: hexadecimal digits of a random salt and of the sealed text.
    ///
    /// # Errors
    /// `Crypto`.
    pub fn seal(&self, text: &str) -> Result<String, BackupError> {
        let salt = random::<SALT>()?;
        let mut bytes = text.as_bytes().to_vec();
        // The key of each salt seals once, so that the nonce may be constant.
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let sealed = self.derive(&salt, KEYS)?.seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes);
        sealed.map_err(|_| BackupError::Crypto)?;
        Ok(hexadecimal(&salt) + &hexadecimal(&bytes))
    }

    /// Opens what [`BackupKey::seal`] returned. `None`: it is damaged, or another key sealed it.
    pub fn open(&self, sealed: &str) -> Option<String> {
        let (salt, sealed) = sealed.split_at_checked(2 * SALT)?;
        let pairs = sealed.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
        let bytes = pairs.map(|pair| u8::from_str_radix(pair?, 16).ok());
        let mut bytes = bytes.collect::<Option<Vec<u8>>>()?;
        let cipher = self.derive(&from_hexadecimal(salt)?, KEYS).ok()?;
        let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
        let plain = cipher.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
        String::from_utf8(plain.to_vec()).ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bk_04_only_the_same_key_opens_a_sealed_text_and_a_changed_one_is_refused() {
        let key = BackupKey::new([1; BackupKey::LENGTH]);
        let sealed = key.seal("the text").unwrap();
        assert_ne!(sealed, key.seal("the text").unwrap());
        assert_eq!(key.open(&sealed).as_deref(), Some("the text"));
        assert_eq!(BackupKey::new([2; BackupKey::LENGTH]).open(&sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            let other = if sealed.as_bytes()[at] == b'0' { "1" } else { "0" };
            changed.replace_range(at..=at, other);
            assert_eq!(key.open(&changed), None, "{at}");
        }
        for bad in ["", "0", "é", &sealed[..sealed.len() - 1], &sealed[..2 * SALT]] {
            assert_eq!(key.open(bad), None, "{bad}");
        }
    }
}
