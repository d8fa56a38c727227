//! RoleBinding and ClusterRoleBinding: strategy, validation and protobuf form.

mod table;

use apiserver_machinery::admission::GrantingWrite;
use apiserver_machinery::metadata::subdomain_errors;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::OwnTable;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::rbac_kinds::GROUP;
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::rules::{grants, path_segment};

/// Strategy of RoleBinding and ClusterRoleBinding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoleBindingStrategy {
    /// True for RoleBinding.
    pub(crate) is_namespaced: bool,
}

#[async_trait]
impl Strategy for RoleBindingStrategy {
    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        let resource = if self.is_namespaced { "rolebindings" } else { "clusterrolebindings" };
        grants::check_binding(write, resource).await
    }

    /// Sets the API groups that clients may omit.
    fn canonicalize(&self, new: &mut Value) {
        if let Some(role) = new.get_mut("roleRef") {
            set_group(role);
        }
        let subjects = new.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in
            subjects.into_iter().flatten().filter(|it| matches!(text(it, "kind"), "User" | "Group"))
        {
            set_group(subject);
        }
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let role = new.get("roleRef").unwrap_or(&Value::Null);
        validate_role(role, self.is_namespaced, &mut errors);
        let subjects = new.get("subjects").and_then(Value::as_array).into_iter().flatten();
        for (index, subject) in subjects.enumerate() {
            validate_subject(
                subject,
                &FieldPath::new("subjects").index(index),
                self.is_namespaced,
                &mut errors,
            );
        }
        if old.is_some_and(|old| old.get("roleRef").unwrap_or(&Value::Null) != role) {
            errors.push(FieldError::invalid(
                FieldPath::new("roleRef"),
                &in_go(role),
                "cannot change roleRef",
            ));
        }
        errors
    }

    fn name_errors(&self, name: &str) -> Vec<String> {
        path_segment::errors(name)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }

    fn table(&self) -> Option<OwnTable> {
        Some(table::TABLE)
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn set_group(reference: &mut Value) {
    if let Some(reference) = reference.as_object_mut() {
        let group = reference.entry("apiGroup").or_insert_with(|| json!(""));
        if *group == json!("") {
            *group = json!(GROUP);
        }
    }
}

fn validate_role(role: &Value, is_namespaced: bool, errors: &mut Vec<FieldError>) {
    let path = |field: &str| FieldPath::new("roleRef").child(field);
    if text(role, "apiGroup") != GROUP {
        errors.push(FieldError::not_supported(path("apiGroup"), &json!(text(role, "apiGroup")), &[GROUP]));
    }
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported(path("kind"), &json!(text(role, "kind")), kinds));
    }
    let name = text(role, "name");
    if name.is_empty() {
        errors.push(FieldError::required(path("name"), ""));
    }
    let wrong = path_segment::errors(name);
    errors.extend(wrong.iter().map(|wrong| FieldError::invalid(path("name"), &json!(name), wrong)));
}

fn validate_subject(subject: &Value, path: &FieldPath, is_namespaced: bool, errors: &mut Vec<FieldError>) {
    let (kind, name, group) = (text(subject, "kind"), text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    let expected = match kind {
        "ServiceAccount" => "",
        "User" | "Group" => GROUP,
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(path.child("kind"), &json!(other), &kinds));
            return;
        }
    };
    let is_account = kind == "ServiceAccount";
    if is_account && !name.is_empty() {
        let wrong = subdomain_errors(name);
        errors.extend(wrong.iter().map(|wrong| FieldError::invalid(path.child("name"), &json!(name), wrong)));
    }
    if group != expected {
        errors.push(FieldError::not_supported(path.child("apiGroup"), &json!(group), &[expected]));
    }
    if is_account && !is_namespaced && text(subject, "namespace").is_empty() {
        errors.push(FieldError::required(path.child("namespace"), ""));
    }
}

