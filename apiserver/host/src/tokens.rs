//! Token authenticator of the host cluster: identifies users by TokenReview, cached for a few seconds.

use std::time::Duration;

use apiserver_access::{ReviewFailed, TokenSource, User};
use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::Semaphore;

use crate::retry;
use crate::ttl_cache::TtlCache;

/// Lifetime of a cached answer, good or bad: upstream's default, the delay of a revocation.
const LIFETIME: Duration = Duration::from_secs(10);

/// Maximum number of cached reviews: some thousand clients, and as many guessed tokens.
const MOST: usize = 8192;

/// Maximum number of requests in flight: a client that guesses tokens must not flood the host.
const AT_ONCE: usize = 16;

/// Group that may do everything on the direct endpoint.
const MASTERS: &str = "system:masters";

/// Hash of a token: tokens themselves are not kept.
type Hash = [u8; SHA256_OUTPUT_LEN];

/// Source of the users of bearer tokens, which sends TokenReviews to the host.
pub struct HostTokens {
    client: Client,
    reviews: TtlCache<Hash, Option<User>>,
    at_once: Semaphore,
    /// True if the host's tokens can have the group of administrators.
    trusts_masters: bool,
}

impl std::fmt::Debug for HostTokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostTokens").finish_non_exhaustive()
    }
}

impl HostTokens {
    /// Creates a source that uses this client. Unless it `trusts_masters`, it drops the group `system:masters`: the host's
    /// administrators are not those of the direct endpoint.
    pub fn new(client: Client, trusts_masters: bool) -> Self {
        let (reviews, at_once) = (TtlCache::new(LIFETIME, MOST), Semaphore::new(AT_ONCE));
        Self { client, reviews, at_once, trusts_masters }
    }

    /// Returns the user that a review has found.
    fn user(&self, status: TokenReviewStatus) -> Option<User> {
        let mut user = user(status)?;
        user.groups.retain(|group| group != MASTERS || self.trusts_masters);
        Some(user)
    }
}

#[async_trait]
impl TokenSource for HostTokens {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        let hash = hash(token);
        if let Some(user) = self.reviews.get(&hash) {
            return Ok(user);
        }
        let _permit = self.at_once.acquire().await;
        // A request with the same token may have got the answer during the wait.
        if let Some(user) = self.reviews.get(&hash) {
            return Ok(user);
        }
        let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
        let review = TokenReview { spec, ..TokenReview::default() };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let parameters = PostParams::default();
        match retry::with_retries(|| api.create(&parameters, &review)).await {
            Ok(answer) => {
                let user = self.user(answer.status.unwrap_or_default());
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

fn hash(token: &str) -> Hash {
    let mut hash = [0; SHA256_OUTPUT_LEN];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

fn user(status: TokenReviewStatus) -> Option<User> {
    let found = status.user.filter(|_| status.authenticated == Some(true))?;
    let name = found.username.filter(|name| !name.is_empty())?;
    let mut user = User::authenticated(name, found.groups.unwrap_or_default());
    user.uid = found.uid.filter(|uid| !uid.is_empty());
    user.extra = found.extra.unwrap_or_default();
    Some(user)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{Fake, status};

    fn review(status: &Value) -> (u16, Value) {
        let spec = json!({"token": "t"});
        (
            201,
            json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {}, "spec": spec, "status": status}),
        )
    }

    fn alice() -> (u16, Value) {
        review(&json!({"authenticated": true, "user": {"username": "alice", "uid": "7",
            "groups": ["dev"], "extra": {"scopes": ["a"]}}}))
    }

    #[tokio::test(start_paused = true)]
    async fn the_host_reviews_a_token_and_its_answer_is_cached() {
        let host = Fake::new(alice());
        let tokens = HostTokens::new(host.client(), false);
        let many = futures::future::join_all((0..100).map(|_| tokens.review("t"))).await;
        let user = many.into_iter().last().unwrap().unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_deref()), ("alice", Some("7")));
        assert_eq!(user.groups, ["dev", "system:authenticated"]);
        assert_eq!(user.extra.get("scopes"), Some(&vec!["a".to_owned()]));
        assert!(host.requests().len() <= AT_ONCE, "{}", host.requests().len());
        assert_eq!(host.bodies()[0]["spec"]["token"], "t");
        let before = host.requests().len();
        host.answer(review(&json!({"authenticated": false})));
        assert!(tokens.review("t").await.unwrap().is_some());
        tokio::time::sleep(LIFETIME).await;
        assert_eq!(tokens.review("t").await, Ok(None));
        host.answer(alice());
        assert_eq!(tokens.review("t").await, Ok(None), "a refusal is believed for as long");
        assert_eq!(host.requests().len(), before + 1);
        assert!(tokens.review("another").await.unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_token_review_is_not_a_refusal() {
        let host = Fake::new(status(503));
        let tokens = HostTokens::new(host.client(), false);
        assert!(tokens.review("t").await.unwrap_err().0.contains("try again"));
        host.answer(status(403));
        assert!(tokens.review("t").await.unwrap_err().0.contains("system:auth-delegator"));
        host.answer(alice());
        assert!(tokens.review("t").await.unwrap().is_some(), "a failure is not remembered");
    }

    #[tokio::test]
    async fn administrators_of_the_host_are_none_here_unless_a_setting_trusts_them() {
        let groups = ["system:masters", "system:nodes", "system:serviceaccounts:team", "dev"];
        let host = Fake::new(review(&json!({"authenticated": true,
            "user": {"username": "alice", "groups": groups}})));
        for (trusts_masters, kept) in [(false, &groups[1..]), (true, &groups[..])] {
            let tokens = HostTokens::new(host.client(), trusts_masters);
            let user = tokens.review("t").await.unwrap().unwrap();
            assert_eq!(user.groups, [kept, &["system:authenticated"]].concat());
        }
    }

    #[test]
    fn only_an_authenticated_status_with_a_user_name_is_accepted() {
        let table = [
            (json!({}), false),
            (json!({"user": {"username": "a"}}), false),
            (json!({"authenticated": false, "user": {"username": "a"}}), false),
            (json!({"authenticated": true}), false),
            (json!({"authenticated": true, "user": {"username": ""}}), false),
            (json!({"authenticated": true, "user": {"username": "a"}}), true),
        ];
        for (status, good) in table {
            let parsed: TokenReviewStatus = serde_json::from_value(status.clone()).unwrap();
            assert_eq!(user(parsed).is_some(), good, "{status}");
        }
    }
}
