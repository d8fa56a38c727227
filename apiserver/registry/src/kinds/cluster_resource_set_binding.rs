//! ClusterResourceSetBinding: strategy and validation.

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::FieldError;
use serde_json::Value;

use crate::rules::immutable;

/// Strategy of ClusterResourceSetBinding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterResourceSetBindingStrategy;

impl Strategy for ClusterResourceSetBindingStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let named = old.filter(|old| object::at(old, "spec.clusterName").is_some());
        named.and_then(|old| immutable::field(new, old, "spec.clusterName")).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cluster_of_a_binding_is_immutable() {
        let of = |cluster: &str| json!({"spec": {"clusterName": cluster}});
        let found = |new: &Value, old: &Value| {
            let errors = ClusterResourceSetBindingStrategy.validate(new, Some(old));
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(&of("a"), &of("a")), Vec::<String>::new());
        assert_eq!(found(&of("a"), &json!({"spec": {}})), Vec::<String>::new());
        assert_eq!(found(&of("b"), &of("a")), ["spec.clusterName: Invalid value: \"b\": field is immutable"]);
    }
}
