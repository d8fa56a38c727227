//! Token authenticator of the host cluster: identifies users by TokenReview, cached for a few seconds.

use std::net::IpAddr;
use std::time::Duration;

use apiserver_access::{InFlight, Overloaded, ReviewFailed, TokenHash, TokenHasher, TokenSource, User};
use async_trait::async_trait;
use aws_lc_rs::error::Unspecified;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::audiences::Audiences;
use crate::health::{HostHealth, HostState};
use crate::mirror::HostMirror;
use crate::retry;
use crate::ttl_cache::TtlCache;
use issuer::HostIssuer;
pub use keys::{HostKeys, KeptKeys};
use offline::OfflineTokens;

/// Lifetime of a cached answer, good or bad: upstream's default, the delay of a revocation.
const LIFETIME: Duration = Duration::from_secs(10);

/// Maximum number of cached reviews: some thousand clients, and as many guessed tokens.
const MOST: usize = 8192;

/// Maximum number of requests in flight: a client that guesses tokens must not flood the host.
const AT_ONCE: usize = 64;

/// Maximum number of requests in flight for clients of one address, so that its guesses keep no other token waiting.
const PER_ADDRESS: usize = 4;

/// Maximum number of requests that wait to be sent.
const MOST_WAITING: usize = 256;

/// Time between two warnings about the same user.
const WARNING_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// Maximum number of users that a warning is remembered of.
const MOST_WARNED: usize = 1024;

/// Longest wait for a review.
const PATIENCE: Duration = Duration::from_secs(2);

/// Group that may do everything on the direct endpoint.
const MASTERS: &str = "system:masters";

/// Error if the host does not answer in time.
const LATE: &str = "the host cluster does not answer in time who this token belongs to: try again, or use a client \
    certificate of this endpoint (`capstan kubeconfig` makes one)";

/// Error if the host does not know a token before it is known to have read its objects.
const UNPROVEN: &str = "the host cluster has just returned, and may not know all its tokens yet: try again";

/// Source of the users of bearer tokens, which sends TokenReviews to the host.
pub struct HostTokens {
    client: Client,
    reviews: TtlCache<TokenHash, Option<User>>,
    hasher: TokenHasher,
    in_flight: InFlight,
    audiences: Audiences,
    /// Users with a token for the host's own API, of which a warning was logged.
    warned: TtlCache<String, ()>,
    /// True if the host's tokens can have the group of administrators.
    trusts_masters: bool,
    health: HostHealth,
    issuer: HostIssuer,
    /// Verifier of tokens while the host does not answer.
    offline: Option<OfflineTokens>,
}

impl std::fmt::Debug for HostTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostTokens").finish_non_exhaustive()
    }
}

impl HostTokens {
    /// Creates a source that uses this client. Unless it `trusts_masters`, it drops the group `system:masters`: the host's
    /// administrators are not those of the direct endpoint.
    ///
    /// # Errors
    /// [`Unspecified`] if the system has no random numbers.
    pub fn new(client: Client, audiences: Audiences, trusts_masters: bool) -> Result<Self, Unspecified> {
        Ok(Self {
            issuer: HostIssuer::new(client.clone()),
            client,
            reviews: TtlCache::new(LIFETIME, MOST),
            hasher: TokenHasher::new()?,
            in_flight: InFlight::new(AT_ONCE, PER_ADDRESS, MOST_WAITING),
            audiences,
            warned: TtlCache::new(WARNING_INTERVAL, MOST_WARNED),
            trusts_masters,
            health: HostHealth::default(),
            offline: None,
        })
    }

    /// Believes that a token is unknown only as far as the health of the host allows. Without this, it is believed.
    #[must_use]
    pub fn with_health(self, health: HostHealth) -> Self {
        Self { health, ..self }
    }

    /// Shows the host all tokens: also those of an issuer that is not the host, and those that are no JWT. Without this,
    /// they are refused.
    #[must_use]
    pub fn reviewing_unknown(mut self, reviews_unknown: bool) -> Self {
        self.issuer.reviews_unknown = reviews_unknown;
        self
    }

    /// Verifies tokens of service accounts by these keys and this mirror while the host does not answer. Without this, no
    /// token is valid then.
    #[must_use]
    pub fn with_mirror(self, keys: HostKeys, mirror: HostMirror) -> Self {
        Self { offline: Some(OfflineTokens { keys, mirror }), ..self }
    }

    /// Returns the user that a review for these audiences has found.
    fn user(&self, requested: Option<&[String]>, status: TokenReviewStatus) -> Option<User> {
        let confirmed = status.audiences.clone();
        let mut user =
            user(status).filter(|_| self.audiences.are_confirmed(requested, confirmed.as_deref()))?;
        if requested.is_none() {
            self.warn_of_audience(&user.name);
        }
        user.groups.retain(|group| group != MASTERS || self.trusts_masters);
        Some(user)
    }

