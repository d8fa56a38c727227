//! Authorizer: decides whether a user may make a request.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::answers::{Answers, ChainVerdict};
use crate::user::{Realm, User};

/// Attributes of a request for authorization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// User.
    pub user: Arc<User>,
    /// `get`, `list`, `create`, ...
    pub verb: String,
    /// API group; empty for core. Meaningless for paths.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural; empty for a path.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace; empty for all, or for cluster-scoped kinds.
    pub namespace: String,
    /// Name; empty for a collection.
    pub name: String,
    /// Path; empty for a resource.
    pub path: String,
    /// Label selector of a request for a collection, as the client sent it; empty for none.
    pub label_selector: String,
    /// Field selector of a request for a collection, as the client sent it; empty for none.
    pub field_selector: String,
}

impl Attributes {
    /// Returns true if the request is for a resource, and not for a path.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// Returns the text of the refusal in upstream's words. HTML's special characters in client input are escaped.
    pub fn refusal(&self, reason: &str) -> String {
        let text = self.what_cannot_be_done();
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if reason.is_empty() { text } else { format!("{text}: {reason}") }
    }

    fn what_cannot_be_done(&self) -> String {
        let (user, verb) = (&self.user.name, &self.verb);
        if !self.is_resource() {
            return format!("User {user:?} cannot {verb} path {:?}", self.path);
        }
        let resource = if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        };
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {:?}", self.namespace)
        };
        format!("User {user:?} cannot {verb} resource {resource:?} in API group {:?} {place}", self.group)
    }
}

/// Decision of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed.
    Allow,
    /// Denied, whatever a later authorizer would say.
    Deny(String),
    /// Left to the next authorizer.
    NoOpinion(String),
    /// Failed: the authorizer could not decide.
    Error(String),
}

/// Decision with its reason and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Decision.
    pub decision: Decision,
    /// Reason of [`Decision::Allow`] for the audit log. The other decisions contain theirs.
    pub reason: String,
    /// Name of the authorizer that decided; empty if none did.
    pub authorizer: String,
    /// Age of the copy by which the authorizer decided; `None` if it decided by the data of now.
    pub age: Option<Duration>,
}

impl Verdict {
    /// Creates a verdict about data of now.
    pub fn new((decision, reason): (Decision, String), authorizer: impl Into<String>) -> Self {
        Self { decision, reason, authorizer: authorizer.into(), age: None }
    }

    /// Creates a verdict about data of now, whose permission has no reason in the audit log.
    pub fn of(decision: Decision, authorizer: impl Into<String>) -> Self {
        Self::new((decision, String::new()), authorizer)
    }
}

/// Rule of what a user may do, for people to read. `*` is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// `get`, `list`, ...
    pub verbs: Vec<String>,
    /// API groups; empty for a rule about paths.
    pub groups: Vec<String>,
    /// Plurals, with `/` and the subresource for a rule about one.
    pub resources: Vec<String>,
    /// Names of objects; empty for all.
    pub names: Vec<String>,
    /// Paths.
    pub paths: Vec<String>,
}

/// Rules of a user, as far as an authorizer can list them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Known rules.
    pub rules: Vec<Rule>,
    /// Reason why the list may be incomplete; empty if it is complete.
    pub unknown: String,
}

impl Rules {
    /// Returns the rules of an authorizer of this name that cannot list them.
    fn unlisted(name: &str) -> Self {
        let of = if name.is_empty() { "an authorizer".to_owned() } else { format!("the authorizer {name}") };
        Self { rules: Vec::new(), unknown: format!("{of} answers questions and lists no rules") }
    }
}

/// Source of decisions whether a user may make a request.
#[async_trait]
pub trait Authorizer: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the decision with its reason and its origin.
    async fn judge(&self, attributes: &Attributes) -> Verdict;

    /// Returns the decision alone.
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        self.judge(attributes).await.decision
    }

    /// Returns the answers of all authorizers behind this one, with reasons for people to read. A chain asks each of them,
    /// also after one has decided.
    async fn answers(&self, attributes: &Attributes) -> Answers {
        Answers::one(self.judge(attributes).await)
    }

    /// Returns the name of the authorizer in the audit log; empty if it has none.
    fn name(&self) -> &str {
        ""
    }

    /// Returns all rules of a user in a namespace. An authorizer that cannot list rules says so, with its name.
    async fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::unlisted(self.name())
    }
}

