//! Authorizers with the mirror.

use std::sync::Arc;

use apiserver_access::{Answers, Attributes, Authorizer, Decision, Rules, UNVERIFIED, User, Verdict};
use async_trait::async_trait;

use super::HostMirror;
use crate::authorizer::{HostAuthorizer, NOT_ALLOWED};
use crate::health::HostState;

/// Verbs that make a user another one, or give permissions.
const GIVES: [&str; 3] = ["bind", "escalate", "impersonate"];

/// Authorizer of the host, whose decisions are compared with those of the mirror.
#[derive(Debug)]
pub struct MirroredAuthorizer {
    host: Arc<HostAuthorizer>,
    mirror: HostMirror,
    /// True if the mirror decides when the host does not.
    decides: bool,
}

impl MirroredAuthorizer {
    /// Creates an authorizer that compares, and returns what the host decides.
    pub fn comparing(host: Arc<HostAuthorizer>, mirror: HostMirror) -> Self {
        Self { host, mirror, decides: false }
    }

    /// Creates an authorizer that also lets the mirror decide when the host does not. It is for users of the host alone.
    pub fn deciding(host: Arc<HostAuthorizer>, mirror: HostMirror) -> Self {
        Self { host, mirror, decides: true }
    }
}

#[async_trait]
impl Authorizer for MirroredAuthorizer {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        // No request waits for a host that is down.
        if self.decides && self.mirror.0.health.state().is_cut_off() {
            return self.mirror.decide(attributes);
        }
        let verdict = self.host.judge(attributes).await;
        match &verdict.decision {
            // While the host is up, an error is an answer of its own, or the caller's own flood of questions. Neither may open
            // the mirror, which knows less than the host.
            Decision::Error(_) if self.decides && self.mirror.0.health.state() != HostState::Up => {
                self.mirror.decide(attributes)
            }
            decision => {
                self.mirror.compare(attributes, decision);
                verdict
            }
        }
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let verdict = self.judge(attributes).await;
        if verdict.authorizer != super::NAME {
            return Answers::one(verdict).or_because(NOT_ALLOWED);
        }
        let text = format!("the host cluster is in the state {}", self.mirror.0.health.state().name());
        let host = Verdict::new((Decision::Error(text), String::new()), self.name());
        Answers { each: vec![host, verdict.clone()], verdict }
    }

    fn name(&self) -> &str {
        self.host.name()
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        self.host.rules(user, namespace).await
    }
}

/// Authorizer that leaves to the inner one what a user may do, except for a user whose token is not verified in full:
/// while the host does not answer, it is unknown whether the pod of the token exists. Such a user gets no credentials and
/// no permissions of others.
#[derive(Debug)]
pub struct Cautious(pub Arc<dyn Authorizer>);

#[async_trait]
impl Authorizer for Cautious {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        if is_uncertain(attributes) {
            let text = "the host cluster does not answer whether the pod of this token still exists; try again later";
            return Verdict::new((Decision::Error(text.to_owned()), String::new()), super::NAME);
        }
        self.0.judge(attributes).await
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        if is_uncertain(attributes) {
            return Answers::one(self.judge(attributes).await);
        }
        self.0.answers(attributes).await
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        self.0.rules(user, namespace).await
    }
}

/// Returns true for a request that needs a token which is verified in full, with another one.
fn is_uncertain(attributes: &Attributes) -> bool {
    attributes.user.extra.contains_key(UNVERIFIED) && needs_verified_token(attributes)
}

fn needs_verified_token(attributes: &Attributes) -> bool {
    let Attributes { verb, group, resource, subresource, .. } = attributes;
    let is_secret = group.is_empty() && resource == "secrets";
    is_secret || subresource == "token" || GIVES.iter().any(|gives| verb.starts_with(gives))
}
