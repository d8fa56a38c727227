//! Cluster: strategy and validation.

mod class;
mod class_validation;
mod health;
mod named_by_topology;
mod topology;
mod upgrade;
mod upgrade_stop;
pub(crate) mod upgrade_verb;
mod why;

pub(crate) use class::{ClassKey, GROUP};
pub(crate) use health::is_defined as is_check_defined;
pub(crate) use topology::validate_autoscaled;
pub use why::{Advice, Advise, with_advice};

use std::net::IpAddr;
use std::sync::Arc;

use apiserver_machinery::action::ActionHandler;
use apiserver_machinery::admission::{GrantingWrite, UsedObject};
use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::Cluster;
use async_trait::async_trait;
use controllers_topology::variables::{self, Definitions};
use serde_json::{Value, json};

use crate::rules::json_fields::text;
use crate::rules::machine_template::prepare_version;
use crate::rules::{names, plan_verb, protection, quota_shortage, rollout, rollout_settings};

/// Returns the verbs of a Cluster. To add one, add its line.
pub(crate) fn verbs() -> Vec<Arc<dyn ActionHandler>> {
    vec![plan_verb::verb::<Cluster>(), upgrade_verb::verb(), why::verb()]
}

/// Strategy of Cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterStrategy;

#[async_trait]
impl Strategy for ClusterStrategy {
    fn uses_through_others(&self) -> bool {
        true
    }

    async fn used_through_others(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Vec<UsedObject>> {
        named_by_topology::newly_used(new, old, others).await
    }

    async fn check_grants(&self, write: GrantingWrite<'_>) -> ApiResult<()> {
        upgrade_verb::check_annotations(write).await
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        prepare_version(new, "spec.topology");
    }

    fn defaults_with_related(&self) -> bool {
        true
    }

    async fn default_with(
        &self,
        new: &mut Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Vec<FieldError>> {
        // Defaulting skips a Cluster that is being deleted, so that it is validated unchanged.
        let Some(key) = ClassKey::of(new).filter(|_| !object::is_deleting(new)) else {
            return Ok(Vec::new());
        };
        let class = key.find(others).await?;
        let definitions = class.as_ref().map_or(Definitions::Unknown, Definitions::of);
        if matches!(definitions, Definitions::Unknown) {
            return Ok(Vec::new());
        }
        Ok(variables::default_and_validate(new, old, &definitions))
    }

    fn locks_decisions(&self) -> bool {
        true
    }

    fn decision_lock(&self, new: &Value, _old: Option<&Value>) -> Option<String> {
        // Each write takes the defaults of variables from the class. A deletion does not depend on the class.
        ClassKey::of(new).filter(|_| !object::is_deleting(new))?.lock()
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let mut verdict = class_validation::validate(new, old, others).await?;
        let cluster = Some(object::name(new));
        verdict.warnings.extend(quota_shortage::warning(new, old, cluster, others).await?);
        Ok(verdict)
    }

    async fn refuse_deletion_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        protection::refusal(object, protection::WITH_A_CLUSTER, others).await
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = validate_name(new);
        for part in ["pods", "services"] {
            validate_ranges(new, part, &mut errors);
        }
        validate_removals(new, old, &mut errors);
        topology::validate(new, &mut errors);
        rollout::refuse_new(new, old, topology::negative_counts, &mut errors);
        upgrade_verb::validate(new, old, &mut errors);
        rollout_settings::validate(new, old, rollout_settings::OF_CLUSTERS, &mut errors);
        errors
    }
}

/// Validates that the name is a valid label value, because all objects of the cluster carry it in a label.
fn validate_name(new: &Value) -> Vec<FieldError> {
    let name = text(new, "metadata.name").unwrap_or_default();
    let path = FieldPath::new("metadata.name");
    let error = |error: String| {
        FieldError::invalid(path.clone(), &json!(name), &format!("must be a valid label value {error}"))
    };
    names::label_value(name).into_iter().map(error).collect()
}

fn validate_ranges(new: &Value, part: &str, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new(format!("spec.clusterNetwork.{part}.cidrBlocks"));
    let blocks = new.pointer(&format!("/spec/clusterNetwork/{part}/cidrBlocks")).and_then(Value::as_array);
    for (index, block) in blocks.into_iter().flatten().enumerate() {
        if !block.as_str().is_some_and(is_cidr) {
            let text = block.as_str().unwrap_or_default();
            let detail = format!("invalid CIDR address: {text}");
            errors.push(FieldError::invalid(path.index(index), block, &detail));
        }
    }
}

/// Validates that references are replaced but not removed. No controller would clean up the infrastructure of a removed
/// reference.
fn validate_removals(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let rules = [
        ("infrastructureRef", "cannot be removed"),
        ("controlPlaneRef", "cannot be removed"),
        ("topology", "cannot be removed from an existing Cluster"),
    ];
    for (field, detail) in rules {
        let has = |object: &Value| object.pointer(&format!("/spec/{field}")).is_some_and(Value::is_object);
        if old.is_some_and(has) && !has(new) {
            errors.push(FieldError::forbidden(FieldPath::new("spec").child(field), detail));
        }
    }
}

/// Reports whether a text is a CIDR: an address with a prefix length within the limit of its family.
pub(crate) fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    // `u8::from_str` also accepts `+8`.
    let Some(length) = length.parse::<u8>().ok().filter(|_| !length.starts_with('+')) else { return false };
    match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => length <= 32,
        Ok(IpAddr::V6(_)) => length <= 128,
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::quota_shortage::tests::World;

