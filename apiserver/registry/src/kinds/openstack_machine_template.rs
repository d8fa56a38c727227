//! OpenStackMachineTemplate: strategy and validation.

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::immutable::as_typed;

const IMMUTABLE: &str = "OpenStackMachineTemplate spec.template.spec field is immutable. Please create a new resource instead. Ref doc: https://cluster-api.sigs.k8s.io/tasks/change-machine-template.html";

/// Strategy of OpenStackMachineTemplate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackMachineTemplateStrategy;

impl Strategy for OpenStackMachineTemplateStrategy {
    fn is_exempt_in_dry_run(&self, new: &Value) -> bool {
        crate::rules::immutable::is_of_topology(new)
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = |object: &Value| object::at(object, "spec.template.spec").cloned().unwrap_or_default();
        let at = FieldPath::new("spec.template.spec");
        match old {
            None if spec(new).get("providerID").is_some() => {
                vec![FieldError::forbidden(at.child("providerID"), "cannot be set in templates")]
            }
            Some(old) if as_typed(&spec(new)) != as_typed(&spec(old)) => {
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
