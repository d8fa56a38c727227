//! OpenStackClusterTemplate: strategy and validation.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::immutable::as_typed;
use crate::rules::used_identities;

/// Strategy of OpenStackClusterTemplate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackClusterTemplateStrategy;

impl Strategy for OpenStackClusterTemplateStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_identities::at(object, &used_identities::OF_CLUSTER_TEMPLATE)
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = |object: &Value| object::at(object, "spec.template.spec").cloned().unwrap_or_default();
        let Some(old) = old else { return Vec::new() };
        if as_typed(&spec(new)) == as_typed(&spec(old)) {
            return Vec::new();
        }
        // The path begins with the kind, as in upstream.
        let at = FieldPath::new("OpenStackClusterTemplate.spec.template.spec");
        let detail = "OpenStackClusterTemplate spec.template.spec field is immutable. Please create new resource instead.";
        vec![FieldError::invalid(at, &spec(new), detail)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_spec_of_a_cluster_template_is_immutable() {
        let old = json!({"spec": {"template": {"spec": {"tags": ["a"]}}}});
        let mut new = old.clone();
        new["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
        assert_eq!(OpenStackClusterTemplateStrategy.validate(&new, Some(&old)), []);
        new["spec"]["template"]["spec"]["tags"] = json!(["b"]);
        let errors = OpenStackClusterTemplateStrategy.validate(&new, Some(&old));
        let expected = "OpenStackClusterTemplate.spec.template.spec: Invalid value: {\"tags\":[\"b\"]}: OpenStackClusterTemplate spec.template.spec field is immutable. Please create new resource instead.";
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
        assert_eq!(OpenStackClusterTemplateStrategy.validate(&new, None), []);
    }
}
