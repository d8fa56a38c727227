//! Host authorizer: decisions by SubjectAccessReview, cached for a few seconds.

use std::time::Duration;

use apiserver_access::{Answers, Attributes, Authorizer, Decision, InFlight, Overloaded, Verdict};
use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
    SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::health::HostHealth;
use crate::retry;
use crate::ttl_cache::TtlCache;

/// Lifetime of a cached decision: upstream's default, the delay of a revocation.
const LIFETIME: Duration = Duration::from_secs(10);

/// Maximum number of cached decisions: some hundred users with some dozens of different requests.
const MOST: usize = 8192;

/// Largest attributes of a cached decision: a user could fill the memory with longer ones. Upstream's bound. Unit:
/// bytes.
pub(crate) const LONGEST: usize = 10_000;

/// Maximum number of requests in flight.
const AT_ONCE: usize = 128;

/// Maximum number of requests in flight for one user.
const AT_ONCE_FOR_A_USER: usize = 16;

/// Maximum number of requests that wait to be sent.
const MOST_WAITING: usize = 512;

/// Error if there is no response.
const SILENT: &str = "the host cluster does not answer";

/// Error if the host refuses before it is known to have read its RBAC objects.
const UNPROVEN: &str =
    "the host cluster has just returned, and may not have read all its RBAC objects: try again";

/// Reason of a refusal that has none. RBAC of a kube-apiserver gives none.
pub(crate) const NOT_ALLOWED: &str = "the host cluster does not allow it, and gives no reason";

/// Time limit of a decision, with the wait and all tries.
const PATIENCE: Duration = Duration::from_secs(5);

/// Authorizer that sends SubjectAccessReviews to the host cluster.
pub struct HostAuthorizer {
    client: Client,
    decisions: TtlCache<String, (Decision, String)>,
    in_flight: InFlight,
    health: HostHealth,
}

impl std::fmt::Debug for HostAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostAuthorizer").finish_non_exhaustive()
    }
}

impl HostAuthorizer {
    /// Creates an authorizer that uses this client.
    pub fn new(client: Client) -> Self {
        let in_flight = InFlight::new(AT_ONCE, AT_ONCE_FOR_A_USER, MOST_WAITING);
        let (decisions, health) = (TtlCache::new(LIFETIME, MOST), HostHealth::default());
        Self { client, decisions, in_flight, health }
    }

    /// Believes a refusal only as far as the health of the host allows. Without this, all are believed.
    #[must_use]
    pub fn with_health(self, health: HostHealth) -> Self {
        Self { health, ..self }
    }

    /// Sends a review, once there is room for it among those in flight.
    async fn review(
        &self,
        user: &str,
        review: &SubjectAccessReview,
    ) -> Result<SubjectAccessReviewStatus, String> {
        let sending = async {
            let entered = self.in_flight.enter(user).await;
            let _permit = entered.map_err(|Overloaded| {
                "too many requests wait for a decision of the host cluster: try again".to_owned()
            })?;
            let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
            let parameters = PostParams::default();
            let answer = retry::with_retries(|| api.create(&parameters, review)).await;
            answer.map(|answer| answer.status.unwrap_or_default()).map_err(|error| {
                tracing::warn!(%error, "the host did not answer a SubjectAccessReview; refusing the request");
                SILENT.to_owned()
            })
        };
        tokio::time::timeout(PATIENCE, sending).await.unwrap_or_else(|_| {
            tracing::warn!("the host did not answer a SubjectAccessReview in time; refusing the request");
            Err(SILENT.to_owned())
        })
    }

    async fn decide(&self, attributes: &Attributes) -> (Decision, String) {
        let spec = spec(attributes);
        let key = serde_json::to_string(&spec).unwrap_or_default();
        if let Some(decided) = self.decisions.get(&key) {
            return decided;
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        match self.review(&attributes.user.name, &review).await {
            Ok(status) if !status.allowed && !self.health.state().believes_reviews() => {
                (Decision::Error(UNPROVEN.to_owned()), String::new())
            }
            Ok(status) => {
                let decided = decided(status);
                if size(attributes) < LONGEST {
                    self.decisions.insert(key, decided.clone());
                }
                decided
            }
            // Failures are not cached: the next request asks again.
            Err(error) => (Decision::Error(error), String::new()),
        }
    }
}

#[async_trait]
impl Authorizer for HostAuthorizer {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        Verdict::new(self.decide(attributes).await, self.name())
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        Answers::one(self.judge(attributes).await).or_because(NOT_ALLOWED)
    }

