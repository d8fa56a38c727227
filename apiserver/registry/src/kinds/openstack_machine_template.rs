//! OpenStackMachineTemplate: strategy and validation.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::Value;

use crate::rules::immutable::{self, as_typed};
use crate::rules::{template_revision, used_identities};

const IMMUTABLE: &str = "OpenStackMachineTemplate spec.template.spec field is immutable. Please create a new resource instead. Ref doc: https://cluster-api.sigs.k8s.io/tasks/change-machine-template.html";

/// Path of the spec of the machines.
const SPEC: &str = "spec.template.spec";

/// Strategy of OpenStackMachineTemplate. An edit of one that no topology made is its next revision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackMachineTemplateStrategy;

/// Returns the part of a template that needs other machines if it changes.
fn content(template: &Value) -> Value {
    let mut spec = object::at(template, SPEC).cloned().unwrap_or_default();
    // The machines that were made from the template follow these.
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        immutable::forget(port, "allowedAddressPairs");
    }
    as_typed(&spec)
}

#[async_trait]
impl Strategy for OpenStackMachineTemplateStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_identities::at(object, &used_identities::OF_MACHINE_TEMPLATE)
    }

    fn is_exempt_in_dry_run(&self, new: &Value) -> bool {
        immutable::is_of_topology(new)
    }

    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        template_revision::number(new, old, content);
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = object::at(new, SPEC);
        let at = FieldPath::new(SPEC);
        let has_id =
            |object: &Value| object::at(object, SPEC).is_some_and(|spec| spec.get("providerID").is_some());
        if has_id(new) && !old.is_some_and(has_id) {
            return vec![FieldError::forbidden(at.child("providerID"), "cannot be set in templates")];
        }
        match old {
            Some(old) if template_revision::is_of_topology(old) && content(new) != content(old) => {
                vec![FieldError::invalid(at, &spec.cloned().unwrap_or_default(), IMMUTABLE)]
            }
            _ => Vec::new(),
        }
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let warning = template_revision::warning("OpenStackMachineTemplate", new, old, others).await?;
        Ok(Verdict { warnings: warning.into_iter().collect(), ..Verdict::default() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn template(spec: &Value) -> Value {
        json!({"metadata": {"name": "t"}, "spec": {"template": {"spec": spec}}, "status": {}})
    }

    #[test]
    fn a_template_cannot_have_a_provider_id() {
        let errors = OpenStackMachineTemplateStrategy.validate(&template(&json!({"providerID": "a"})), None);
        let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["spec.template.spec.providerID: Forbidden: cannot be set in templates"]);
        assert_eq!(OpenStackMachineTemplateStrategy.validate(&template(&json!({})), None), []);
        let old = template(&json!({}));
        let errors =
            OpenStackMachineTemplateStrategy.validate(&template(&json!({"providerID": "a"})), Some(&old));
        assert_eq!(errors.len(), 1, "by an edit");
    }

    fn edited(old: &Value, new: &Value) -> Value {
        let mut new = new.clone();
        OpenStackMachineTemplateStrategy.prepare(&mut new, Some(old));
        assert_eq!(OpenStackMachineTemplateStrategy.validate(&new, Some(old)), []);
        new
    }

    #[test]
    fn the_address_pairs_of_a_template_change_without_a_revision() {
        let with = |address: &str| {
            let pairs = json!([{"ipAddress": address}]);
            template(&json!({"flavor": {"id": "1"}, "ports": [{"allowedAddressPairs": pairs}]}))
        };
        let old = with("10.0.0.1");
        assert_eq!(edited(&old, &with("10.0.0.2")), with("10.0.0.2"));
        let without = template(&json!({"flavor": {"id": "1"}, "ports": [{}]}));
        assert_eq!(edited(&old, &without), without);
        let other = template(&json!({"flavor": {"id": "1"}, "ports": [{"description": "x"}]}));
        assert_eq!(template_revision::revision(&edited(&without, &other)), 2);
    }

    #[test]
    fn an_edit_of_a_machine_template_is_a_revision_and_what_typed_clients_drop_is_none() {
        let old = template(&json!({"flavor": {"id": "1"}}));
        let mut new = old.clone();
        new["status"]["capacity"] = json!({"cpu": 4});
        new["spec"]["template"]["spec"]["trunk"] = json!(false);
        assert_eq!(edited(&old, &new), new);
        let second = edited(&old, &template(&json!({"flavor": {"id": "2"}})));
        assert_eq!(template_revision::revision(&second), 2);
    }

    #[test]
    fn the_spec_of_a_template_that_a_topology_made_is_immutable() {
        let mut old = template(&json!({"flavor": {"id": "1"}}));
        old["metadata"]["labels"] = json!({"topology.cluster.x-k8s.io/owned": ""});
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["flavor"]["id"] = json!("2");
        let errors = OpenStackMachineTemplateStrategy.validate(&new, Some(&old));
        assert_eq!(errors.len(), 1);
        let text = errors.first().unwrap().to_string();
        assert!(
            text.starts_with("spec.template.spec: Invalid value: ") && text.ends_with(IMMUTABLE),
            "{text}"
        );
    }
}
