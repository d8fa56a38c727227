//! What is asked of a request beside what its object says: who sends it, and may they do all that
//! the object brings about.

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

/// Something somebody may or may not do, as an authorizer is asked.
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

/// The caller's permissions: the same authorizer that let the request in.
#[async_trait]
pub trait Permissions: Send + Sync + std::fmt::Debug {
    /// Passes when the caller may.
    ///
    /// # Errors
    /// 403 in the words any forbidden request gets; 503 when it could not be found out.
    async fn require(&self, action: Action<'_>) -> ApiResult<()>;
}

/// A request that creates an object.
#[derive(Debug)]
pub struct Creation<'a> {
    /// The namespace in the URL; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Who sends it.
    pub caller: Caller,
    /// What they may do.
    pub permissions: &'a dyn Permissions,
}
