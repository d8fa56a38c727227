//! MachineDeployment: strategy, validation and verbs.

mod actions;
mod revisions;
mod rollback;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::quota::Amounts;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::{Value, json};

pub(crate) use actions::verbs;

use crate::rules::json_fields::{default, get, text};
use crate::rules::machine_template::{CLUSTER_LABEL, label_with_cluster, prepare_version};
use crate::rules::quota_usage;
use crate::rules::{
    failure_domain_spread, machine_owner, names, protection, quota_shortage, replicas, rollout,
    rollout_settings, topology_replicas, used_secrets,
};

/// Label that identifies the Machines of a deployment without a selector.
const DEPLOYMENT_LABEL: &str = "cluster.x-k8s.io/deployment-name";

/// Strategy of MachineDeployment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineDeploymentStrategy;

#[async_trait]
impl Strategy for MachineDeploymentStrategy {
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
        prepare_rollout(new);
        machine_owner::prepare_selector(new, DEPLOYMENT_LABEL);
        if let Some(cluster) = get(new, "spec.clusterName").filter(|cluster| cluster.is_string()).cloned() {
            machine_owner::label_both(new, CLUSTER_LABEL, &cluster);
        }
        prepare_version(new, machine_owner::TEMPLATE);
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let warning = quota_shortage::warning(new, old, text(new, "spec.clusterName"), others).await?;
        let mut warnings: Vec<String> = warning.into_iter().collect();
        warnings.extend(topology_replicas::warning(new, old, others).await?);
        Ok(Verdict { warnings, ..Verdict::default() })
    }

    async fn refuse_deletion_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        protection::refusal(object, protection::WITH_A_DEPLOYMENT, others).await
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let name = text(new, "metadata.name").unwrap_or_default();
        errors.extend(names::label_value(name).iter().map(|error| {
            let detail = format!("must be a valid label value: {error}");
            FieldError::invalid(FieldPath::new("metadata.name"), &json!(name), &detail)
        }));
        let mismatch = |path, _: &Value, detail: &str| FieldError::forbidden(path, detail);
        machine_owner::validate(new, old, mismatch, &mut errors);
        let bounds = "spec.rollout.strategy.rollingUpdate";
        rollout::validate_bounds(get(new, bounds), &FieldPath::new(bounds), &mut errors);
        let at_once = "spec.remediation.maxInFlight";
        rollout::validate_count(get(new, at_once), FieldPath::new(at_once), &mut errors);
        rollout::refuse_new(new, old, negative_counts, &mut errors);
        rollout_settings::validate(new, old, rollout_settings::OF_DEPLOYMENTS, &mut errors);
        rollout_settings::validate_field(new, old, &mut errors);
        failure_domain_spread::validate(new, old, &mut errors);
        errors
    }
}

fn negative_counts(deployment: &Value) -> Vec<FieldError> {
    let [unavailable, surge] = rollout::BOUNDS;
    let spec = get(deployment, "spec").unwrap_or(&Value::Null);
    rollout::negative(spec, &FieldPath::new("spec"), &[unavailable, surge, rollout::IN_FLIGHT])
}

/// Sets the default rollout, which replaces one Machine at a time.
fn prepare_rollout(new: &mut Value) {
    if !get(new, "spec").is_some_and(Value::is_object) {
        return;
    }
    default(new, "spec.rollout.strategy.type", "RollingUpdate");
    if text(new, "spec.rollout.strategy.type") == Some("RollingUpdate") {
        default(new, "spec.rollout.strategy.rollingUpdate.maxSurge", 1);
        default(new, "spec.rollout.strategy.rollingUpdate.maxUnavailable", 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment() -> Value {
        json!({"metadata": {"name": "md-0"}, "spec": {"clusterName": "c", "selector": {},
            "template": {"spec": {"clusterName": "c", "bootstrap": {"configRef": {}}}}}})
    }

    #[test]
    fn a_deployment_gets_a_default_rollout_and_selector() {
        let mut new = deployment();
        MachineDeploymentStrategy.prepare(&mut new, None);
        let rolling = json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
        let own = json!({"cluster.x-k8s.io/deployment-name": "md-0", "cluster.x-k8s.io/cluster-name": "c"});
        assert_eq!((&new["spec"]["rollout"], &new["spec"]["selector"]["matchLabels"]), (&rolling, &own));
        assert_eq!(new["spec"]["template"]["metadata"]["labels"], own);
        assert_eq!(MachineDeploymentStrategy.validate(&new, None), []);
        let mut on_delete = deployment();
        on_delete["spec"]["rollout"] = json!({"strategy": {"type": "OnDelete"}});
        MachineDeploymentStrategy.prepare(&mut on_delete, None);
        assert_eq!(on_delete["spec"]["rollout"], json!({"strategy": {"type": "OnDelete"}}));
    }

    #[test]
    fn invalid_deployments_are_refused() {
        let mut old = deployment();
        MachineDeploymentStrategy.prepare(&mut old, None);
        for (pointer, value, expected) in [
            ("/metadata/name", json!("a".repeat(64)), "metadata.name: Invalid value"),
            ("/spec/clusterName", json!("d"), "spec.clusterName: Forbidden: field is immutable"),
            (
                "/spec/template/metadata/labels",
                json!({}),
                "spec.template.metadata.labels: Forbidden: must match spec.selector",
            ),
            (
                "/spec/rollout/strategy/rollingUpdate/maxSurge",
                json!(0),
                "maxUnavailable and maxSurge cannot both be 0",
            ),
            (
                "/spec/rollout/strategy/rollingUpdate/maxSurge",
                json!("many"),
                "must be either an int or a percentage",
            ),
            ("/spec/remediation", json!({"maxInFlight": "few"}), "spec.remediation.maxInFlight"),
            (
                "/spec/remediation",
                json!({"maxInFlight": -1}),
                "spec.remediation.maxInFlight: Invalid value: -1: must be",
            ),
            (
                "/spec/rollout/strategy/rollingUpdate/maxUnavailable",
                json!("-10%"),
                "spec.rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: \"-10%\": must be",
            ),
            (
                "/metadata/annotations",
                json!({"capstan.dev/remediation-max-retry": "-1"}),
                "metadata.annotations[capstan.dev/remediation-max-retry]: Invalid value: \"-1\"",
            ),
            (
                "/metadata/annotations",
                json!({"capstan.dev/spread-failure-domains": "all,az1"}),
                "metadata.annotations[capstan.dev/spread-failure-domains]: Invalid value: \"all,az1\"",
            ),
        ] {
            let mut new = old.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            new.pointer_mut(parent).unwrap()[name] = value;
            let errors: Vec<String> = MachineDeploymentStrategy
                .validate(&new, Some(&old))
                .iter()
                .map(ToString::to_string)
                .collect();
            assert!(errors.iter().any(|error| error.contains(expected)), "{pointer}: {errors:?}");
        }
    }
}
