//! Issuer of the tokens of the host's service accounts. A token of another issuer is not shown to the host: it could use
//! the token elsewhere.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

use crate::jwt;

/// Document in which the host names its issuer.
pub(super) const DOCUMENT: &str = "/.well-known/openid-configuration";

/// Issuer in the tokens of Secrets, which is that of every cluster.
const LEGACY: &str = "kubernetes/serviceaccount";

/// Shortest time between two questions. Anybody can send tokens of an unknown issuer.
const INTERVAL: Duration = Duration::from_secs(60);

/// Longest wait for the document: a request is waiting.
const PATIENCE: Duration = Duration::from_secs(2);

/// Issuer of the host.
pub(super) struct HostIssuer {
    client: Client,
    /// True if the host reviews the tokens of all issuers, and those that are no JWT.
    pub(super) reviews_unknown: bool,
    known: Mutex<Option<String>>,
    asked: tokio::sync::Mutex<Option<Instant>>,
}

impl HostIssuer {
    pub(super) fn new(client: Client) -> Self {
        Self { client, reviews_unknown: false, known: Mutex::default(), asked: tokio::sync::Mutex::default() }
    }

    /// Returns true if the host may have issued a token, or reviews tokens of all issuers.
    pub(super) async fn may_review(&self, token: &str) -> bool {
        self.reviews_unknown || self.may_have_issued(token, None).await
    }

    /// Returns true if the host may have issued a token. While the issuer is unknown, each JWT with an issuer may be the
    /// host's. `kept` is the issuer that the host had earlier.
    pub(super) async fn may_have_issued(&self, token: &str, kept: Option<&str>) -> bool {
        let claims = jwt::claims(token);
        let Some(issuer) = claims.as_ref().and_then(|claims| claims.get("iss")).and_then(Value::as_str)
        else {
            return false;
        };
        if issuer == LEGACY || kept == Some(issuer) || self.known().as_deref() == Some(issuer) {
            return true;
        }
        self.ask().await;
        self.known().map_or(kept.is_none(), |known| known == issuer)
    }

    fn known(&self) -> Option<String> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the issuer, which the host may have changed, unless that was tried a short time ago.
    async fn ask(&self) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < INTERVAL) {
            return;
        }
        match tokio::time::timeout(PATIENCE, self.read()).await {
            Ok(Ok(issuer)) => {
                *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(issuer);
            }
            Ok(Err(error)) => tracing::warn!(
                "the issuer of the host cluster's tokens cannot be read at {DOCUMENT}: {error}. Tokens of other issuers \
                 are shown to the host until it can; apply the output of `capstan host manifests`"
            ),
            Err(_) => {}
        }
        *asked = Some(Instant::now());
    }

    async fn read(&self) -> Result<String, String> {
        let request = http::Request::get(DOCUMENT).body(Vec::new()).map_err(|error| error.to_string())?;
        let document: Value = self.client.request(request).await.map_err(|error| error.to_string())?;
        let issuer = document.get("issuer").and_then(Value::as_str).filter(|issuer| !issuer.is_empty());
        issuer.map(str::to_owned).ok_or_else(|| "the document names no issuer".to_owned())
    }
}