/// Chain of authorizers: the first that allows or denies decides.
#[derive(Debug, Clone, Default)]
pub struct Chain(pub Vec<Arc<dyn Authorizer>>);

#[async_trait]
impl Authorizer for Chain {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let mut chain = ChainVerdict::default();
        for authorizer in &self.0 {
            if chain.add(authorizer.judge(attributes).await) {
                break;
            }
        }
        chain.end()
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let (mut each, mut chain) = (Vec::new(), ChainVerdict::default());
        for authorizer in &self.0 {
            let answers = authorizer.answers(attributes).await;
            each.extend(answers.each);
            chain.add(answers.verdict);
        }
        Answers { each, verdict: chain.end() }
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        let (mut all, mut reasons) = (Vec::new(), Vec::new());
        for authorizer in &self.0 {
            let Rules { rules, unknown } = authorizer.rules(user, namespace).await;
            all.extend(rules);
            if !unknown.is_empty() {
                reasons.push(unknown);
            }
        }
        Rules { rules: all, unknown: reasons.join(", ") }
    }
}

/// Returns true for a write by which a user could become one of our own.
fn makes_identities(attributes: &Attributes) -> bool {
    let is_read = ["get", "list", "watch"].contains(&attributes.verb.as_str());
    let is_account = attributes.group.is_empty() && attributes.resource == "serviceaccounts";
    let groups = ["certificates.k8s.io", "rbac.authorization.k8s.io"];
    !is_read && (is_account || groups.contains(&attributes.group.as_str()))
}

/// Authorizer that decides about the users of one realm, and has no opinion about others. It has none about writes that
/// make identities of our own: certificates, tokens of service accounts, roles and bindings.
#[derive(Debug)]
pub struct OfRealm {
    /// Realm of the users.
    pub realm: Realm,
    /// Authorizer of their requests.
    pub authorizer: Arc<dyn Authorizer>,
}

impl OfRealm {
    fn decides(&self, attributes: &Attributes) -> bool {
        attributes.user.realm == self.realm && !makes_identities(attributes)
    }

    /// Returns why the authorizer does not decide about a request.
    fn exclusion(&self, attributes: &Attributes) -> String {
        let (own, other) = (&self.realm, &attributes.user.realm);
        if own == other {
            return "it gives no certificates, service accounts, roles and bindings of this server"
                .to_owned();
        }
        let (own, other) = (own.name(), other.name());
        format!("it decides about users of the realm {own}, and this one is of the realm {other}")
    }
}

