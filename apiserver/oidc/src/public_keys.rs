//! Public keys of an issuer that another part keeps, and the verification of a token with them.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::algorithm::Algorithm;
use crate::claims::{self, Unverified};
use crate::keys::{self, VerificationKey};

/// Reason why a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRefusal {
    /// No key has the id that the token names. The issuer may have a new key.
    UnknownKey,
    /// The token is not valid, with the reason.
    Invalid(String),
}

/// Public keys of an issuer. Clones share them.
#[derive(Debug, Clone)]
pub struct PublicKeys(Arc<Vec<VerificationKey>>);

impl PublicKeys {
    /// Reads a JSON Web Key Set. Keys of other kinds, and keys for encryption, are left out.
    ///
    /// # Errors
    /// The document is no key set, or no key is left.
    pub fn read(document: &[u8]) -> Result<Self, String> {
        keys::read(document).map(|keys| Self(Arc::new(keys)))
    }

    /// Returns the claims of a token whose signature, issuer, audience and times are good. `now` is in seconds.
    ///
    /// # Errors
    /// [`KeyRefusal`] says whether the issuer may have a key for it.
    pub fn verify(
        &self,
        token: &str,
        issuer: &str,
        audiences: &[String],
        now: f64,
    ) -> Result<Map<String, Value>, KeyRefusal> {
        let token = Unverified::read(token, &Algorithm::DEFAULT).map_err(KeyRefusal::Invalid)?;
        let mut candidates = self.0.iter().filter(|key| key.has_id(token.key.as_deref())).peekable();
        if candidates.peek().is_none() {
            return Err(KeyRefusal::UnknownKey);
        }
        if !candidates.any(|key| key.verifies(token.algorithm, token.message.as_bytes(), token.signature)) {
            return Err(KeyRefusal::Invalid("no key of the issuer verifies its signature".to_owned()));
        }
        let found = token.claims().map_err(KeyRefusal::Invalid)?;
        claims::check(&found, issuer, audiences, now).map_err(KeyRefusal::Invalid)?;
        Ok(found)
    }
}
