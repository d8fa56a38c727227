//! Join token: `cap1.<hash of the CA's key>.<id>.<secret>`.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::{constant_time, rand};

use super::Secret;

/// First part of a token: the version of its form.
const FORM: &str = "cap1";

/// Bytes of the secret: 128 bit, which cannot be guessed within the lifetime of a token.
const SECRET: usize = 16;

/// Bytes of the id. It is public.
const ID: usize = 8;

/// Join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// SHA-256 of the public key of the CA that signs the serving certificates, in hex.
    pub(crate) ca: String,
    pub(crate) id: String,
    pub(crate) secret: Secret,
}

impl Token {
    /// Creates a token of an installation with this CA.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(crate) fn new(ca: String) -> anyhow::Result<Self> {
        Ok(Self { ca, id: random::<ID>()?, secret: Secret(random::<SECRET>()?) })
    }

    /// Returns the whole token, for the one place where it is printed.
    pub(crate) fn reveal(&self) -> String {
        format!("{FORM}.{}.{}.{}", self.ca, self.id, self.secret.0)
    }
}

impl FromStr for Token {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        let [FORM, ca, id, secret] = parts[..] else { return Err(InvalidToken) };
        let is_right = is_hex(ca, 32) && is_hex(id, ID) && is_hex(secret, SECRET);
        let token = Self { ca: ca.to_owned(), id: id.to_owned(), secret: Secret(secret.to_owned()) };
        if is_right { Ok(token) } else { Err(InvalidToken) }
    }
}

/// Text that is no token. The message does not repeat it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidToken;

impl fmt::Display for InvalidToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "is no token such as cap1.<hash>.<id>.<secret>; create one with `capstan join-token create`",
        )
    }
}

impl std::error::Error for InvalidToken {}

/// Reports whether a text is an id of a token, so that it can be part of a key in the store.
pub(super) fn is_id(text: &str) -> bool {
    is_hex(text, ID)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn random<const N: usize>() -> anyhow::Result<String> {
    let mut bytes = [0_u8; N];
    rand::fill(&mut bytes)
        .map_err(|_| anyhow::anyhow!("cannot create a join token: the system has no randomness"))?;
    Ok(hex(&bytes))
}

/// Returns bytes in hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the hash of a secret, which the store keeps instead of it.
pub(super) fn hash(secret: &Secret) -> String {
    hex(digest(&SHA256, secret.0.as_bytes()).as_ref())
}

/// Compares two hashes in a time that does not depend on them.
pub(super) fn are_equal(one: &str, other: &str) -> bool {
    constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}
