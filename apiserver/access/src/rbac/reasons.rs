//! Reasons of decisions, as text.

use std::fmt::Write;

use super::index::is_of_everyone;
use super::policy::{Binding, RoleRef, Subject};
use crate::authorizer::Rule;

/// Maximum number of bindings in a reason: a person reads them, and a user may have thousands.
const MOST: usize = 10;

/// Returns why a binding allows a request, in upstream's words. For a role in a project of Keystone the words are others,
/// because no such binding is stored.
pub(super) fn reason(binding: &Binding, subject: usize) -> String {
    let mut text = if binding.of_project {
        let (role, namespace) = (&binding.role.name, &binding.namespace);
        format!("Keystone: the project of the namespace {namespace:?} gives ClusterRole {role:?}")
    } else {
        format!("RBAC: allowed by {}", of_role(binding))
    };
    if let Some(subject) = binding.subjects.get(subject) {
        // Writing into a String does not fail.
        let _ = write!(text, " to {subject}");
    }
    text
}

/// Returns a binding and its role, in upstream's words.
fn of_role(binding: &Binding) -> String {
    let (kind, name) = if binding.namespace.is_empty() {
        ("ClusterRoleBinding", binding.name.clone())
    } else {
        ("RoleBinding", format!("{}/{}", binding.name, binding.namespace))
    };
    let role = if binding.role.is_cluster_role { "ClusterRole" } else { "Role" };
    format!("{kind} {name:?} of {role} {:?}", binding.role.name)
}

/// Returns the name of a missing role, in upstream's words.
pub(super) fn not_found(role: &RoleRef) -> String {
    let kind = if role.is_cluster_role { "clusterrole" } else { "role" };
    format!("{kind}.rbac.authorization.k8s.io {:?} not found", role.name)
}

/// Bindings of a user, of which none allows a request.
#[derive(Debug, Default)]
pub(super) struct Refusal<'a> {
    namespace: &'a str,
    /// Texts of the bindings that name the user or one of its own groups.
    own: Vec<String>,
    /// Number of the bindings of all users.
    of_all: usize,
    /// Number of the bindings that do not count for users of the host cluster.
    pub(super) left_out: usize,
}

impl<'a> Refusal<'a> {
    /// Creates the refusal of a request without bindings. An empty namespace is none.
    pub(super) fn in_namespace(namespace: &'a str) -> Self {
        Self { namespace, ..Self::default() }
    }

    /// Adds a binding that the user is a subject of. `exists`: its role exists.
    pub(super) fn add(&mut self, binding: &Binding, subject: usize, exists: bool) {
        let is_everyone = |subject: &Subject| matches!(subject, Subject::Group(name) if is_of_everyone(name));
        if binding.subjects.get(subject).is_some_and(is_everyone) {
            self.of_all = self.of_all.saturating_add(1);
            return;
        }
        let suffix = if exists { "" } else { ", which does not exist" };
        self.own.push(format!("{}{suffix}", of_role(binding)));
    }

    /// Returns the reason of the refusal.
    pub(super) fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.own.is_empty() {
            let namespace = match self.namespace {
                "" => String::new(),
                namespace => format!(" and of the namespace {namespace:?}"),
            };
            parts.push(format!("no binding of the cluster{namespace} names the user or one of its groups"));
        } else {
            let shown: Vec<&str> = self.own.iter().take(MOST).map(String::as_str).collect();
            parts.push(format!("no rule of the user's bindings allows it: {}", shown.join("; ")));
        }
        for (count, what) in [
            (self.own.len().saturating_sub(MOST), "more"),
            (self.of_all, "for all users"),
            (
                self.left_out,
                "that do not admit users of the host cluster (annotation capstan.dev/realms: host)",
            ),
        ] {
            if count > 0 {
                parts.push(format!("and {count} {what}"));
            }
        }
        parts.join("; ")
    }
}

/// Returns why the roles of a user in the project of a namespace do not allow a request. `roles` are the bindings that they
/// make.
pub(super) fn refusal_of_projects<'a>(namespace: &str, roles: impl Iterator<Item = &'a Binding>) -> String {
    if namespace.is_empty() {
        return "roles in projects count in the namespaces of these projects only".to_owned();
    }
    let roles: Vec<String> =
        roles.take(MOST).map(|binding| format!("ClusterRole {:?}", binding.role.name)).collect();
    if roles.is_empty() {
        return format!(
            "the namespace {namespace:?} is in no project in which the user has a role that counts"
        );
    }
    let roles = roles.join("; ");
    format!("no rule of the user's roles in the project of the namespace {namespace:?} allows it: {roles}")
}

/// Formats a rule in upstream's form.
pub(super) fn shown(rule: &Rule) -> String {
    let fields = [
        ("APIGroups", &rule.groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.paths),
        ("ResourceNames", &rule.names),
        ("Verbs", &rule.verbs),
    ];
    let list = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
        quoted.join(" ")
    };
    let fields = fields.into_iter().filter(|(_, values)| !values.is_empty());
    let fields: Vec<String> = fields.map(|(name, values)| format!("{name}:[{}]", list(values))).collect();
    format!("{{{}}}", fields.join(", "))
}