    #[tokio::test]
    async fn r15_4_a_topology_that_cannot_grow_is_warned_of() {
        let of = |replicas: i32| {
            json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"topology": {
                "classRef": {"name": "k"}, "version": "v1.34.1", "controlPlane": {"replicas": replicas}}}})
        };
        let world = World("QuotaExceeded");
        let verdict = ClusterStrategy.validate_with(&of(3), Some(&of(1)), &world).await.unwrap();
        let prefix = "spec.topology.controlPlane.replicas: more Machines have to wait for quota";
        assert!(verdict.warnings.iter().any(|text| text.starts_with(prefix)), "{:?}", verdict.warnings);
        let verdict = ClusterStrategy.validate_with(&of(1), Some(&of(3)), &world).await.unwrap();
        assert!(verdict.warnings.iter().all(|text| !text.contains("quota")), "{:?}", verdict.warnings);
    }

    #[test]
    fn a_name_must_be_a_valid_label_value() {
        let found = |name: &str| ClusterStrategy.validate(&json!({"metadata": {"name": name}}), None);
        assert_eq!(found("a.b"), []);
        let long = "a".repeat(64);
        let expected = format!(
            "metadata.name: Invalid value: \"{long}\": must be a valid label value must be no more than 63 bytes"
        );
        assert_eq!(found(&long).iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn ranges_must_be_cidrs() {
        for (text, expected) in [
            ("10.0.0.0/16", true),
            ("fd00::/64", true),
            ("10.0.0.0", false),
            ("10.0.0.0/33", false),
            ("10.0.0.0/+8", false),
            ("010.0.0.0/8", false),
            ("x/8", false),
        ] {
            assert_eq!(is_cidr(text), expected, "{text}");
        }
        let cluster = json!({"spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["10.0.0.0/16", "nope"]}}}});
        let errors = ClusterStrategy.validate(&cluster, None);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].field.as_str(), "spec.clusterNetwork.pods.cidrBlocks[1]");
    }

    #[test]
    fn references_may_be_replaced_but_not_removed() {
        let with = |name: &str| json!({"spec": {"infrastructureRef": {"name": name}, "controlPlaneRef": {"name": "c"}}});
        assert_eq!(ClusterStrategy.validate(&with("b"), Some(&with("a"))), []);
        assert_eq!(ClusterStrategy.validate(&with("a"), Some(&json!({"spec": {}}))), []);
        let found: Vec<String> = ClusterStrategy
            .validate(&json!({"spec": {"paused": true}}), Some(&with("a")))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            found,
            [
                "spec.infrastructureRef: Forbidden: cannot be removed",
                "spec.controlPlaneRef: Forbidden: cannot be removed"
            ]
        );
    }
}
