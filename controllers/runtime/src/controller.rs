//! Specification of a controller: everything that a process needs to run one.

use futures::future::BoxFuture;
use kube::api::ApiResource;
use tokio_util::sync::CancellationToken;

use crate::ControllerContext;

/// One controller.
#[derive(Debug, Clone, Copy)]
pub struct ControllerSpec {
    /// Name by which the controller is known to the API, and from which its Events come.
    pub identity: &'static str,
    /// Permissions of the identity, beside [`PolicyRule::EVENTS`].
    pub rules: &'static [PolicyRule],
    /// Runs the controller until the token is cancelled.
    ///
    /// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
    pub run: fn(ControllerContext, CancellationToken) -> BoxFuture<'static, ()>,
}

/// Permission on some resources. `*` is any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyRule {
    /// API groups; empty for core.
    pub groups: &'static [&'static str],
    /// Plurals, with `/` and the subresource where the rule is about one.
    pub resources: &'static [&'static str],
    /// Verbs.
    pub verbs: &'static [&'static str],
}

impl PolicyRule {
    /// Permissions of a [`crate::Recorder`].
    pub const EVENTS: Self =
        Self { groups: &[""], resources: &["events"], verbs: &["create", "patch", "update", "get"] };

    /// Permissions of a controller that creates and replaces Secrets.
    pub const WRITE_SECRETS: Self =
        Self { groups: &[""], resources: &["secrets"], verbs: &["get", "create", "update"] };

    /// Permissions of a controller that only reads Secrets.
    pub const SECRETS: Self = Self { groups: &[""], resources: &["secrets"], verbs: &["get"] };

    /// Permissions of a controller that reads cloud credentials, and watches them: Secrets, shared identities, and the
    /// labels of Namespaces, which decide on the use of an identity.
    pub const CREDENTIALS: Self = Self {
        groups: &["", "infrastructure.cluster.x-k8s.io"],
        resources: &["secrets", "namespaces", "openstackclusteridentities"],
        verbs: Self::READ,
    };

    /// Permission to name an OpenStackClusterIdentity in an object. Controllers copy references that a user was allowed
    /// to write.
    pub const USE_IDENTITIES: Self = Self {
        groups: &["infrastructure.cluster.x-k8s.io"],
        resources: &["openstackclusteridentities"],
        verbs: &["use"],
    };

    /// Verbs of a reader.
    pub const READ: &'static [&'static str] = &["get", "list", "watch"];

    /// Verbs of an identity that changes objects of others.
    pub const CHANGE: &'static [&'static str] = &["get", "list", "watch", "update", "patch"];

    /// Verbs of an identity that changes and deletes objects of others.
    pub const DELETE: &'static [&'static str] = &["get", "list", "watch", "update", "patch", "delete"];

    /// Verbs of an identity that manages objects of its own.
    pub const WRITE: &'static [&'static str] =
        &["get", "list", "watch", "create", "update", "patch", "delete"];
}

/// A kind that the API serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedKind {
    /// The resource in its stored version.
    pub resource: ApiResource,
    /// Objects of the kind live in namespaces.
    pub namespaced: bool,
    /// Every version that is served.
    pub versions: Vec<String>,
}
