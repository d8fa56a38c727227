//! Admission of a write: the caller, and the permissions that the object itself requires.

use std::collections::BTreeMap;

use apiserver_schema::{AuthorizationAnswer, AuthorizationQuestion};
use async_trait::async_trait;
use serde_json::Value;

use crate::related::ObjectReader;
use crate::status::ApiResult;

/// User who sends a request, as it is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// User name.
    pub username: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Uid, if the authenticator knows it.
    pub uid: Option<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Audit id of the request; empty if it is unknown.
    pub audit_id: String,
}

/// Action that an authorizer allows or refuses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Action<'a> {
    /// `create`, `update`, ...
    pub verb: &'a str,
    /// API group; empty for core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Subresource, or empty.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
}

/// Permissions of the caller, from the authorizer that allowed the request.
#[async_trait]
pub trait Permissions: Send + Sync + std::fmt::Debug {
    /// Checks that the caller has the permission.
    ///
    /// # Errors
    /// 403 with the message of any forbidden request; 503 if the authorizer does not answer.
    async fn require(&self, action: Action<'_>) -> ApiResult<()>;

    /// Answers a question of an expression.
    async fn answer(&self, _question: &AuthorizationQuestion) -> AuthorizationAnswer {
        let error = "there is no authorizer".to_owned();
        AuthorizationAnswer { error, ..AuthorizationAnswer::default() }
    }

    /// Returns true if the caller needs the permission `use` on objects that a written object newly refers to.
    fn requires_use(&self) -> bool {
        false
    }

    /// Returns true if the caller is one of the server's own controllers.
    fn is_internal(&self) -> bool {
        false
    }

    /// Returns true if the caller needs the permission `get` on Secrets that a written object newly refers to.
    fn requires_secret_read(&self) -> bool {
        false
    }

    /// Returns true if the credential of the caller may be used for a request with this method and path. Some credentials are
    /// for some requests alone, whatever the caller may do.
    fn may_send(&self, _method: &str, _path: &str) -> bool {
        true
    }

    /// Returns the caller.
    fn caller(&self) -> Caller;

    /// Returns the name in the path of the request; empty for a collection.
    fn requested_name(&self) -> &str;

    /// Returns the parts of `rules` that the caller's own permissions do not cover. An empty namespace counts the
    /// permissions in the whole cluster only.
    async fn uncovered(&self, namespace: &str, rules: &[GrantedRule]) -> Uncovered;
}

/// Permission that an object grants to others. `*` is any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GrantedRule {
    /// Verbs.
    pub verbs: Vec<String>,
    /// API groups.
    pub groups: Vec<String>,
    /// Plurals, with `/` and the subresource.
    pub resources: Vec<String>,
    /// Names of objects; empty for all.
    pub names: Vec<String>,
    /// Paths.
    pub paths: Vec<String>,
}

/// Permissions that a caller does not have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uncovered {
    /// Each missing rule as text; empty if the caller has all.
    pub rules: Vec<String>,
    /// Reason why some permissions of the caller may not be known; empty if all are known.
    pub unknown: String,
}

/// Write of an object that may grant permissions to others.
#[derive(Debug, Clone, Copy)]
pub struct GrantingWrite<'a> {
    /// New object, in its canonical form. It has not been validated.
    pub new: &'a Value,
    /// Stored object; `None` on create.
    pub old: Option<&'a Value>,
    /// Permissions of the caller.
    pub permissions: &'a dyn Permissions,
    /// Reader of other objects.
    pub others: &'a dyn ObjectReader,
}

/// Permission on an object that another object refers to. The server requires each kind of them by a setting of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Verb `use`, on an object that is shared between namespaces.
    Use,
    /// Verb `get`, on a Secret.
    ReadSecret,
}

impl Use {
    /// Returns true if the server requires it of the caller.
    pub fn is_required(self, permissions: &dyn Permissions) -> bool {
        match self {
            Self::Use => permissions.requires_use(),
            Self::ReadSecret => permissions.requires_secret_read(),
        }
    }

    const fn verb(self) -> &'static str {
        match self {
            Self::Use => "use",
            Self::ReadSecret => "get",
        }
    }
}

/// Object that another object refers to, and whose rights the server exercises for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsedObject {
    /// Path of the reference.
    pub field: &'static str,
    /// Permission that a user of the object needs.
    pub permission: Use,
    /// API group of the used object.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural.
    pub resource: &'static str,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Way out for a user without the permission: a sentence without its period.
    pub remedy: String,
}

impl UsedObject {
    /// Returns the permission that a user of the object needs.
    pub fn action(&self) -> Action<'_> {
        let (group, version, resource) = (self.group, self.version, self.resource);
        let (verb, namespace, name) = (self.permission.verb(), &self.namespace, &self.name);
        Action { verb, group, version, resource, namespace, name, ..Action::default() }
    }
}

/// Request that creates an object.
#[derive(Debug)]
pub struct Creation<'a> {
    /// The namespace in the URL; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The user who sends the request.
    pub caller: Caller,
    /// The permissions of that user.
    pub permissions: &'a dyn Permissions,
}
