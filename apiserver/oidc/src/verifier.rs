//! Verifier of the tokens of one issuer.

use std::sync::Arc;

use apiserver_access::{CLOCK, ReviewFailed, TokenSource, User};
use async_trait::async_trait;
use reqwest::Client;

use crate::claims::{self, Claims, Unverified};
use crate::config::{Authenticator, Expressions};
use crate::issuers::IssuerSettings;
use crate::keys::{KeySet, KeySource};
use crate::{distributed, mapping};

/// Reason why a token has no user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// The token is not valid.
    Invalid(String),
    /// The token may be valid: the issuer is silent.
    Undecided(String),
}

/// Verifier of the tokens of one issuer.
#[derive(Debug)]
pub(crate) struct Verifier {
    pub(crate) authenticator: Authenticator,
    pub(crate) expressions: Expressions,
    pub(crate) settings: IssuerSettings,
    pub(crate) keys: Arc<KeySource>,
}

impl Verifier {
    pub(crate) fn issuer(&self) -> &str {
        &self.authenticator.issuer.url
    }

    pub(crate) fn client(&self) -> &Client {
        self.keys.client()
    }

    /// Returns the claims of a token whose signature, issuer, audience and times are good.
    pub(crate) async fn claims(&self, token: &str) -> Result<Claims, Rejected> {
        let token = Unverified::read(token, &self.settings.algorithms).map_err(Rejected::Invalid)?;
        self.verify(&token).await?;
        let found = token.claims().map_err(Rejected::Invalid)?;
        let issuer = &self.authenticator.issuer;
        claims::check(&found, &issuer.url, &issuer.audiences, now()).map_err(Rejected::Invalid)?;
        Ok(found)
    }

    /// Verifies the signature. A key that is not known may be new, so the keys are fetched once more.
    async fn verify(&self, token: &Unverified<'_>) -> Result<(), Rejected> {
        let known = self.keys().await?;
        if verifies(&known, token) {
            return Ok(());
        }
        let is_new = token.key.as_deref().is_none_or(|id| !known.knows(id));
        if is_new {
            self.keys.fetch().await;
            if verifies(&*self.keys().await?, token) {
                return Ok(());
            }
        }
        Err(Rejected::Invalid("no key of the issuer verifies its signature".to_owned()))
    }

    async fn keys(&self) -> Result<Arc<KeySet>, Rejected> {
        self.keys.keys(self.settings.stale_keys).await.map_err(Rejected::Undecided)
    }

    async fn user(&self, token: &str) -> Result<User, Rejected> {
        let mut claims = self.claims(token).await?;
        let groups = &self.authenticator.claim_mappings.groups.claim;
        distributed::resolve(&mut claims, groups, self).await?;
        mapping::user(claims, &self.authenticator, &self.expressions).map_err(Rejected::Invalid)
    }
}

fn verifies(known: &KeySet, token: &Unverified<'_>) -> bool {
    let mut candidates = known.keys.iter().filter(|key| key.has_id(token.key.as_deref()));
    candidates.any(|key| key.verifies(token.algorithm, token.message.as_bytes(), token.signature))
}

fn now() -> f64 {
    CLOCK.time().as_secs_f64()
}

#[async_trait]
impl TokenSource for Verifier {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        match self.user(token).await {
            Ok(user) => Ok(Some(user)),
            Err(Rejected::Invalid(reason)) => {
                tracing::info!(issuer = self.issuer(), reason, "a token of the issuer is not accepted");
                Ok(None)
            }
            Err(Rejected::Undecided(cause)) => Err(ReviewFailed(format!(
                "this token cannot be verified: {cause}. Try again, or use a client certificate of this endpoint \
                 (`capstan kubeconfig` makes one)"
            ))),
        }
    }
}
