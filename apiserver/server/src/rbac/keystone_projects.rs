//! Permissions of the users of Keystone's projects in the namespaces of their projects.
//!
//! A namespace belongs to a project by a label. A role that a user has in the project gives the rules of a ClusterRole in
//! that namespace, as a RoleBinding for the group of the project's users with that role would.

use std::collections::BTreeMap;

use apiserver_access::rbac::{Binding, RoleRef, Subject};
use apiserver_registry::KEYSTONE_PROJECT;

/// ClusterRoles of the roles of Keystone, by default. Keystone itself counts a `member` as a `reader`, too.
const DEFAULTS: [(&str, &str); 4] =
    [("admin", "admin"), ("manager", "admin"), ("member", "edit"), ("reader", "view")];

/// ClusterRole of each role of Keystone that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectRoles(BTreeMap<String, String>);

impl Default for ProjectRoles {
    fn default() -> Self {
        Self(DEFAULTS.map(|(role, cluster_role)| (role.to_owned(), cluster_role.to_owned())).into())
    }
}

impl ProjectRoles {
    /// Returns these roles; `None` stands for the default ones.
    pub(crate) fn new(given: Option<BTreeMap<String, String>>) -> Self {
        given.map(Self).unwrap_or_default()
    }

    /// Returns no roles, for a server without Keystone.
    pub(crate) fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Returns the bindings of a namespace with these labels.
    pub(super) fn bindings(
        &self,
        namespace: &str,
        labels: Option<&BTreeMap<String, String>>,
    ) -> Vec<Binding> {
        let project = labels.and_then(|labels| labels.get(KEYSTONE_PROJECT)).filter(|id| !id.is_empty());
        let bind = |project: &String| {
            let of_role = |(role, cluster_role): (&String, &String)| Binding {
                namespace: namespace.to_owned(),
                name: format!("{KEYSTONE_PROJECT}:{role}"),
                role: RoleRef { is_cluster_role: true, name: cluster_role.clone() },
                subjects: vec![Subject::Group(format!("keystone:project:{project}:{role}"))],
                admits_host: false,
                of_project: true,
            };
            self.0.iter().map(of_role).collect()
        };
        project.map(bind).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_labelled_namespace_has_one_binding_for_each_role() {
        let labels = |id: &str| BTreeMap::from([(KEYSTONE_PROJECT.to_owned(), id.to_owned())]);
        let found = ProjectRoles::default().bindings("team", Some(&labels("p1")));
        let text: Vec<String> = found
            .iter()
            .map(|binding| format!("{} {} {}", binding.namespace, binding.role.name, binding.subjects[0]))
            .collect();
        assert_eq!(
            text,
            [
                "team admin Group \"keystone:project:p1:admin\"",
                "team admin Group \"keystone:project:p1:manager\"",
                "team edit Group \"keystone:project:p1:member\"",
                "team view Group \"keystone:project:p1:reader\"",
            ]
        );
        assert!(found.iter().all(|binding| binding.of_project), "the audit log has another authorizer");
        assert!(ProjectRoles::default().bindings("team", Some(&labels(""))).is_empty());
        assert!(ProjectRoles::default().bindings("team", None).is_empty());
        assert!(ProjectRoles::none().bindings("team", Some(&labels("p1"))).is_empty());
        let own = ProjectRoles::new(Some(BTreeMap::from([("operator".to_owned(), "edit".to_owned())])));
        assert_eq!(own.bindings("team", Some(&labels("p1"))).len(), 1);
    }
}
