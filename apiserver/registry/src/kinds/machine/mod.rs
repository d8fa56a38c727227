//! Machine: its strategy, and its actions.

mod action;
mod last_control_plane;
mod operation;
mod upgrade;

use std::sync::Arc;

use apiserver_machinery::action::ActionHandler;
use apiserver_machinery::admission::{GrantingWrite, UsedObject};
use apiserver_machinery::object;
use apiserver_machinery::quota::{Amounts, QuotaOwner};
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::{Described, Machine};
use async_trait::async_trait;
use serde_json::Value;

use crate::rules::json_fields::{default, get, items};
use crate::rules::machine_template::{
    self, NODE_DELETION_SECONDS, label_with_cluster, prepare_version, validate_bootstrap, validate_cluster,
    validate_taints,
};
use crate::rules::{in_place_marks, protection, quota_usage, used_secrets};

/// Label of the Machines of a control plane.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Returns the handlers of the actions on a Machine.
pub(crate) fn actions() -> Vec<Arc<dyn ActionHandler>> {
    action::handlers()
}

/// Strategy of Machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineStrategy;

#[async_trait]
impl Strategy for MachineStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &used_secrets::OF_MACHINE)
    }

    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        in_place_marks::check(write, &Machine::DESCRIPTOR, in_place_marks::OF_MACHINES)
    }

    fn quota_usage(&self, object: &Value) -> Amounts {
        quota_usage::machine(object)
    }

    fn quota_owners(&self) -> &'static [QuotaOwner] {
        &quota_usage::OF_MACHINES
    }

    fn quota_prefixes(&self) -> &'static [&'static str] {
        &quota_usage::MACHINES
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        label_with_cluster(new);
        if get(new, "spec").is_some_and(Value::is_object) {
            default(new, "spec.deletion.nodeDeletionTimeoutSeconds", NODE_DELETION_SECONDS);
        }
        prepare_version(new, "spec");
    }

    async fn refuse_deletion_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        protection::refusal(object, &[], others).await
    }

    async fn refuse_deletion_by_person(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        last_control_plane::refusal(object, others).await
    }

    async fn deletion_warnings_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Vec<String>> {
        Ok(last_control_plane::warning(object, others).await?.into_iter().collect())
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        // A pool holds the bootstrap data of its Machines.
        if !is_of_a_pool(new) {
            validate_bootstrap(new, "spec", &mut errors);
        }
        validate_cluster(new, old, &mut errors);
        machine_template::validate(new, "spec", &mut errors);
        let is_worker =
            object::at(new, "metadata.labels").is_none_or(|labels| labels.get(CONTROL_PLANE_LABEL).is_none());
        let spec = get(new, "spec").unwrap_or(&Value::Null);
        validate_taints(spec, &FieldPath::new("spec"), is_worker, &mut errors);
        errors
    }
}

fn is_of_a_pool(machine: &Value) -> bool {
    items(machine, "metadata.ownerReferences").any(|(_, owner)| {
        let version = owner.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        owner.get("kind").and_then(Value::as_str) == Some("MachinePool")
            && version.starts_with("cluster.x-k8s.io/")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_machines_are_refused() {
        let good =
            json!({"spec": {"clusterName": "c", "version": "v1.30.2", "bootstrap": {"dataSecretName": "s"}}});
        let table = [
            (good.clone(), None, vec![]),
            (
                json!({"spec": {"clusterName": "c", "bootstrap": {}}}),
                None,
                vec![
                    "spec.bootstrap: Required value: expected either spec.bootstrap.dataSecretName or spec.bootstrap.configRef to be populated",
                ],
            ),
            (
                json!({"spec": {"clusterName": "c", "version": "1.30", "bootstrap": {"configRef": {}}}}),
                None,
                vec!["spec.version: Invalid value: \"1.30\": must be a valid semantic version"],
            ),
            (
                json!({"spec": {"clusterName": "d", "bootstrap": {"dataSecretName": "s"}}}),
                Some(good),
                vec!["spec.clusterName: Forbidden: field is immutable"],
            ),
        ];
        for (new, old, expected) in table {
            let found: Vec<String> =
                MachineStrategy.validate(&new, old.as_ref()).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{new}");
        }
    }
}
