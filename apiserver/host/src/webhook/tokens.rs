//! Token authenticator by a webhook: TokenReviews, cached for at most a minute.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use apiserver_access::{InFlight, Overloaded, ReviewFailed, TokenHash, TokenHasher, TokenSource, User};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};

use super::client::{LastError, WebhookClient};
use crate::connection::ConnectError;
use crate::retry;
use crate::ttl_cache::TtlCache;

/// Longest lifetime of a cached refusal: upstream's number. A new user should not wait long for the first login.
const REFUSED_TTL: Duration = Duration::from_secs(10);

/// Maximum number of cached answers of each kind: some thousand clients, and as many guessed tokens.
const MOST: usize = 8192;

/// Maximum number of requests in flight: a client that guesses tokens must not flood the webhook.
const AT_ONCE: usize = 64;

/// Maximum number of requests in flight for clients of one address, so that its guesses keep no other token waiting.
const PER_ADDRESS: usize = 4;

/// Maximum number of requests that wait to be sent.
const MOST_WAITING: usize = 256;

/// Interval at which the kubeconfig and its files are read again. A renewed credential is in use after that.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Settings of a webhook that reviews tokens.
#[derive(Debug, Clone)]
pub struct TokenWebhookSettings {
    /// Kubeconfig with the URL of the webhook and the server's credential for it.
    pub kubeconfig: PathBuf,
    /// Time limit of a review, with the wait and all tries.
    pub timeout: Duration,
    /// Lifetime of a cached answer that names a user. A refusal is cached for at most ten seconds of it.
    pub cache_ttl: Duration,
    /// Audiences of the tokens that are for this server. They are in each review.
    pub audiences: Vec<String>,
    /// Begin of all names and groups, or empty.
    pub prefix: String,
}

/// Source of the users of tokens, which sends TokenReviews to a webhook.
pub struct WebhookTokens {
    settings: TokenWebhookSettings,
    client: ArcSwap<WebhookClient>,
    accepted: TtlCache<TokenHash, User>,
    refused: TtlCache<TokenHash, ()>,
    hasher: TokenHasher,
    in_flight: InFlight,
    /// Error of the newest state of the kubeconfig, which is not in use.
    error: Mutex<String>,
}

impl std::fmt::Debug for WebhookTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookTokens").finish_non_exhaustive()
    }
}

/// Error at the start of a webhook.
#[derive(Debug, thiserror::Error)]
pub enum TokenWebhookError {
    /// The kubeconfig cannot be used.
    #[error(transparent)]
    Kubeconfig(#[from] ConnectError),
    /// The system has no random numbers for the key of the cache.
    #[error("the system gives no random numbers for the key of the cache of tokens")]
    NoRandomNumbers,
}

impl WebhookTokens {
    /// Reads the kubeconfig of a webhook. Nothing is sent yet.
    ///
    /// # Errors
    /// [`TokenWebhookError`] names the file and its error.
    pub async fn open(settings: TokenWebhookSettings) -> Result<Self, TokenWebhookError> {
        let client = WebhookClient::open(&settings.kubeconfig).await?;
        Self::with(client, settings)
    }

    pub(super) fn with(
        client: WebhookClient,
        settings: TokenWebhookSettings,
    ) -> Result<Self, TokenWebhookError> {
        Ok(Self {
            client: ArcSwap::from_pointee(client),
            accepted: TtlCache::new(settings.cache_ttl, MOST),
            refused: TtlCache::new(settings.cache_ttl.min(REFUSED_TTL), MOST),
            hasher: TokenHasher::new().map_err(|_| TokenWebhookError::NoRandomNumbers)?,
            in_flight: InFlight::new(AT_ONCE, PER_ADDRESS, MOST_WAITING),
            error: Mutex::default(),
            settings,
        })
    }

    /// Follows the kubeconfig and the files that it names. Never returns. Files that cannot be used change nothing.
    pub async fn follow(&self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            match self.reload().await {
                Ok(true) => tracing::info!(
                    kubeconfig = %self.settings.kubeconfig.display(),
                    "the kubeconfig of the token webhook changed; new reviews use it"
                ),
                Ok(false) => {}
                Err(error) => self.warn_of_error(&error.to_string()),
            }
        }
    }