#[async_trait]
impl Authorizer for OfRealm {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        if self.decides(attributes) {
            self.authorizer.judge(attributes).await
        } else {
            Verdict::new((Decision::NoOpinion(String::new()), String::new()), "")
        }
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        if self.decides(attributes) {
            return self.authorizer.answers(attributes).await;
        }
        let none = Verdict::new((Decision::NoOpinion(String::new()), String::new()), self.name());
        Answers::explained(none, self.exclusion(attributes))
    }

    fn name(&self) -> &str {
        self.authorizer.name()
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        if user.realm == self.realm { self.authorizer.rules(user, namespace).await } else { Rules::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::block;

    #[derive(Debug)]
    struct Always(Decision);

    #[async_trait]
    impl Authorizer for Always {
        async fn judge(&self, _: &Attributes) -> Verdict {
            Verdict::of(self.0.clone(), self.name())
        }
    }

    #[test]
    fn an_error_leaves_the_decision_to_the_later_authorizers() {
        let no = |reason: &str| Decision::NoOpinion(reason.to_owned());
        let error = |reason: &str| Decision::Error(reason.to_owned());
        let deny = || Decision::Deny("never".to_owned());
        for (chain, expected) in [
            (vec![], no("")),
            (vec![no("a"), no(""), no("b")], no("a, b")),
            (vec![error("a"), Decision::Allow, deny()], Decision::Allow),
            (vec![error("a"), no("b"), deny(), Decision::Allow], deny()),
            (vec![error("a"), no("b")], error("a")),
            (vec![no("a"), error("b"), error("c")], error("b, c")),
        ] {
            let case = format!("{chain:?}");
            let authorizer = |decision| -> Arc<dyn Authorizer> { Arc::new(Always(decision)) };
            let chain = Chain(chain.into_iter().map(authorizer).collect());
            assert_eq!(block(chain.authorize(&Attributes::default())), expected, "{case}");
        }
    }

    #[test]
    fn a_chain_answers_with_each_authorizer_and_with_the_verdict_of_a_request() {
        let no = |reason: &str| Decision::NoOpinion(reason.to_owned());
        let error = || Decision::Error("e".to_owned());
        let deny = || Decision::Deny("never".to_owned());
        for chain in [
            vec![],
            vec![no("a"), no("b")],
            vec![error(), no("b")],
            vec![error(), Decision::Allow, deny()],
            vec![no("a"), deny(), Decision::Allow],
        ] {
            let authorizer =
                |decision: &Decision| -> Arc<dyn Authorizer> { Arc::new(Always(decision.clone())) };
            let inner = Chain(chain.iter().map(authorizer).collect());
            // A chain in a chain.
            let outer = Chain(vec![authorizer(&no("")), Arc::new(inner)]);
            let answers = block(outer.answers(&Attributes::default()));
            let each: Vec<Decision> = answers.each.iter().map(|answer| answer.decision.clone()).collect();
            assert_eq!(each, [vec![no("")], chain].concat());
            assert_eq!(answers.verdict, block(outer.judge(&Attributes::default())), "{each:?}");
        }
    }

    #[test]
    fn iz_40_an_incomplete_list_names_each_authorizer_that_lists_no_rules() {
        #[derive(Debug)]
        struct Named(&'static str);

        #[async_trait]
        impl Authorizer for Named {
            async fn judge(&self, _: &Attributes) -> Verdict {
                Verdict::of(Decision::Allow, self.name())
            }

            fn name(&self) -> &str {
                self.0
            }
        }

        let local: Arc<dyn Authorizer> = Arc::new(crate::policy::LocalPolicy::default());
        let chain = Chain(vec![Arc::new(Named("Host")), local, Arc::new(Named("Webhook/a"))]);
        let Rules { rules, unknown } = block(chain.rules(&User::authenticated("alice", []), "team"));
        assert!(!rules.is_empty());
        let expected = "the authorizer Host answers questions and lists no rules, the authorizer Webhook/a answers \
            questions and lists no rules";
        assert_eq!(unknown, expected);
    }

    #[test]
    fn the_authorizer_of_a_realm_has_no_opinion_about_others() {
        let authorizer = Arc::new(Always(Decision::Allow));
        let authorizer = OfRealm { realm: Realm::Host, authorizer };
        for (realm, expected) in [
            (Realm::Host, Decision::Allow),
            (Realm::Own, Decision::NoOpinion(String::new())),
            (Realm::Keystone, Decision::NoOpinion(String::new())),
        ] {
            let user = Arc::new(User { realm: realm.clone(), ..User::default() });
            let attributes = Attributes { user: Arc::clone(&user), ..Attributes::default() };
            assert_eq!(block(authorizer.authorize(&attributes)), expected, "{realm:?}");
            let answer = block(authorizer.answers(&attributes));
            assert_eq!(answer.verdict.decision, expected, "its reason is for people");
            assert_eq!(answer.each[0].why().contains(&realm.name()), realm != Realm::Host, "{answer:?}");
            for (group, resource, verb, is_open) in [
                ("certificates.k8s.io", "signers", "approve", false),
                ("", "serviceaccounts", "create", false),
                ("rbac.authorization.k8s.io", "clusterrolebindings", "create", false),
                ("rbac.authorization.k8s.io", "clusterrolebindings", "list", true),
                ("", "secrets", "create", true),
            ] {
                let attributes = Attributes {
                    group: group.to_owned(),
                    resource: resource.to_owned(),
                    verb: verb.to_owned(),
                    ..attributes.clone()
                };
                let is_allowed = block(authorizer.authorize(&attributes)) == Decision::Allow;
                assert_eq!(is_allowed, is_open && realm == Realm::Host, "{realm:?} {verb} {resource}");
            }
            let is_unknown = !block(authorizer.rules(&user, "")).unknown.is_empty();
            assert_eq!(is_unknown, realm == Realm::Host);
        }
    }
}
