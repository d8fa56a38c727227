//! Authorizer that sends SubjectAccessReviews to a webhook.

use apiserver_access::{Answers, Attributes, Authorizer, Decision, InFlight, Overloaded, Verdict};
use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;

use super::client::{LastError, WebhookClient};
use super::conditions::Matched;
use super::settings::WebhookSettings;
use crate::authorizer::{LONGEST, decided, size, spec};
use crate::connection::ConnectError;
use crate::retry;
use crate::ttl_cache::TtlCache;

/// Maximum number of cached decisions of each kind: some hundred users with some dozens of different requests.
const MOST: usize = 8192;

/// Maximum numbers of requests in flight, of those of one user, and of those that wait: as for the host cluster.
const LIMITS: (usize, usize, usize) = (128, 16, 512);

/// Authorizer by a webhook.
pub struct WebhookAuthorizer {
    /// Name in the audit log.
    name: String,
    client: WebhookClient,
    settings: WebhookSettings,
    allowed: TtlCache<String, (Decision, String)>,
    others: TtlCache<String, (Decision, String)>,
    in_flight: InFlight,
}

impl std::fmt::Debug for WebhookAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookAuthorizer").field("name", &self.name).finish_non_exhaustive()
    }
}

impl WebhookAuthorizer {
    /// Reads the kubeconfig of a webhook. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ConnectError`] names the file and its error.
    pub async fn open(settings: WebhookSettings) -> Result<Self, ConnectError> {
        Ok(Self::with(WebhookClient::open(&settings.kubeconfig).await?, settings))
    }

    pub(super) fn with(client: WebhookClient, settings: WebhookSettings) -> Self {
        let (all, per_user, waiting) = LIMITS;
        Self {
            name: format!("Webhook/{}", settings.name),
            client,
            allowed: TtlCache::new(settings.allowed_ttl, MOST),
            others: TtlCache::new(settings.denied_ttl, MOST),
            in_flight: InFlight::new(all, per_user, waiting),
            settings,
        }
    }

    async fn ask(&self, user: &str, review: &SubjectAccessReview) -> Result<(Decision, String), String> {
        let last = LastError::default();
        let asking = async {
            let entered = self.in_flight.enter(user).await;
            let _permit = entered.map_err(|Overloaded| "too many requests wait for it".to_owned())?;
            let noted =
                || async { self.client.send(review).await.inspect_err(|error| last.note(error.to_string())) };
            retry::with_retries(noted).await.map_err(|error| error.to_string())
        };
        let answer = tokio::time::timeout(self.settings.timeout, asking).await;
        let answer: SubjectAccessReview = answer.unwrap_or_else(|_| Err(last.late()))?;
        // Without a status, the answer is no review.
        answer.status.map(decided).ok_or_else(|| "its answer has no status".to_owned())
    }

    /// Returns true if a condition excludes a request.
    fn skips(&self, attributes: &Attributes) -> bool {
        let json = serde_json::to_value(spec(attributes)).unwrap_or_default();
        matches!(self.settings.conditions.matches(&json), Matched::No)
    }

    /// Returns the decision of a failure.
    fn failed(&self, why: &str) -> (Decision, String) {
        tracing::warn!(webhook = self.settings.name, why, "an authorization webhook does not decide");
        let text = format!("the authorization webhook {:?} does not decide: {why}", self.settings.name);
        let decision =
            if self.settings.denies_on_failure { Decision::Deny(text) } else { Decision::Error(text) };
        (decision, String::new())
    }

    async fn decide(&self, attributes: &Attributes) -> (Decision, String) {
        // The server's own identities are not known outside of it.
        if attributes.user.is_internal() {
            return (Decision::NoOpinion(String::new()), String::new());
        }
        let review = SubjectAccessReview { spec: spec(attributes), ..SubjectAccessReview::default() };
        let json = serde_json::to_value(&review.spec).unwrap_or_default();
        match self.settings.conditions.matches(&json) {
            Matched::Yes => {}
            Matched::No => return (Decision::NoOpinion(String::new()), String::new()),
            Matched::Failed(why) => return self.failed(&why),
        }
        let key = json.to_string();
        if let Some(known) = self.allowed.get(&key).or_else(|| self.others.get(&key)) {
            return known;
        }
        match self.ask(&attributes.user.name, &review).await {
            Ok(found) => {
                let cache = if found.0 == Decision::Allow { &self.allowed } else { &self.others };
                if size(attributes) < LONGEST {
                    cache.insert(key, found.clone());
                }
                found
            }
            // Failures are not cached: the next request asks again.
            Err(why) => self.failed(&why),
        }
    }
}

#[async_trait]
impl Authorizer for WebhookAuthorizer {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        Verdict::new(self.decide(attributes).await, self.name())
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let why = if attributes.user.is_internal() {
            "it is not asked about the server's own identities"
        } else if self.skips(attributes) {
            "its matchConditions exclude the request"
        } else {
            "it gives no reason"
        };
        Answers::one(self.judge(attributes).await).or_because(why)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
