//! MachineHealthCheck: strategy and validation.

use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::rules::json_fields::{default, get};
use crate::rules::label_selection::LabelSelection;
use crate::rules::machine_template::{CLUSTER_LABEL, label_with_cluster, validate_cluster};
use crate::rules::rollout::{MOST_UNHEALTHY, negative, refuse_new, validate_count};

/// Default time for a Node to appear. Unit: seconds.
const STARTUP_SECONDS: i64 = 600;

/// Shortest time for a Node to appear. 0 disables the limit. Unit: seconds.
const SHORTEST_STARTUP_SECONDS: i64 = 30;

/// Strategy of MachineHealthCheck.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineHealthCheckStrategy;

#[async_trait]
impl Strategy for MachineHealthCheckStrategy {
    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        label_with_cluster(new);
        // Older versions do not require a spec. They then get this one.
        default(new, "spec.checks.nodeStartupTimeoutSeconds", STARTUP_SECONDS);
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        validate_selector(new, &mut errors);
        validate_cluster(new, old, &mut errors);
        validate_check(get(new, "spec").unwrap_or(&Value::Null), &FieldPath::new("spec"), &mut errors);
        refuse_new(new, old, negative_counts, &mut errors);
        errors
    }

    async fn validate_with(
        &self,
        new: &Value,
        _old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let checks = others.all("cluster.x-k8s.io", "machinehealthchecks", object::namespace(new)).await?;
        let overlapping =
            checks.iter().filter(|it| object::name(it) != object::name(new) && overlaps(it, new));
        let names: Vec<&str> = overlapping.map(object::name).collect();
        let mut warnings = Vec::new();
        if !names.is_empty() {
            let names = names.join(", ");
            warnings.push(format!(
                "spec.selector: a Machine may match the selector of MachineHealthCheck {names}, too. Each then overwrites \
                 what the other reports about the Machine. Use selectors that exclude each other"
            ));
        }
        Ok(Verdict { warnings, ..Verdict::default() })
    }
}

/// Returns true if two health checks of one Cluster may look at the same Machine.
fn overlaps(one: &Value, other: &Value) -> bool {
    let selection = |check: &Value| LabelSelection::read(get(check, "spec.selector")?).ok();
    get(one, "spec.clusterName") == get(other, "spec.clusterName")
        && selection(one).zip(selection(other)).is_some_and(|(one, other)| !one.excludes(&other))
}

fn validate_selector(new: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.selector");
    let Some(selector) = get(new, "spec.selector") else { return };
    match LabelSelection::read(selector) {
        Err(problem) => errors.push(FieldError::invalid(path.clone(), selector, &problem)),
        Ok(read) if read.is_empty() => {
            errors.push(FieldError::required(path.clone(), "selector must not be empty"))
        }
        Ok(_) => {}
    }
    let chosen = selector.get("matchLabels").and_then(|labels| labels.get(CLUSTER_LABEL));
    if chosen.is_some() && chosen != get(new, "spec.clusterName") {
        let detail = "cannot specify a cluster selector other than the one specified by ClusterName";
        errors.push(FieldError::invalid(path, selector, detail));
    }
}

/// Adds the errors of `checks` and `remediation`, in any kind that has them.
pub(crate) fn validate_check(check: &Value, at: &FieldPath, errors: &mut Vec<FieldError>) {
    let startup = get(check, "checks.nodeStartupTimeoutSeconds").and_then(Value::as_i64);
    if let Some(seconds) = startup.filter(|seconds| (1..SHORTEST_STARTUP_SECONDS).contains(seconds)) {
        let path = at.child("checks.nodeStartupTimeoutSeconds");
        errors.push(FieldError::invalid(path, &json!(seconds), "must be at least 30s"));
    }
    validate_count(get(check, MOST_UNHEALTHY), at.child(MOST_UNHEALTHY), errors);
}

fn negative_counts(check: &Value) -> Vec<FieldError> {
    let spec = get(check, "spec").unwrap_or(&Value::Null);
    negative(spec, &FieldPath::new("spec"), &[MOST_UNHEALTHY])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_checks_overlap_if_a_machine_can_match_both() {
        let check = |cluster: &str, labels: Value| json!({"spec": {"clusterName": cluster, "selector": {"matchLabels": labels}}});
        let first = check("c", json!({"a": "1"}));
        assert!(overlaps(&first, &check("c", json!({"b": "1"}))));
        assert!(!overlaps(&first, &check("c", json!({"a": "2"}))));
        assert!(!overlaps(&first, &check("d", json!({"a": "1"}))));
    }

    #[test]
    fn a_check_gets_defaults_and_invalid_ones_are_refused() {
        let mut old = json!({"spec": {"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}}});
        MachineHealthCheckStrategy.prepare(&mut old, None);
        assert_eq!(old["spec"]["checks"], json!({"nodeStartupTimeoutSeconds": 600}));
        assert_eq!(old["metadata"]["labels"][CLUSTER_LABEL], "c");
        assert_eq!(MachineHealthCheckStrategy.validate(&old, Some(&old)), []);
        for (pointer, value, expected) in [
            ("/spec/selector", json!({}), "spec.selector: Required value: selector must not be empty"),
            (
                "/spec/selector/matchLabels",
                json!({CLUSTER_LABEL: "d"}),
                "cannot specify a cluster selector other",
            ),
            ("/spec/clusterName", json!("d"), "field is immutable"),
            ("/spec/checks/nodeStartupTimeoutSeconds", json!(29), "must be at least 30s"),
            (
                "/spec/remediation",
                json!({"triggerIf": {"unhealthyLessThanOrEqualTo": "most"}}),
                "must be either an int",
            ),
            (
                "/spec/remediation",
                json!({"triggerIf": {"unhealthyLessThanOrEqualTo": -1}}),
                "unhealthyLessThanOrEqualTo: Invalid value: -1: must be",
            ),
        ] {
            let mut new = old.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            new.pointer_mut(parent).unwrap()[name] = value;
            let errors: Vec<String> = MachineHealthCheckStrategy
                .validate(&new, Some(&old))
                .iter()
                .map(ToString::to_string)
                .collect();
            assert!(errors.iter().any(|error| error.contains(expected)), "{pointer}: {errors:?}");
        }
        let mut off = old;
        off["spec"]["checks"]["nodeStartupTimeoutSeconds"] = json!(0);
        assert_eq!(MachineHealthCheckStrategy.validate(&off, None), []);
    }
}
