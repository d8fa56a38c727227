//! May this user do that.

use std::sync::Arc;

use async_trait::async_trait;

use crate::user::User;

/// What is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Who.
    pub user: Arc<User>,
    /// `get`, `list`, `create`, ...
    pub verb: String,
    /// API group; empty for core. Meaningless for paths.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural; empty when a path is asked for.
    pub resource: String,
    /// Subresource, or empty.
    pub subresource: String,
    /// Namespace; empty for all, or for cluster-scoped kinds.
    pub namespace: String,
    /// Name; empty for a collection.
    pub name: String,
    /// The path, when no resource is asked for.
    pub path: String,
    /// The label selector of what is done to a collection, as it was asked; empty for none.
    pub label_selector: String,
    /// The field selector, likewise.
    pub field_selector: String,
}

impl Attributes {
    /// Whether a resource is asked for, and not just a path.
    pub fn is_resource(&self) -> bool {
        !self.resource.is_empty()
    }

    /// The refusal's text, as upstream words it: with HTML's special characters escaped, as far as
    /// the text is made of what the client sent.
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

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Yes.
    Allow,
    /// No, and nobody further down may say yes.
    Deny(String),
    /// Not for me to say.
    NoOpinion(String),
    /// Could not be found out.
    Error(String),
}

/// One thing that a user may do, for people to read. `*` is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// `get`, `list`, ...
    pub verbs: Vec<String>,
    /// API groups; empty when it is about paths.
    pub groups: Vec<String>,
    /// Plurals, with `/` and the subresource where it is about one.
    pub resources: Vec<String>,
    /// Paths.
    pub paths: Vec<String>,
}

/// What a user may do, as far as it can be listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// What is known.
    pub rules: Vec<Rule>,
    /// Why there may be more; empty when this is all.
    pub unknown: String,
}

/// Answers whether a user may do something.
#[async_trait]
pub trait Authorizer: Send + Sync + std::fmt::Debug + 'static {
    /// The answer.
    async fn authorize(&self, attributes: &Attributes) -> Decision;

    /// The answer, and for a yes also why: the audit log tells it.
    async fn explain(&self, attributes: &Attributes) -> (Decision, String) {
        (self.authorize(attributes).await, String::new())
    }

    /// All that a user may do in a namespace. Who can only be asked one question at a time says so.
    async fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules { rules: Vec::new(), unknown: "an authorizer answers questions and lists no rules".to_owned() }
    }
}

/// Several authorizers: the first with an opinion decides, and without any it is no.
#[derive(Debug, Clone, Default)]
pub struct Chain(pub Vec<Arc<dyn Authorizer>>);

#[async_trait]
impl Authorizer for Chain {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        self.explain(attributes).await.0
    }

    async fn explain(&self, attributes: &Attributes) -> (Decision, String) {
        let mut reasons = Vec::new();
        for authorizer in &self.0 {
            match authorizer.explain(attributes).await {
                (Decision::NoOpinion(reason), _) => reasons.push(reason),
                decided => return decided,
            }
        }
        reasons.retain(|reason| !reason.is_empty());
        (Decision::NoOpinion(reasons.join(", ")), String::new())
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        let mut all = Rules::default();
        for authorizer in &self.0 {
            let Rules { rules, unknown } = authorizer.rules(user, namespace).await;
            all.rules.extend(rules);
            if !unknown.is_empty() {
                all.unknown = unknown;
            }
        }
        all
    }
}
