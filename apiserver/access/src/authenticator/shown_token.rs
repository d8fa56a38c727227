//! Token of a request whose response outlives the check of the token, as a watch does.

use std::fmt;

use http::HeaderMap;

use super::token::{self, Credential};
use super::{Authenticator, ReviewFailed, Unauthenticated};
use crate::peer::Peer;

/// Token that a request has shown. Its debug text hides the token.
#[derive(Clone)]
pub struct ShownToken(Credential);

impl fmt::Debug for ShownToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ShownToken")
    }
}

impl Authenticator {
    /// Returns the token by which the user of a request is known. `None` for a request without a token, and for one whose
    /// user the certificate or the front proxy of the connection names. It changes no header, and verifies nothing: read
    /// the token before [`Authenticator::authenticate`], which removes it.
    pub fn shown_token(&self, peer: &Peer, headers: &HeaderMap) -> Option<ShownToken> {
        if peer.identity().is_some() {
            return None;
        }
        match token::take(&mut headers.clone(), self.keystone_forms()) {
            Credential::None | Credential::Malformed => None,
            shown => Some(ShownToken(shown)),
        }
    }

    /// Returns true if a token is still valid: its source still names a user for it.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be checked now.
    pub async fn is_valid(&self, token: &ShownToken) -> Result<bool, ReviewFailed> {
        // No address: the token was valid once, so this is no guess of the client.
        match self.user_of_token(token.0.clone(), None).await {
            Ok(_) => Ok(true),
            Err(Unauthenticated::Refused) => Ok(false),
            Err(Unauthenticated::ReviewFailed(why)) => Err(why),
        }
    }
}