/// Protobuf message.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::list(
        2,
        "subjects",
        Shape::Message(&[
            Field::new(1, "kind", Shape::Text),
            Field::new(2, "apiGroup", Shape::Text),
            Field::new(3, "name", Shape::Text),
            Field::new(4, "namespace", Shape::Text),
        ]),
    ),
    Field::new(
        3,
        "roleRef",
        Shape::Message(&[
            Field::new(1, "apiGroup", Shape::Text),
            Field::new(2, "kind", Shape::Text),
            Field::new(3, "name", Shape::Text),
        ]),
    ),
];

/// Returns a role reference with the field names of upstream's Go type, as upstream's error shows it.
fn in_go(role: &Value) -> Value {
    let field = |name: &str| role.get(name).cloned().unwrap_or_default();
    serde_json::json!({"APIGroup": field("apiGroup"), "Kind": field("kind"), "Name": field("name")})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(is_namespaced: bool, binding: &Value, old: Option<&Value>) -> Vec<String> {
        let mut binding = binding.clone();
        let strategy = RoleBindingStrategy { is_namespaced };
        strategy.canonicalize(&mut binding);
        strategy.validate(&binding, old).iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn a_binding_refers_to_one_role_for_good() {
        let role = |kind: &str, name: &str| json!({"roleRef": {"kind": kind, "name": name}});
        let other_group = json!({"roleRef": {"apiGroup": "x", "kind": "Role", "name": "r"}});
        for (binding, local, cluster) in [
            (role("ClusterRole", "r"), vec![], vec![]),
            (role("Role", "r"), vec![], vec!["roleRef.kind"]),
            (role("Group", "r"), vec!["roleRef.kind"], vec!["roleRef.kind"]),
            (role("ClusterRole", ""), vec!["roleRef.name"], vec!["roleRef.name"]),
            (role("ClusterRole", "a/b"), vec!["roleRef.name"], vec!["roleRef.name"]),
            (other_group, vec!["roleRef.apiGroup"], vec!["roleRef.apiGroup", "roleRef.kind"]),
        ] {
            assert_eq!(fields(true, &binding, None), local, "{binding}");
            assert_eq!(fields(false, &binding, None), cluster, "{binding}");
        }
        let old = json!({"roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "r"}});
        assert_eq!(fields(true, &role("ClusterRole", "r"), Some(&old)), Vec::<String>::new());
        for changed in [role("ClusterRole", "s"), role("Role", "r")] {
            assert_eq!(fields(true, &changed, Some(&old)), ["roleRef"], "{changed}");
        }
    }

    #[test]
    fn subjects_have_a_known_kind_its_group_and_a_name() {
        let role = json!({"kind": "ClusterRole", "name": "r"});
        for (subject, local, cluster) in [
            (json!({"kind": "User", "name": "a b:c"}), vec![], vec![]),
            (json!({"kind": "Group", "name": "g", "apiGroup": GROUP}), vec![], vec![]),
            (json!({"kind": "User", "name": "a", "apiGroup": "x"}), vec!["apiGroup"], vec!["apiGroup"]),
            (json!({"kind": "User"}), vec!["name"], vec!["name"]),
            (json!({"kind": "Robot", "name": "a"}), vec!["kind"], vec!["kind"]),
            (json!({"kind": "ServiceAccount", "name": "a", "namespace": "ns"}), vec![], vec![]),
            (json!({"kind": "ServiceAccount", "name": "a"}), vec![], vec!["namespace"]),
            (json!({"kind": "ServiceAccount", "name": "A", "namespace": "n"}), vec!["name"], vec!["name"]),
            (
                json!({"kind": "ServiceAccount", "name": "a", "namespace": "n", "apiGroup": GROUP}),
                vec!["apiGroup"],
                vec!["apiGroup"],
            ),
        ] {
            let binding = json!({"roleRef": role, "subjects": [subject]});
            let paths = |fields: Vec<&str>| -> Vec<String> {
                fields.iter().map(|field| format!("subjects[0].{field}")).collect()
            };
            assert_eq!(fields(true, &binding, None), paths(local), "{binding}");
            assert_eq!(fields(false, &binding, None), paths(cluster), "{binding}");
        }
    }
}
