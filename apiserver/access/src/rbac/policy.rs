//! Roles and bindings, as the engine reads them.

use std::fmt;

use crate::authorizer::Rule;

/// Role: a Role of a namespace, or a ClusterRole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Role {
    /// Namespace; empty for a ClusterRole.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Permissions.
    pub rules: Vec<Rule>,
}

/// Reference of a binding to its role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleRef {
    /// True for a ClusterRole; false for a Role in the binding's namespace.
    pub is_cluster_role: bool,
    /// Name.
    pub name: String,
}

/// Subject of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// User with this name.
    User(String),
    /// Members of a group.
    Group(String),
    /// Service account. An empty namespace is the binding's.
    ServiceAccount {
        /// Namespace, or empty.
        namespace: String,
        /// Name.
        name: String,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User {name:?}"),
            Self::Group(name) => write!(f, "Group {name:?}"),
            Self::ServiceAccount { namespace, name } => {
                write!(f, "ServiceAccount {:?}", format!("{name}/{namespace}"))
            }
        }
    }
}

/// Binding: a RoleBinding of a namespace, or a ClusterRoleBinding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binding {
    /// Namespace; empty for a ClusterRoleBinding.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Role whose rules the subjects get.
    pub role: RoleRef,
    /// Subjects.
    pub subjects: Vec<Subject>,
    /// True if the subjects may be identities of the host cluster, too. A name of the host is another person than the
    /// same name in a certificate of our own CA.
    pub admits_host: bool,
    /// True if a role in a project of Keystone makes the binding. There is no stored object of its name then.
    pub of_project: bool,
}

/// All roles and bindings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Roles and ClusterRoles.
    pub roles: Vec<Role>,
    /// RoleBindings and ClusterRoleBindings.
    pub bindings: Vec<Binding>,
}

/// Bindings that count for a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Counted {
    /// All.
    #[default]
    All,
    /// Those in the store.
    Stored,
    /// Those that roles in projects of Keystone make.
    OfProjects,
}

impl Counted {
    /// Returns true if a binding counts.
    pub(super) fn has(self, binding: &Binding) -> bool {
        match self {
            Self::All => true,
            Self::Stored => !binding.of_project,
            Self::OfProjects => binding.of_project,
        }
    }
}