    /// Logs that a user has a token for the host's own API: it works there, too, for every server that it is sent to.
    fn warn_of_audience(&self, user: &str) {
        let name = user.to_owned();
        if self.warned.get(&name).is_some() {
            return;
        }
        self.warned.insert(name, ());
        tracing::warn!(
            user,
            audiences = self.audiences.own.join(", "),
            "a client shows a token for the host cluster's own API; request one with an audience of this server: \
             kubectl create token --audience"
        );
    }
}

#[async_trait]
impl TokenSource for HostTokens {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        self.review_from(token, None).await
    }

    async fn review_from(&self, token: &str, address: Option<IpAddr>) -> Result<Option<User>, ReviewFailed> {
        let state = self.health.state();
        // Another cluster has other users.
        if state == HostState::Other {
            return Ok(None);
        }
        let hash = self.hasher.hash(token);
        if let Some(user) = self.reviews.get(&hash) {
            return Ok(user);
        }
        let offline = self.offline.as_ref().filter(|it| !self.issuer.reviews_unknown || it.has_issued(token));
        if let Some(offline) = offline.filter(|_| state.is_cut_off()) {
            return offline.review(token, &self.audiences, state).await;
        }
        if !self.issuer.may_review(token).await {
            return Ok(None);
        }
        let Some(offline) = offline else { return self.ask(token, hash, address).await };
        match tokio::time::timeout(PATIENCE, self.ask(token, hash, address)).await {
            Ok(Ok(user)) => Ok(user),
            // While the host is up, only it knows whether the pod of the token exists. An error may be a flood of tokens.
            Ok(Err(error)) if self.health.state() == HostState::Up => Err(error),
            Err(_) if self.health.state() == HostState::Up => {
                Err(ReviewFailed("the host cluster did not review the token in time: try again".to_owned()))
            }
            Ok(Err(_)) | Err(_) => offline.review(token, &self.audiences, self.health.state()).await,
        }
    }

    async fn may_have_issued(&self, token: &str) -> bool {
        let kept = self.offline.as_ref().and_then(OfflineTokens::issuer);
        self.issuer.may_have_issued(token, kept.as_deref()).await
    }
}

impl HostTokens {
    /// Returns the user that the host names.
    async fn ask(
        &self,
        token: &str,
        hash: TokenHash,
        address: Option<IpAddr>,
    ) -> Result<Option<User>, ReviewFailed> {
        // The user is not known yet.
        let source = InFlight::source(address);
        let entered = self.in_flight.enter(&source).await;
        let _permit = entered.map_err(|Overloaded| {
            ReviewFailed("too many tokens wait for the host cluster to review them: try again".to_owned())
        })?;
        // A request with the same token may have got the answer during the wait.
        if let Some(user) = self.reviews.get(&hash) {
            return Ok(user);
        }
        let audiences = self.audiences.requested(token);
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: audiences.clone() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        let asking = retry::with_retries(|| api.create(&parameters, &review));
        let Ok(answer) = tokio::time::timeout(PATIENCE, asking).await else {
            tracing::warn!("the host did not review a bearer token in time");
            return Err(ReviewFailed(LATE.to_owned()));
        };
        match answer {
            Ok(answer) => {
                let user = self.user(audiences.as_deref(), answer.status.unwrap_or_default());
                if user.is_none() && !self.health.state().believes_reviews() {
                    return Err(ReviewFailed(UNPROVEN.to_owned()));
                }
                self.reviews.insert(hash, user.clone());
                Ok(user)
            }
            // Failures are not cached: the next request asks again.
            Err(error) => Err(review_failed(&error)),
        }
    }
}

/// Returns the error with the remedy, and logs both.
fn review_failed(error: &kube::Error) -> ReviewFailed {
    let text = match error {
        kube::Error::Api(status) if status.code == 401 || status.code == 403 => {
            "the host cluster does not let this server review tokens: bind ClusterRole system:auth-delegator to its user (`capstan host manifests` does)"
        }
        _ => {
            "the host cluster does not answer who this token belongs to: try again, or use a client certificate of this endpoint (`capstan kubeconfig` makes one)"
        }
    };
    tracing::warn!(%error, "cannot review a bearer token: {text}");
    ReviewFailed(text.to_owned())
}

fn user(status: TokenReviewStatus) -> Option<User> {
    let found = status.user.filter(|_| status.authenticated == Some(true))?;
    let name = found.username.filter(|name| !name.is_empty())?;
    let mut user = User::authenticated(name, found.groups.unwrap_or_default());
    user.uid = found.uid.filter(|uid| !uid.is_empty());
    user.extra = found.extra.unwrap_or_default();
    Some(user)
}

mod issuer;
mod keys;
mod offline;
#[cfg(test)]
mod offline_tests;
#[cfg(test)]
mod tests;