    fn name(&self) -> &'static str {
        "Host"
    }
}

/// Returns the decision and, if it is a permission, the host's reason. As in upstream, an answer that contradicts itself
/// is a refusal.
pub(crate) fn decided(status: SubjectAccessReviewStatus) -> (Decision, String) {
    let reason = status.reason.unwrap_or_default();
    match (status.allowed, status.denied) {
        (true, Some(true)) => {
            let why = "the answer of the authorizer allows and denies the request at once".to_owned();
            (Decision::Deny(why), String::new())
        }
        (true, _) => (Decision::Allow, reason),
        (false, Some(true)) => (Decision::Deny(reason), String::new()),
        (false, _) => (Decision::NoOpinion(reason), String::new()),
    }
}

/// Returns the size of the attributes that the caller chooses. Unit: bytes.
pub(crate) fn size(attributes: &Attributes) -> usize {
    let Attributes { verb, group, version, resource, subresource, namespace, name, path, .. } = attributes;
    let Attributes { label_selector, field_selector, .. } = attributes;
    [verb, group, version, resource, subresource, namespace, name, path, label_selector, field_selector]
        .iter()
        .map(|text| text.len())
        .sum()
}

pub(crate) fn spec(attributes: &Attributes) -> SubjectAccessReviewSpec {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let user = &attributes.user;
    let mut spec = SubjectAccessReviewSpec {
        user: some(&user.name),
        uid: user.uid.clone(),
        groups: Some(user.groups.clone()),
        extra: (!user.extra.is_empty()).then(|| user.extra.clone()),
        ..SubjectAccessReviewSpec::default()
    };
    if attributes.is_resource() {
        spec.resource_attributes = Some(ResourceAttributes {
            group: some(&attributes.group),
            name: some(&attributes.name),
            namespace: some(&attributes.namespace),
            resource: some(&attributes.resource),
            subresource: some(&attributes.subresource),
            verb: some(&attributes.verb),
            version: some(&attributes.version),
            // The host parses them itself, as it parses those of its own requests.
            field_selector: some(&attributes.field_selector)
                .map(|raw| FieldSelectorAttributes { raw_selector: Some(raw), requirements: None }),
            label_selector: some(&attributes.label_selector)
                .map(|raw| LabelSelectorAttributes { raw_selector: Some(raw), requirements: None }),
        });
    } else {
        spec.non_resource_attributes =
            Some(NonResourceAttributes { path: some(&attributes.path), verb: some(&attributes.verb) });
    }
    spec
}

#[cfg(test)]
mod tests {
    use apiserver_access::User;
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{Fake, status};
    use crate::health::HostState;

