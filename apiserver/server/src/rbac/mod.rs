//! Roles and bindings of the direct endpoint: the default objects, and the policy that the authorizer decides by.

mod bootstrap;
mod defaults;
mod follow;
mod keystone_projects;
pub(crate) mod policy;

use controllers_runtime::PolicyRule;

pub(crate) use bootstrap::make_defaults;
pub(crate) use follow::RbacPolicy;
pub(crate) use keystone_projects::ProjectRoles;

/// API group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";

/// Identity that reads the roles and bindings.
pub(crate) const IDENTITY: &str = "rbac-policy";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[
    PolicyRule {
        groups: &[GROUP],
        resources: &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
        verbs: PolicyRule::READ,
    },
    PolicyRule { groups: &[""], resources: &["namespaces"], verbs: PolicyRule::READ },
];
