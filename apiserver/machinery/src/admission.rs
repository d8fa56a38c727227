//! Admission of a create: the caller, and the permissions that the object itself requires.

use async_trait::async_trait;

use crate::status::ApiResult;

/// User who sends a request, as it is recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caller {
    /// User name.
    pub username: String,
    /// Groups.
    pub groups: Vec<String>,
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