    fn review(status: &Value) -> (u16, Value) {
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "metadata": {}, "spec": {}, "status": status});
        (201, body)
    }

    fn listing(namespace: &str) -> Attributes {
        let mut alice = User::authenticated("alice", ["dev".to_owned()]);
        alice.uid = Some("7".to_owned());
        alice.extra.insert("scopes".to_owned(), vec!["a".to_owned()]);
        Attributes {
            user: alice.into(),
            verb: "list".to_owned(),
            group: "cluster.x-k8s.io".to_owned(),
            version: "v1beta2".to_owned(),
            resource: "machines".to_owned(),
            namespace: namespace.to_owned(),
            label_selector: "a in (b)".to_owned(),
            field_selector: "metadata.name=m".to_owned(),
            ..Attributes::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_host_gets_all_attributes_and_its_decision_is_cached() {
        let host = Fake::new(review(&json!({"allowed": true, "reason": "RBAC: because"})));
        let authorizer = HostAuthorizer::new(host.client());
        let verdict = authorizer.judge(&listing("team")).await;
        assert_eq!(verdict, Verdict::new((Decision::Allow, "RBAC: because".to_owned()), "Host"));
        let expected = json!({"user": "alice", "uid": "7", "groups": ["dev", "system:authenticated"],
            "extra": {"scopes": ["a"]}, "resourceAttributes": {"group": "cluster.x-k8s.io",
                "version": "v1beta2", "resource": "machines", "namespace": "team", "verb": "list",
                "labelSelector": {"rawSelector": "a in (b)"},
                "fieldSelector": {"rawSelector": "metadata.name=m"}}});
        assert_eq!(host.bodies()[0]["spec"], expected);
        host.answer(review(&json!({"allowed": false, "reason": "no more"})));
        assert_eq!(authorizer.authorize(&listing("team")).await, Decision::Allow);
        let no = Decision::NoOpinion("no more".to_owned());
        assert_eq!(authorizer.authorize(&listing("other")).await, no);
        tokio::time::sleep(LIFETIME).await;
        assert_eq!(authorizer.authorize(&listing("team")).await, no);
        assert_eq!(host.requests().len(), 3);
        host.answer(review(&json!({"allowed": false, "denied": true, "reason": "never"})));
        tokio::time::sleep(LIFETIME).await;
        assert_eq!(authorizer.authorize(&listing("team")).await, Decision::Deny("never".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_review_is_an_error_and_is_not_cached() {
        let host = Fake::new(status(500));
        let authorizer = HostAuthorizer::new(host.client());
        assert!(matches!(authorizer.authorize(&listing("team")).await, Decision::Error(_)));
        assert_eq!(host.requests().len(), 5, "the host gets another request");
        host.answer(review(&json!({"allowed": true})));
        assert_eq!(authorizer.authorize(&listing("team")).await, Decision::Allow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_only_once_the_host_has_proved_itself() {
        let host = Fake::new(review(&json!({"allowed": false})));
        let health = HostHealth::in_state(HostState::Probation);
        let authorizer = HostAuthorizer::new(host.client()).with_health(health.clone());
        assert!(matches!(authorizer.authorize(&listing("team")).await, Decision::Error(_)));
        host.answer(review(&json!({"allowed": true})));
        assert_eq!(authorizer.authorize(&listing("team")).await, Decision::Allow);
        health.set(HostState::Up);
        host.answer(review(&json!({"allowed": false})));
        assert!(matches!(authorizer.authorize(&listing("other")).await, Decision::NoOpinion(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_host_holds_a_bounded_number_of_requests_for_a_bounded_time() {
        let host = Fake::new(status(500));
        host.hang();
        let authorizer = HostAuthorizer::new(host.client());
        let started = tokio::time::Instant::now();
        let ask = |user: &str, count: usize| {
            let attributes = |number: usize| Attributes {
                user: User::authenticated(user, []).into(),
                ..listing(&number.to_string())
            };
            let asked: Vec<Attributes> = (0..count).map(attributes).collect();
            let authorizer = &authorizer;
            async move {
                let all = asked.iter().map(|attributes| async move {
                    let decision = authorizer.authorize(attributes).await;
                    (format!("{decision:?}"), started.elapsed())
                });
                futures::future::join_all(all).await
            }
        };
        let (of_alice, of_bob) = tokio::join!(ask("alice", AT_ONCE), ask("bob", 1));
        assert_eq!(host.requests().len(), AT_ONCE_FOR_A_USER + 1, "one user leaves room for another");
        let waited = of_alice.iter().filter(|(error, _)| error.contains("too many"));
        assert_eq!(waited.count(), AT_ONCE - AT_ONCE_FOR_A_USER);
        assert!(of_alice.iter().chain(&of_bob).all(|(_, took)| *took <= PATIENCE));
        let all = ask("carol", MOST_WAITING + AT_ONCE_FOR_A_USER + 1).await;
        let at_once = all.iter().filter(|(error, took)| error.contains("too many") && *took == PATIENCE);
        assert_eq!(at_once.count(), 1, "the queue is full");
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_that_is_too_long_is_not_cached() {
        let host = Fake::new(review(&json!({"allowed": true})));
        let authorizer = HostAuthorizer::new(host.client());
        for _ in 0..2 {
            assert_eq!(authorizer.authorize(&listing(&"x".repeat(LONGEST))).await, Decision::Allow);
        }
        assert_eq!(host.requests().len(), 2);
    }
}
