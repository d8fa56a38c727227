//! MachinePool: strategy and validation.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::quota::Amounts;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::rules::json_fields::{default, get, items};
use crate::rules::machine_owner::TEMPLATE;
use crate::rules::machine_template::{
    self, label_with_cluster, prepare_version, validate_bootstrap, validate_cluster,
};
use crate::rules::quota_usage;
use crate::rules::{replicas, template_metadata, used_secrets};

/// Strategy of MachinePool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachinePoolStrategy;

impl Strategy for MachinePoolStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &used_secrets::OF_MACHINES)
    }

    fn quota_usage(&self, object: &Value) -> Amounts {
        quota_usage::replicas(object, false)
    }

    fn quota_prefixes(&self) -> &'static [&'static str] {
        &quota_usage::MACHINES
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        label_with_cluster(new);
        replicas::prepare(new, old);
        if get(new, TEMPLATE).is_some_and(Value::is_object) {
            let timeout = format!("{TEMPLATE}.deletion.nodeDeletionTimeoutSeconds");
            default(new, &timeout, machine_template::NODE_DELETION_SECONDS);
        }
        prepare_version(new, TEMPLATE);
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate_bootstrap(new, TEMPLATE, &mut errors);
        validate_cluster(new, old, &mut errors);
        machine_template::validate(new, TEMPLATE, &mut errors);
        replicas::validate(new, &mut errors);
        if items(new, "spec.template.spec.taints").next().is_some() {
            let detail = "taints feature for MachinePools is not yet implemented";
            errors.push(FieldError::forbidden(FieldPath::new("spec.taints"), detail));
        }
        template_metadata::metadata(
            get(new, "spec.template.metadata"),
            &FieldPath::new("spec.template.metadata"),
            &mut errors,
        );
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pool_gets_defaults_and_invalid_ones_are_refused() {
        let mut old = json!({"metadata": {"name": "mp-0"}, "spec": {"clusterName": "c",
            "template": {"spec": {"clusterName": "c", "version": "1.33.1", "bootstrap": {"dataSecretName": "s"}}}}});
        MachinePoolStrategy.prepare(&mut old, None);
        assert_eq!(old["spec"]["template"]["spec"]["deletion"], json!({"nodeDeletionTimeoutSeconds": 10}));
        assert_eq!(
            (&old["spec"]["replicas"], &old["spec"]["template"]["spec"]["version"]),
            (&json!(1), &json!("v1.33.1"))
        );
        assert_eq!(MachinePoolStrategy.validate(&old, None), []);
        let mut new = old.clone();
        new["spec"]["clusterName"] = json!("d");
        new["spec"]["template"]["spec"]["taints"] = json!([{"key": "a"}]);
        let errors: Vec<String> = MachinePoolStrategy
            .validate(&new, Some(&old))
            .iter()
            .map(|error| error.field.to_string())
            .collect();
        assert_eq!(errors, ["spec.clusterName", "spec.clusterName", "spec.taints"]);
    }
}
