//! OpenStackMachineTemplate: strategy and validation.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::immutable::{self, as_typed};
use crate::rules::used_identities;

const IMMUTABLE: &str = "OpenStackMachineTemplate spec.template.spec field is immutable. Please create a new resource instead. Ref doc: https://cluster-api.sigs.k8s.io/tasks/change-machine-template.html";

/// Strategy of OpenStackMachineTemplate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackMachineTemplateStrategy;

impl Strategy for OpenStackMachineTemplateStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_identities::at(object, &["spec.template.spec.identityRef"])
    }

    fn is_exempt_in_dry_run(&self, new: &Value) -> bool {
        immutable::is_of_topology(new)
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = |object: &Value| object::at(object, "spec.template.spec").cloned().unwrap_or_default();
        let fixed = |object: &Value| {
            let mut spec = spec(object);
            // The machines that were made from the template follow these.
            for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                immutable::forget(port, "allowedAddressPairs");
            }
            as_typed(&spec)
        };
        let at = FieldPath::new("spec.template.spec");
        match old {
            None if spec(new).get("providerID").is_some() => {
                vec![FieldError::forbidden(at.child("providerID"), "cannot be set in templates")]
            }
            Some(old) if fixed(new) != fixed(old) => {
                vec![FieldError::invalid(at, &spec(new), IMMUTABLE)]
            }
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(spec: &Value) -> Value {
        json!({"spec": {"template": {"spec": spec}}, "status": {}})
    }

    #[test]
    fn a_template_cannot_have_a_provider_id() {
        let errors = OpenStackMachineTemplateStrategy.validate(&template(&json!({"providerID": "a"})), None);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["spec.template.spec.providerID: Forbidden: cannot be set in templates"]);
        assert_eq!(OpenStackMachineTemplateStrategy.validate(&template(&json!({})), None), []);
    }

    #[test]
    fn the_address_pairs_of_a_template_can_change() {
        let with = |address: &str| {
            let pairs = json!([{"ipAddress": address}]);
            template(&json!({"flavor": {"id": "1"}, "ports": [{"allowedAddressPairs": pairs}]}))
        };
        let strategy = OpenStackMachineTemplateStrategy;
        assert_eq!(strategy.validate(&with("10.0.0.2"), Some(&with("10.0.0.1"))), []);
        let without = template(&json!({"flavor": {"id": "1"}, "ports": [{}]}));
        assert_eq!(strategy.validate(&without, Some(&with("10.0.0.1"))), []);
        let other = template(&json!({"flavor": {"id": "1"}, "ports": [{"description": "x"}]}));
        assert_eq!(strategy.validate(&other, Some(&without)).len(), 1);
    }

    #[test]
    fn the_spec_of_a_machine_template_is_immutable() {
        let old = template(&json!({"flavor": {"id": "1"}}));
        let mut new = old.clone();
        new["status"]["capacity"] = json!({"cpu": 4});
        assert_eq!(OpenStackMachineTemplateStrategy.validate(&new, Some(&old)), []);
        new["spec"]["template"]["spec"]["trunk"] = json!(false);
        assert_eq!(OpenStackMachineTemplateStrategy.validate(&new, Some(&old)), []);
        let new = template(&json!({"flavor": {"id": "2"}}));
        let errors = OpenStackMachineTemplateStrategy.validate(&new, Some(&old));
        assert_eq!(errors.len(), 1);
        let text = errors.first().unwrap().to_string();
        assert!(
            text.starts_with("spec.template.spec: Invalid value: ") && text.ends_with(IMMUTABLE),
            "{text}"
        );
    }
}
