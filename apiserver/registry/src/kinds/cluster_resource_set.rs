//! ClusterResourceSet: strategy and validation.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::json_fields::{default, items};
use crate::rules::used_identities::secret;
use crate::rules::{immutable, label_selector};

/// Path of the resources that a set applies.
const RESOURCES: &str = "spec.resources";

/// Strategy of ClusterResourceSet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterResourceSetStrategy;

impl Strategy for ClusterResourceSetStrategy {
    /// Returns the Secrets whose content the set applies to workload clusters.
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        let text = |resource: &Value, field: &str| resource.get(field)?.as_str().map(str::to_owned);
        let secrets =
            items(object, RESOURCES).filter(|(_, it)| text(it, "kind").as_deref() == Some("Secret"));
        let names = secrets.filter_map(|(_, it)| text(it, "name")).filter(|name| !name.is_empty());
        names.map(|name| secret(RESOURCES, object::namespace(object), &name)).collect()
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        if new.get("spec").is_some_and(Value::is_object) {
            default(new, "spec.strategy", "ApplyOnce");
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let path = FieldPath::new("spec.clusterSelector");
        let selector = object::at(new, "spec.clusterSelector");
        let shown = selector.cloned().unwrap_or_default();
        if let Some(reason) = label_selector::error(selector) {
            errors.push(FieldError::invalid(path, &shown, &reason));
        } else if label_selector::is_empty(selector) {
            errors.push(FieldError::invalid(path, &shown, "selector must not be empty"));
        }
        let Some(old) = old else { return errors };
        if object::at(old, "spec.strategy").is_some() {
            errors.extend(immutable::field(new, old, "spec.strategy"));
        }
        errors.extend(immutable::field(new, old, "spec.clusterSelector"));
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(new: &Value, old: Option<&Value>) -> Vec<String> {
        ClusterResourceSetStrategy.validate(new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_default_strategy_is_apply_once() {
        let mut set = json!({"spec": {"clusterSelector": {"matchLabels": {"a": "b"}}}});
        ClusterResourceSetStrategy.prepare(&mut set, None);
        assert_eq!(set["spec"]["strategy"], "ApplyOnce");
        set["spec"]["strategy"] = json!("Reconcile");
        ClusterResourceSetStrategy.prepare(&mut set, None);
        assert_eq!(set["spec"]["strategy"], "Reconcile");
    }

    #[test]
    fn the_cluster_selector_and_strategy_of_a_set_are_immutable() {
        let set = json!({"spec": {"strategy": "ApplyOnce", "clusterSelector": {"matchLabels": {"a": "b"}}}});
        assert_eq!(found(&set, Some(&set)), Vec::<String>::new());
        let mut other = set.clone();
        other["spec"]["strategy"] = json!("Reconcile");
        other["spec"]["clusterSelector"]["matchLabels"]["a"] = json!("c");
        assert_eq!(
            found(&other, Some(&set)),
            [
                "spec.strategy: Invalid value: \"Reconcile\": field is immutable",
                "spec.clusterSelector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
            ]
        );
    }

    #[test]
    fn the_cluster_selector_of_a_set_must_be_valid_and_not_empty() {
        let set = |selector: Value| json!({"spec": {"clusterSelector": selector}});
        assert_eq!(
            found(&set(json!({})), None),
            ["spec.clusterSelector: Invalid value: {}: selector must not be empty"]
        );
        let terms = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
        assert!(found(&set(terms), None)[0].ends_with("\"Like\" is not a valid label selector operator"));
    }
}
