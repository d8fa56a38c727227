//! Keyed hash of tokens, as the key of a cache: tokens themselves are not kept, and a hash is of no use outside this process.

use aws_lc_rs::digest::SHA256_OUTPUT_LEN;
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::rand::SystemRandom;

/// Hash of a token.
pub type TokenHash = [u8; SHA256_OUTPUT_LEN];

/// Hash function with a key of this process.
#[derive(Debug)]
pub struct TokenHasher(hmac::Key);

impl TokenHasher {
    /// Creates a hash function with a random key.
    ///
    /// # Errors
    /// [`Unspecified`] if the system has no random numbers.
    pub fn new() -> Result<Self, Unspecified> {
        Ok(Self(hmac::Key::generate(HMAC_SHA256, &SystemRandom::new())?))
    }

    /// Returns the hash of a token.
    pub fn hash(&self, token: &str) -> TokenHash {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(hmac::sign(&self.0, token.as_bytes()).as_ref());
        hash
    }
}
