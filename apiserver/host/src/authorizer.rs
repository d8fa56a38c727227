//! The host's answer to "may they": SubjectAccessReview, kept for a few seconds.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apiserver_access::{Attributes, Authorizer, Decision};
use async_trait::async_trait;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
};
use kube::api::PostParams;
use kube::{Api, Client};

/// How long an answer is believed: upstream's default, the price of a revocation.
const BELIEVED: Duration = Duration::from_secs(10);

/// Most answers kept: some hundred users with some dozens of different questions.
const MOST: usize = 8192;

/// Asks the host.
pub struct HostAuthorizer {
    client: Client,
    answers: Mutex<HashMap<String, (Instant, Decision)>>,
}

impl std::fmt::Debug for HostAuthorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostAuthorizer").finish_non_exhaustive()
    }
}

impl HostAuthorizer {
    /// Asks through this client.
    pub fn new(client: Client) -> Self {
        Self { client, answers: Mutex::new(HashMap::new()) }
    }

    fn known(&self, question: &str) -> Option<Decision> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(question).filter(|(at, _)| at.elapsed() < BELIEVED).map(|(_, decision)| decision.clone())
    }

    fn remember(&self, question: String, decision: &Decision) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MOST {
            answers.retain(|_, (at, _)| at.elapsed() < BELIEVED);
        }
        // A flood of different questions is answered, only not remembered.
        if answers.len() < MOST {
            answers.insert(question, (Instant::now(), decision.clone()));
        }
    }
}

#[async_trait]
impl Authorizer for HostAuthorizer {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        let spec = spec(attributes);
        let question = serde_json::to_string(&spec).unwrap_or_default();
        if let Some(decision) = self.known(&question) {
            return decision;
        }
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        match api.create(&PostParams::default(), &review).await {
            Ok(answer) => {
                let decision = decision(answer.status.unwrap_or_default());
                self.remember(question, &decision);
                decision
            }
            // Not remembered: the next request asks again.
            Err(error) => {
                tracing::warn!(%error, "the host did not answer a SubjectAccessReview");
                Decision::Error("the host cluster does not answer".to_owned())
            }
        }
    }
}

fn decision(status: SubjectAccessReviewStatus) -> Decision {
    let reason = status.reason.unwrap_or_default();
    match (status.allowed, status.denied) {
        (true, _) => Decision::Allow,
        (false, Some(true)) => Decision::Deny(reason),
        (false, _) => Decision::NoOpinion(reason),
    }
}

fn spec(attributes: &Attributes) -> SubjectAccessReviewSpec {
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
            ..ResourceAttributes::default()
        });
    } else {
        spec.non_resource_attributes =
            Some(NonResourceAttributes { path: some(&attributes.path), verb: some(&attributes.verb) });
    }
    spec
}
