//! MachineSet: strategy and validation.

use apiserver_machinery::admission::{GrantingWrite, UsedObject};
use apiserver_machinery::quota::{Amounts, QuotaOwner};
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::FieldError;
use apiserver_types::{Described, MachineSet};
use async_trait::async_trait;
use serde_json::Value;

use crate::rules::json_fields::{items, text};
use crate::rules::machine_template::{label_with_cluster, prepare_version};
use crate::rules::{
    in_place_marks, machine_owner, protection, quota_shortage, quota_usage, replicas, rollout_settings,
    used_secrets,
};

/// Label that identifies the Machines of a set without a selector.
const SET_LABEL: &str = "cluster.x-k8s.io/set-name";

/// Strategy of MachineSet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineSetStrategy;

#[async_trait]
impl Strategy for MachineSetStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &used_secrets::OF_MACHINES)
    }

    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        in_place_marks::check(write, &MachineSet::DESCRIPTOR, in_place_marks::OF_SETS)
    }

    fn quota_usage(&self, object: &Value) -> Amounts {
        quota_usage::replicas(object, false)
    }

    fn quota_owners(&self) -> &'static [QuotaOwner] {
        &quota_usage::OF_SETS
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
        machine_owner::prepare_selector(new, SET_LABEL);
        prepare_version(new, machine_owner::TEMPLATE);
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        // The controller of a MachineDeployment reads no warnings.
        let cluster = text(new, "spec.clusterName").filter(|_| !has_controller(new));
        let warning = quota_shortage::warning(new, old, cluster, others).await?;
        Ok(Verdict { warnings: warning.into_iter().collect(), ..Verdict::default() })
    }

    async fn refuse_deletion_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        protection::refusal(object, protection::WITH_A_SET, others).await
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        machine_owner::validate(new, old, FieldError::invalid, &mut errors);
        rollout_settings::validate(new, old, rollout_settings::OF_SETS, &mut errors);
        errors
    }
}

/// Reports whether another object controls the set.
fn has_controller(set: &Value) -> bool {
    items(set, "metadata.ownerReferences")
        .any(|(_, owner)| owner.get("controller") == Some(&Value::Bool(true)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rules::quota_shortage::tests::World;

    fn set() -> Value {
        json!({"metadata": {"name": "md-0-abc"}, "spec": {"clusterName": "c", "selector": {},
            "template": {"spec": {"clusterName": "c", "version": "1.33.1", "bootstrap": {"dataSecretName": "s"}}}}})
    }

    #[test]
    fn a_set_gets_replicas_a_selector_and_a_cluster_label() {
        let mut set = set();
        MachineSetStrategy.prepare(&mut set, None);
        let own = json!({"cluster.x-k8s.io/set-name": "md-0-abc"});
        assert_eq!(set["metadata"]["labels"], json!({"cluster.x-k8s.io/cluster-name": "c"}));
        assert_eq!(set["spec"]["replicas"], 1);
        assert_eq!(
            (&set["spec"]["selector"]["matchLabels"], &set["spec"]["template"]["metadata"]["labels"]),
            (&own, &own)
        );
        assert_eq!(set["spec"]["template"]["spec"]["version"], "v1.33.1");
        assert_eq!(MachineSetStrategy.validate(&set, None), []);
        assert_eq!(MachineSetStrategy.validate(&set, Some(&set)), []);
        set["spec"]["machineNaming"] = json!({"template": "{{ .machineSet.name }}-{{ .index }}"});
        assert_eq!(MachineSetStrategy.validate(&set, None), [], "an index makes names unique, too");
    }

    #[tokio::test]
    async fn r15_4_a_set_of_its_own_that_cannot_grow_is_warned_of() {
        let (mut old, mut new) = (set(), set());
        old["spec"]["replicas"] = json!(1);
        new["spec"]["replicas"] = json!(2);
        let verdict = MachineSetStrategy.validate_with(&new, Some(&old), &World("QuotaExceeded")).await;
        let warned = verdict.unwrap().warnings;
        assert!(matches!(&warned[..], [text] if text.starts_with("spec.replicas: ")), "{warned:?}");
        new["metadata"]["ownerReferences"] = json!([{"kind": "MachineDeployment", "controller": true}]);
        let verdict = MachineSetStrategy.validate_with(&new, Some(&old), &World("QuotaExceeded")).await;
        assert_eq!(verdict.unwrap().warnings, [""; 0], "a MachineDeployment scales it");
    }

    #[test]
    fn invalid_sets_are_refused() {
        let mut old = set();
        MachineSetStrategy.prepare(&mut old, None);
        for (pointer, value, expected) in [
            ("/spec/clusterName", json!("d"), "spec.clusterName: Forbidden: field is immutable"),
            ("/spec/template/spec/clusterName", json!("d"), "must be set to the same value"),
            (
                "/spec/template/spec/bootstrap",
                json!({}),
                "spec.template.spec.bootstrap: Required value: expected either",
            ),
            ("/spec/template/spec/version", json!("v1"), "spec.template.spec.version: Invalid value: \"v1\""),
            ("/spec/selector", json!({"matchLabels": {"a": "b"}}), "must match spec.selector \"a=b\""),
            (
                "/spec/selector",
                json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}),
                "\"Is\" is not a valid label selector operator",
            ),
            (
                "/spec/template/metadata/labels",
                json!({"cluster.x-k8s.io/set-name": "md-0-abc", "a": "b c"}),
                "spec.template.metadata.labels: Invalid value: \"b c\"",
            ),
            ("/spec/machineNaming", json!({"template": "{{ .cluster.name }}"}), "{{ .random }} is missing"),
            (
                "/metadata/annotations",
                json!({"machineset.cluster.x-k8s.io/skip-preflight-checks": "All, None"}),
                "must be among: [All",
            ),
            (
                "/metadata/annotations",
                json!({"capstan.dev/remediation-max-in-flight": "few"}),
                "metadata.annotations[capstan.dev/remediation-max-in-flight]: Invalid value: \"few\"",
            ),
            (
                "/spec/template/spec/taints",
                json!([{"key": "node-role.kubernetes.io/control-plane"}]),
                "not allowed for worker",
            ),
        ] {
            let mut new = old.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            new.pointer_mut(parent).unwrap()[name] = value;
            let errors: Vec<String> =
                MachineSetStrategy.validate(&new, Some(&old)).iter().map(ToString::to_string).collect();
            assert!(errors.iter().any(|error| error.contains(expected)), "{pointer}: {errors:?}");
        }
    }
}
