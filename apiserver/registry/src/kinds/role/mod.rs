//! Role and ClusterRole: strategy, validation, table and protobuf form.

use apiserver_machinery::admission::GrantingWrite;
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::rules::{grants, label_selector, path_segment};

/// Strategy of Role and ClusterRole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RoleStrategy {
    /// True for Role.
    pub(crate) is_namespaced: bool,
}

#[async_trait]
impl Strategy for RoleStrategy {
    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        let resource = if self.is_namespaced { "roles" } else { "clusterroles" };
        grants::check_role(write, resource).await
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let rules = new.get("rules").and_then(Value::as_array).into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            validate_rule(rule, &FieldPath::new("rules").index(index), self.is_namespaced, &mut errors);
        }
        if !self.is_namespaced {
            validate_aggregation(new, &mut errors);
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
        Some(TABLE)
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(if self.is_namespaced { &MESSAGE[..2] } else { MESSAGE })
    }
}

fn entries<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn validate_rule(rule: &Value, path: &FieldPath, is_namespaced: bool, errors: &mut Vec<FieldError>) {
    let required = |field: &str, detail: &str| FieldError::required(path.child(field), detail);
    let has = |field: &str| !entries(rule, field).is_empty();
    if !has("verbs") {
        errors.push(required("verbs", "verbs must contain at least one value"));
    }
    if has("nonResourceURLs") {
        let shown = json!(entries(rule, "nonResourceURLs"));
        let mut refuse = |detail| {
            errors.push(FieldError::invalid(path.child("nonResourceURLs"), &shown, detail));
        };
        if is_namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(has) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if !has("apiGroups") {
        errors.push(required("apiGroups", "resource rules must supply at least one api group"));
    }
    if !has("resources") {
        errors.push(required("resources", "resource rules must supply at least one resource"));
    }
}

fn validate_aggregation(role: &Value, errors: &mut Vec<FieldError>) {
    let Some(rule) = role.get("aggregationRule") else { return };
    let path = FieldPath::new("aggregationRule.clusterRoleSelectors");
    let selectors = entries(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(path.clone(), detail));
    }
    for (index, selector) in selectors.iter().enumerate() {
        if let Some(error) = label_selector::error(Some(selector)) {
            errors.push(FieldError::invalid(path.index(index), selector, &error));
        }
    }
}

/// Protobuf message. The last field belongs to ClusterRole alone.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::list(2, "rules", Shape::Message(RULE)),
    Field::pointer(
        3,
        "aggregationRule",
        Shape::Message(&[Field::list(1, "clusterRoleSelectors", Shape::Message(SELECTOR))]),
    ),
];

const RULE: &[Field] = &[
    Field::list(1, "verbs", Shape::Text),
    Field::list(2, "apiGroups", Shape::Text),
    Field::list(3, "resources", Shape::Text),
    Field::list(4, "resourceNames", Shape::Text),
    Field::list(5, "nonResourceURLs", Shape::Text),
];

const SELECTOR: &[Field] = &[
    Field::new(1, "matchLabels", Shape::Texts),
    Field::list(
        2,
        "matchExpressions",
        Shape::Message(&[
            Field::new(1, "key", Shape::Text),
            Field::new(2, "operator", Shape::Text),
            Field::list(3, "values", Shape::Text),
        ]),
    ),
];

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { name: "Name", format: "name", priority: 0, description: "Name of the role." },
        OwnColumn { name: "Created At", format: "", priority: 0, description: "Time of its creation." },
    ],
    cells,
};

fn cells(role: &Value, _now: Timestamp) -> Vec<Value> {
    vec![json!(object::name(role)), json!(object::meta(role, "creationTimestamp"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(is_namespaced: bool, role: &Value) -> Vec<String> {
        let errors = RoleStrategy { is_namespaced }.validate(role, None);
        errors.iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn a_rule_is_about_resources_or_paths_and_paths_belong_to_cluster_roles() {
        let good = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
        let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/metrics"]});
        for (rule, of_role, of_cluster_role) in [
            (good, vec![], vec![]),
            (
                json!({"verbs": []}),
                vec!["verbs", "apiGroups", "resources"],
                vec!["verbs", "apiGroups", "resources"],
            ),
            (json!({"verbs": ["get"], "resources": ["pods"]}), vec!["apiGroups"], vec!["apiGroups"]),
            (paths, vec!["nonResourceURLs"], vec![]),
            (
                json!({"verbs": ["get"], "nonResourceURLs": ["*"], "resourceNames": ["a"]}),
                vec!["nonResourceURLs", "nonResourceURLs"],
                vec!["nonResourceURLs"],
            ),
        ] {
            let role = json!({"rules": [rule]});
            let paths = |fields: Vec<&str>| -> Vec<String> {
                fields.iter().map(|field| format!("rules[0].{field}")).collect()
            };
            assert_eq!(fields(true, &role), paths(of_role), "{role}");
            assert_eq!(fields(false, &role), paths(of_cluster_role), "{role}");
        }
        assert_eq!(fields(true, &json!({})), Vec::<String>::new());
    }

    #[test]
    fn an_aggregation_rule_has_valid_selectors() {
        let role = |selectors: Value| json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
        let path = "aggregationRule.clusterRoleSelectors";
        assert_eq!(fields(false, &role(json!([{"matchLabels": {"a": "b"}}]))), Vec::<String>::new());
        assert_eq!(fields(false, &role(json!([]))), [path]);
        assert_eq!(fields(false, &role(json!([{}, {"matchLabels": {"-": "b"}}]))), [format!("{path}[1]")]);
    }
}
