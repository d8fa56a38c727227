//! Validation of settings in annotations: of remediations, maintenance windows, rollouts, deletions, Nodes and upgrades.

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::UPGRADE;
use apiserver_types::maintenance_window::MAINTENANCE_WINDOW;
use apiserver_types::node_labels::NODE_LABELS;
use apiserver_types::rollout_settings::{
    NODE_DRAIN_TIMEOUT, NODE_VOLUME_DETACH_TIMEOUT, ON_DEADLINE, PROGRESS_DEADLINE,
    REMEDIATION_MAX_IN_FLIGHT, REMEDIATION_MAX_RETRY, REMEDIATION_MIN_HEALTHY_PERIOD,
    REMEDIATION_RETRY_PERIOD, REVISION_HISTORY_LIMIT, ROLLOUT_POLICY, setting_problem,
};
use serde_json::{Value, json};

use crate::rules::json_fields::annotation;

/// Settings of a Cluster.
pub(crate) const OF_CLUSTERS: &[&str] = &[
    REMEDIATION_MAX_IN_FLIGHT,
    MAINTENANCE_WINDOW,
    NODE_DRAIN_TIMEOUT,
    NODE_VOLUME_DETACH_TIMEOUT,
    NODE_LABELS,
    UPGRADE,
];

/// Settings of a KubeadmControlPlane.
pub(crate) const OF_CONTROL_PLANES: &[&str] = &[MAINTENANCE_WINDOW, ROLLOUT_POLICY];

/// Settings of a MachineSet.
pub(crate) const OF_SETS: &[&str] = &[
    REMEDIATION_MAX_IN_FLIGHT,
    REMEDIATION_MAX_RETRY,
    REMEDIATION_RETRY_PERIOD,
    REMEDIATION_MIN_HEALTHY_PERIOD,
];

/// Settings of a MachineDeployment.
pub(crate) const OF_DEPLOYMENTS: &[&str] = &[
    REMEDIATION_MAX_RETRY,
    REMEDIATION_RETRY_PERIOD,
    REMEDIATION_MIN_HEALTHY_PERIOD,
    PROGRESS_DEADLINE,
    ON_DEADLINE,
    MAINTENANCE_WINDOW,
    ROLLOUT_POLICY,
    REVISION_HISTORY_LIMIT,
];

/// Adds an error for each setting that has an unusable value. A value that is stored already is no error, so that an
/// object of an earlier version can still be changed.
pub(crate) fn validate(new: &Value, old: Option<&Value>, keys: &[&str], errors: &mut Vec<FieldError>) {
    for key in keys {
        let Some(value) = changed(new, old, key) else { continue };
        if let Some(problem) = setting_problem(key, value) {
            errors.push(FieldError::invalid(path(key), &json!(value), &problem));
        }
    }
}

/// Adds an error if a MachineDeployment has the annotation for which it has a field.
pub(crate) fn validate_field(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if changed(new, old, REMEDIATION_MAX_IN_FLIGHT).is_some() {
        let detail = "set spec.remediation.maxInFlight of the MachineDeployment instead";
        errors.push(FieldError::forbidden(path(REMEDIATION_MAX_IN_FLIGHT), detail));
    }
}

/// Returns the value of an annotation, unless the stored object has it, too.
fn changed<'a>(new: &'a Value, old: Option<&Value>, key: &str) -> Option<&'a str> {
    let before = old.and_then(|old| annotation(old, key));
    annotation(new, key).filter(|value| before != Some(value))
}

fn path(key: &str) -> FieldPath {
    FieldPath::new("metadata.annotations").key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, value: &str) -> Value {
        json!({"metadata": {"annotations": {key: value}}})
    }

    #[test]
    fn an_unusable_value_is_named_with_its_path_and_a_stored_one_is_let_through() {
        let found = |new: &Value, old: Option<&Value>| {
            let mut errors = Vec::new();
            validate(new, old, OF_DEPLOYMENTS, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let bad = object(PROGRESS_DEADLINE, "soon");
        let expected = "metadata.annotations[capstan.dev/progress-deadline]: Invalid value: \"soon\": must be a duration \
            of at least 1m, such as \"30m\"";
        assert_eq!(found(&bad, None), [expected]);
        assert_eq!(found(&bad, Some(&object(PROGRESS_DEADLINE, "1h"))), [expected]);
        assert_eq!(found(&bad, Some(&bad)), [""; 0]);
        assert_eq!(found(&object(PROGRESS_DEADLINE, "1h"), None), [""; 0]);
        assert_eq!(found(&object(ON_DEADLINE, "stop"), None).len(), 1);
        let window = object(MAINTENANCE_WINDOW, "0 25 * * 6 4h UTC");
        let errors = found(&window, None);
        assert!(errors[0].ends_with("hour \"25\" is not within 0 to 23"), "{errors:?}");
        assert_eq!(found(&object(ROLLOUT_POLICY, "InPlace"), None).len(), 1);
        assert_eq!(found(&object(REVISION_HISTORY_LIMIT, "x"), None).len(), 1);
    }

    #[test]
    fn a_cluster_has_the_settings_of_deletions_and_nodes() {
        for (key, bad) in
            [(NODE_DRAIN_TIMEOUT, "600"), (NODE_VOLUME_DETACH_TIMEOUT, "never"), (NODE_LABELS, "a b")]
        {
            let mut errors = Vec::new();
            validate(&object(key, bad), None, OF_CLUSTERS, &mut errors);
            assert_eq!(errors.len(), 1, "{key}: {errors:?}");
        }
    }

    #[test]
    fn a_deployment_has_a_field_for_the_remediations_in_flight() {
        let new = object(REMEDIATION_MAX_IN_FLIGHT, "1");
        let mut errors = Vec::new();
        validate_field(&new, Some(&new), &mut errors);
        assert_eq!(errors, []);
        validate_field(&new, None, &mut errors);
        assert!(errors[0].to_string().contains("set spec.remediation.maxInFlight"), "{errors:?}");
    }
}
