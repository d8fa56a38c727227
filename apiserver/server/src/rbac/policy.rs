//! Conversion of the stored roles and bindings into the policy of the authorizer.

use apiserver_access::Rule;
use apiserver_access::rbac::{Binding, Role, RoleRef, Subject};
use k8s_openapi::api::rbac::v1;
use kube::ResourceExt;

/// Annotation of a binding whose subjects may be identities of the host cluster: its value is then `host`.
const REALMS: &str = "capstan.dev/realms";

/// Returns the role that a Role or a ClusterRole defines.
pub(crate) fn role(object: &impl ResourceExt, rules: Option<&Vec<v1::PolicyRule>>) -> Role {
    Role {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        rules: rules.into_iter().flatten().map(rule).collect(),
    }
}

fn rule(rule: &v1::PolicyRule) -> Rule {
    let texts = |list: &Option<Vec<String>>| list.clone().unwrap_or_default();
    Rule {
        verbs: rule.verbs.clone(),
        groups: texts(&rule.api_groups),
        resources: texts(&rule.resources),
        names: texts(&rule.resource_names),
        paths: texts(&rule.non_resource_urls),
    }
}

/// Returns the binding that a RoleBinding or a ClusterRoleBinding defines.
pub(crate) fn binding(
    object: &impl ResourceExt,
    role: &v1::RoleRef,
    subjects: Option<&Vec<v1::Subject>>,
) -> Binding {
    let realms = object.annotations().get(REALMS).map(String::as_str).unwrap_or_default();
    Binding {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        role: RoleRef { is_cluster_role: role.kind == "ClusterRole", name: role.name.clone() },
        subjects: subjects.into_iter().flatten().filter_map(subject).collect(),
        admits_host: realms.split(',').any(|realm| realm.trim() == "host"),
        of_project: false,
    }
}

/// Returns a subject; `None` for a kind that validation refuses.
fn subject(subject: &v1::Subject) -> Option<Subject> {
    let name = subject.name.clone();
    match subject.kind.as_str() {
        "User" => Some(Subject::User(name)),
        "Group" => Some(Subject::Group(name)),
        "ServiceAccount" => {
            Some(Subject::ServiceAccount { namespace: subject.namespace.clone().unwrap_or_default(), name })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_read_with_all_their_fields() {
        let found: v1::Role =
            serde_json::from_value(json!({"metadata": {"namespace": "ns", "name": "r"}, "rules": [
            {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]}))
            .unwrap();
        let expected = Rule {
            verbs: vec!["get".to_owned()],
            groups: vec![String::new()],
            resources: vec!["pods".to_owned()],
            names: vec!["a".to_owned()],
            paths: Vec::new(),
        };
        let role = role(&found, found.rules.as_ref());
        assert_eq!((role.namespace.as_str(), role.name.as_str()), ("ns", "r"));
        assert_eq!(role.rules, [expected]);

        let group = GROUP;
        let found: v1::ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "b", "annotations": {"capstan.dev/realms": "own, host"}},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "a"}, {"kind": "Robot", "name": "x"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "ns"}]}))
        .unwrap();
        let binding = binding(&found, &found.role_ref, found.subjects.as_ref());
        let account = Subject::ServiceAccount { namespace: "ns".to_owned(), name: "s".to_owned() };
        assert_eq!(binding.subjects, [Subject::User("a".to_owned()), account]);
        assert!(binding.admits_host && binding.role.is_cluster_role && binding.namespace.is_empty());
    }

    const GROUP: &str = super::super::GROUP;
}
