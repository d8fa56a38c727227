//! Users of tokens. Each token goes to one source: its issuer, Keystone, the webhook or the host cluster.

use std::net::IpAddr;
use std::sync::Arc;

use super::token::{self, Credential};
use super::{Authenticator, Issuer, ReviewFailed, Unauthenticated, finished};
use crate::user::{Realm, User};

impl Authenticator {
    /// Returns the user of a token that another program, at this address, has received; `None` if the token is not valid. A
    /// token with limits is not: the program would not enforce them.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be checked now.
    pub async fn review(
        &self,
        token: &str,
        address: Option<IpAddr>,
    ) -> Result<Option<Arc<User>>, ReviewFailed> {
        let credential = token::classify(token.to_owned(), self.keystone_forms());
        match self.user_of_token(credential, address).await {
            Ok(user) if user.limits.is_some() => {
                tracing::info!(
                    "a token that is limited to some requests or one certificate gets no TokenReview"
                );
                Ok(None)
            }
            Ok(user) => Ok(Some(user)),
            Err(Unauthenticated::Refused) => Ok(None),
            Err(Unauthenticated::ReviewFailed(why)) => Err(why),
        }
    }

    /// Returns the user of a token that another program has received and that is for other programs, with those of their
    /// `audiences` that it is for. Only issuers know audiences.
    ///
    /// # Errors
    /// [`ReviewFailed`] if the token cannot be checked now.
    pub async fn review_for(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<(Arc<User>, Vec<String>)>, ReviewFailed> {
        let Some(issuer) = self.issuers.of(token) else { return Ok(None) };
        let found = issuer.verifier.review_for(token, audiences).await?;
        // Another issuer's names would need the checks of a login.
        let found = found.filter(|_| issuer.realm == Realm::Own);
        Ok(found.map(|(user, audiences)| (finished(user, issuer.realm), audiences)))
    }

    pub(super) async fn user_of_token(
        &self,
        credential: Credential,
        address: Option<IpAddr>,
    ) -> Result<Arc<User>, Unauthenticated> {
        let (token, source, realm) = match credential {
            Credential::Token(token) => match self.issuer_of(&token).await {
                Some(issuer) => return of_issuer(&issuer, &token, address).await,
                None => (token, self.tokens.clone(), Realm::Host),
            },
            Credential::Keystone(token) => (token, self.keystone.clone(), Realm::Keystone),
            Credential::Malformed | Credential::None => return Err(Unauthenticated::Refused),
        };
        let source = source.ok_or(Unauthenticated::Refused)?;
        let user = source.review_from(&token, address).await?.ok_or(Unauthenticated::Refused)?;
        if realm == Realm::Host && self.has_account(&user.name) {
            return Err(Unauthenticated::Refused);
        }
        Ok(self.direct(user, realm))
    }

    /// Returns the issuer of a token, or the webhook. `None` leaves the token to the host cluster.
    async fn issuer_of(&self, token: &str) -> Option<Issuer> {
        if let Some(issuer) = self.issuers.of(token) {
            return Some(issuer);
        }
        let webhook = self.webhook.as_ref()?;
        let is_of_host = match &self.tokens {
            Some(host) => host.may_have_issued(token).await,
            None => false,
        };
        (!is_of_host).then(|| webhook.clone())
    }
}

/// Returns the user of a token of an issuer. Only this server itself may give names that Kubernetes reserves.
async fn of_issuer(
    issuer: &Issuer,
    token: &str,
    address: Option<IpAddr>,
) -> Result<Arc<User>, Unauthenticated> {
    let mut user = issuer.verifier.review_from(token, address).await?.ok_or(Unauthenticated::Refused)?;
    if issuer.realm != Realm::Own {
        let name = user.name.clone();
        user = user.without_reserved_names().ok_or_else(|| {
            tracing::warn!(
                issuer = issuer.url,
                user = name,
                "a token is refused: names that begin with \"system:\" belong to Kubernetes. Set a prefix: in \
                 claimMappings.username of the issuer, or in authentication.webhook.prefix"
            );
            Unauthenticated::Refused
        })?;
    }
    Ok(finished(user, issuer.realm.clone()))
}
