//! Old answers of the host: reads that the host has allowed stay allowed for a while after it has stopped to answer.
//!
//! They need no copy of the host's permissions, so they know only what was requested before. A copy is the mirror.

use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{Answers, Attributes, Authorizer, Decision, Rules, User, Verdict};
use async_trait::async_trait;

use crate::authorizer::{HostAuthorizer, LONGEST, NOT_ALLOWED, size, spec};
use crate::contact::Contact;
use crate::health::{HostHealth, HostState};
use crate::mirror::Class;
use crate::ttl_cache::TtlCache;

/// Maximum number of answers: some hundred users with some dozens of different requests.
const MOST: usize = 8192;

/// Error while no request is sent to the host, for a request without an old answer.
const UNKNOWN: &str =
    "the host cluster does not answer, and it has not allowed this request a short time ago";

/// Error while another host answers.
const OTHER: &str = "another host cluster answers";

/// Question of a request, with its user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question(String);

impl Question {
    /// Returns the question of a request whose answer is kept: a read that is not too long.
    fn of_read(attributes: &Attributes) -> Option<Self> {
        let is_kept = Class::of(attributes) == Class::Read && size(attributes) < LONGEST;
        is_kept.then(|| serde_json::to_string(&spec(attributes)).ok()).flatten().map(Self)
    }
}

/// Authorizer of the host, whose old answers allow reads while it does not answer.
#[derive(Debug)]
pub struct StaleAnswers {
    host: Arc<HostAuthorizer>,
    health: HostHealth,
    /// Time and reason of each permission, by the question. A later refusal removes it.
    allowed: TtlCache<Question, (Contact, String)>,
}

impl StaleAnswers {
    /// Creates an authorizer whose answers count until they have this age.
    pub fn new(host: Arc<HostAuthorizer>, health: HostHealth, longest: Duration) -> Self {
        Self { host, health, allowed: TtlCache::new(longest, MOST) }
    }

    /// Keeps what the host has decided about a read.
    fn keep(&self, question: Question, verdict: &Verdict) {
        match verdict.decision {
            Decision::Allow => self.allowed.insert(question, (Contact::now(), verdict.reason.clone())),
            Decision::Deny(_) | Decision::NoOpinion(_) => self.allowed.remove(&question),
            Decision::Error(_) => {}
        }
    }

    /// Returns the old answer to a question.
    fn old(&self, question: &Question) -> Option<Verdict> {
        let (contact, reason) = self.allowed.get(question)?;
        self.health.metrics().count_stale(Class::Read.name());
        let allowed = Verdict::new((Decision::Allow, reason), self.name());
        Some(Verdict { age: Some(contact.age()), ..allowed })
    }

    fn undecided(&self, why: &str) -> Verdict {
        Verdict::new((Decision::Error(why.to_owned()), String::new()), self.name())
    }

    /// Decides about a read.
    async fn judge_read(&self, attributes: &Attributes, question: Question) -> Verdict {
        // No request waits for a host that is down, and another host has other users.
        match self.health.state() {
            HostState::Down => {
                return self.old(&question).unwrap_or_else(|| self.undecided(UNKNOWN));
            }
            HostState::Other => return self.undecided(OTHER),
            HostState::Up | HostState::Slow | HostState::Probation => {}
        }
        let verdict = self.host.judge(attributes).await;
        // While the host is up, an error is an answer of its own, or the caller's own flood of questions.
        if matches!(verdict.decision, Decision::Error(_)) && self.health.state() != HostState::Up {
            return self.old(&question).unwrap_or(verdict);
        }
        self.keep(question, &verdict);
        verdict
    }
}

#[async_trait]
impl Authorizer for StaleAnswers {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        match Question::of_read(attributes) {
            Some(question) => self.judge_read(attributes, question).await,
            None => self.host.judge(attributes).await,
        }
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        Answers::one(self.judge(attributes).await).or_because(NOT_ALLOWED)
    }

    fn name(&self) -> &str {
        self.host.name()
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        self.host.rules(user, namespace).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{Fake, status};

    /// Longest age in the tests.
    const AGE: Duration = Duration::from_mins(15);

    fn review(allowed: bool) -> (u16, Value) {
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "metadata": {}, "spec": {}, "status": {"allowed": allowed, "reason": "RBAC"}});
        (201, body)
    }

    fn request(user: &str, verb: &str, resource: &str) -> Attributes {
        Attributes {
            user: User::authenticated(user, []).into(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: "team".to_owned(),
            ..Attributes::default()
        }
    }

    fn scene(answer: (u16, Value)) -> (Fake, HostHealth, StaleAnswers) {
        let (host, health) = (Fake::new(answer), HostHealth::in_state(HostState::Up));
        let authorizer = Arc::new(HostAuthorizer::new(host.client()).with_health(health.clone()));
        let answers = StaleAnswers::new(authorizer, health.clone(), AGE);
        (host, health, answers)
    }

    #[tokio::test(start_paused = true)]
    async fn iz_23_old_answers_allow_reads_alone_and_for_their_time() {
        let (host, health, answers) = scene(review(true));
        let reads = || request("alice", "list", "machines");
        for asked in [reads(), request("alice", "patch", "machines"), request("alice", "get", "secrets")] {
            let verdict = answers.judge(&asked).await;
            assert_eq!((verdict.decision, verdict.age), (Decision::Allow, None), "{asked:?}");
        }
        host.hang();
        health.set(HostState::Down);
        tokio::time::advance(Duration::from_mins(1)).await;
        let verdict = answers.judge(&reads()).await;
        assert_eq!((verdict.decision, verdict.reason.as_str()), (Decision::Allow, "RBAC"));
        assert_eq!(verdict.age.map(|age| age.as_secs()), Some(60));
        for asked in [
            request("alice", "patch", "machines"),
            request("alice", "get", "secrets"),
            request("bob", "list", "machines"),
            request("alice", "list", "clusters"),
        ] {
            let decision = answers.authorize(&asked).await;
            assert!(matches!(decision, Decision::Error(_)), "{asked:?}: {decision:?}");
        }
        tokio::time::advance(AGE).await;
        assert_eq!(answers.authorize(&reads()).await, Decision::Error(UNKNOWN.to_owned()), "it is too old");
    }

    #[tokio::test(start_paused = true)]
    async fn iz_23_another_host_has_other_users() {
        let (_host, health, answers) = scene(review(true));
        let reads = request("alice", "list", "machines");
        assert_eq!(answers.authorize(&reads).await, Decision::Allow);
        health.set(HostState::Other);
        assert_eq!(answers.authorize(&reads).await, Decision::Error(OTHER.to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn iz_23_a_refusal_ends_an_old_answer_and_only_a_host_that_is_not_up_leaves_room_for_one() {
        let (host, health, answers) = scene(review(true));
        let reads = || request("alice", "list", "machines");
        assert_eq!(answers.authorize(&reads()).await, Decision::Allow);
        // The host's decision is cached for a few seconds.
        tokio::time::advance(Duration::from_mins(1)).await;
        host.answer(status(500));
        assert!(matches!(answers.authorize(&reads()).await, Decision::Error(_)), "it is up");
        health.set(HostState::Slow);
        let verdict = answers.judge(&reads()).await;
        assert!(verdict.decision == Decision::Allow && verdict.age.is_some(), "{verdict:?}");
        host.answer(review(false));
        assert!(matches!(answers.authorize(&reads()).await, Decision::NoOpinion(_)));
        health.set(HostState::Down);
        assert!(matches!(answers.authorize(&reads()).await, Decision::Error(_)), "it was refused since");
    }
}