    /// Reads the files again. Returns true if they changed and are in use now.
    pub(super) async fn reload(&self) -> Result<bool, ConnectError> {
        let found = WebhookClient::open(&self.settings.kubeconfig).await?;
        self.last_error().clear();
        if found.fingerprint == self.client.load().fingerprint {
            return Ok(false);
        }
        self.client.store(std::sync::Arc::new(found));
        Ok(true)
    }

    /// Logs an error of the files, once.
    fn warn_of_error(&self, error: &str) {
        let mut last = self.last_error();
        if *last != error {
            error.clone_into(&mut last);
            tracing::error!(
                error,
                "the kubeconfig of the token webhook cannot be used; the last one stays in use"
            );
        }
    }

    fn last_error(&self) -> std::sync::MutexGuard<'_, String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a cached answer. The outer `None`: there is none.
    fn cached(&self, hash: &TokenHash) -> Option<Option<User>> {
        self.accepted.get(hash).map(Some).or_else(|| self.refused.get(hash).map(|()| None))
    }

    /// Returns the user that the webhook names, or the reason why it does not decide.
    async fn ask(
        &self,
        token: &str,
        hash: TokenHash,
        address: Option<IpAddr>,
        last: &LastError,
    ) -> Result<Option<User>, String> {
        // The user is not known yet.
        let source = InFlight::source(address);
        let entered = self.in_flight.enter(&source).await;
        let _permit = entered.map_err(|Overloaded| "too many tokens wait for it".to_owned())?;
        // A request with the same token may have got the answer during the wait.
        if let Some(known) = self.cached(&hash) {
            return Ok(known);
        }
        let audiences = Some(self.settings.audiences.clone());
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences };
        let review = TokenReview { spec, ..TokenReview::default() };
        let client = self.client.load_full();
        let noted =
            || async { client.send_token(&review).await.inspect_err(|error| last.note(words(error))) };
        let answer: TokenReview = retry::with_retries(noted).await.map_err(|error| words(&error))?;
        let mut status = answer.status.ok_or("its answer has no status")?;
        // The webhook may quote what it was sent.
        status.error = status.error.map(|error| error.replace(token, "(the token)"));
        let user = self.user(status);
        match &user {
            Some(user) => self.accepted.insert(hash, user.clone()),
            None => self.refused.insert(hash, ()),
        }
        Ok(user)
    }

    /// Returns the user that an answer names.
    fn user(&self, status: TokenReviewStatus) -> Option<User> {
        if let Some(error) = status.error.filter(|error| !error.is_empty()) {
            tracing::info!(error, "the token webhook reports an error");
        }
        let found = status.user.filter(|_| status.authenticated == Some(true))?;
        // A webhook that does not know audiences names none. Its tokens are for all servers that have its kubeconfig.
        let audiences = status.audiences.unwrap_or_default();
        if !audiences.is_empty() && !audiences.iter().any(|name| self.settings.audiences.contains(name)) {
            return None;
        }
        let prefixed = |name: String| format!("{}{name}", self.settings.prefix);
        let name = found.username.filter(|name| !name.is_empty())?;
        let groups = found.groups.unwrap_or_default().into_iter().map(prefixed);
        let mut user = User::authenticated(prefixed(name), groups);
        user.uid = found.uid.filter(|uid| !uid.is_empty());
        user.extra = found.extra.unwrap_or_default();
        Some(user)
    }

    fn failed(why: &str) -> ReviewFailed {
        tracing::warn!(why, "the token webhook does not decide");
        ReviewFailed(format!(
            "the token webhook does not decide about this token: {why}. Try again, or use a client certificate of this \
             endpoint (`capstan kubeconfig` makes one)"
        ))
    }
}

/// Returns an error without the body of the answer, which may repeat the token.
fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("its answer has the code {}", status.code),
        kube::Error::SerdeError(_) => "its answer is no TokenReview of authentication.k8s.io/v1".to_owned(),
        other => other.to_string(),
    }
}

#[async_trait]
impl TokenSource for WebhookTokens {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        self.review_from(token, None).await
    }

    async fn review_from(&self, token: &str, address: Option<IpAddr>) -> Result<Option<User>, ReviewFailed> {
        let hash = self.hasher.hash(token);
        if let Some(known) = self.cached(&hash) {
            return Ok(known);
        }
        // Failures are not cached: the next request asks again.
        let last = LastError::default();
        match tokio::time::timeout(self.settings.timeout, self.ask(token, hash, address, &last)).await {
            Ok(answer) => answer.map_err(|why| Self::failed(&why)),
            Err(_) => Err(Self::failed(&last.late())),
        }
    }
}
