//! Values of an older version that the stored version cannot represent.
//!
//! Without an error, such a value would be lost silently.

use serde_json::{Value, json};

use crate::{durations, references};

/// Value without a counterpart in the stored version.
#[derive(Debug, Clone, PartialEq)]
pub struct Unconvertible {
    /// Path of the field, for example `spec.unhealthyConditions[0].timeout`.
    pub field: String,
    /// Value in the older version.
    pub value: Value,
    /// Problem, for the user.
    pub problem: String,
}

/// Returns every unconvertible value of an object in v1beta1.
pub(crate) fn unconvertible(kind: &str, object: &Value) -> Vec<Unconvertible> {
    let mut found = Vec::new();
    for path in durations::paths(kind) {
        collect(object, &path, "", durations::error, &mut found);
    }
    for path in references::paths(kind) {
        collect(object, path, "", references::error, &mut found);
    }
    if WIDE.contains(&kind)
        && let Some(spec) = object.get("spec")
    {
        wide_integers(spec, "spec".to_owned(), &mut found);
    }
    found
}

/// Kinds whose integers have 64 bits in v1beta1 and 32 bits in v1beta2.
const WIDE: [&str; 4] =
    ["OpenStackCluster", "OpenStackClusterTemplate", "OpenStackMachine", "OpenStackMachineTemplate"];

/// Adds the integers below `value` that need more than 32 bits. `path` is the path of `value`.
fn wide_integers(value: &Value, path: String, found: &mut Vec<Unconvertible>) {
    match value {
        Value::Number(number) if number.as_i64().is_none_or(|number| i32::try_from(number).is_err()) => {
            let problem = "must be an integer of 32 bits".to_owned();
            found.push(Unconvertible { field: path, value: value.clone(), problem });
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                wide_integers(item, format!("{path}[{index}]"), found);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                wide_integers(field, format!("{path}.{name}"), found);
            }
        }
        _ => {}
    }
}

/// Adds the errors of the texts at `path`. `[]` behind a name means each item of a list. `taken` is the path of `at`.
fn collect(
    at: &Value,
    path: &str,
    taken: &str,
    error: fn(&str) -> Option<String>,
    found: &mut Vec<Unconvertible>,
) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let (field, is_list) = name.strip_suffix("[]").map_or((name, false), |field| (field, true));
    let Some(value) = at.get(field) else { return };
    let taken = if taken.is_empty() { field.to_owned() } else { format!("{taken}.{field}") };
    match (rest, value) {
        (Some(rest), Value::Array(items)) if is_list => {
            for (index, item) in items.iter().enumerate() {
                collect(item, rest, &format!("{taken}[{index}]"), error, found);
            }
        }
        (Some(rest), _) if !is_list => collect(value, rest, &taken, error, found),
        (None, Value::String(text)) => {
            if let Some(problem) = error(text) {
                found.push(Unconvertible { field: taken, value: json!(text), problem });
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(kind: &str, object: &Value) -> Vec<String> {
        unconvertible(kind, object).into_iter().map(|one| one.field).collect()
    }

    #[test]
    fn durations_are_found_in_lists() {
        let check = json!({"spec": {"nodeStartupTimeout": "10m", "unhealthyConditions": [
            {"timeout": "5m"}, {"timeout": "soon"}]}});
        assert_eq!(fields("MachineHealthCheck", &check), ["spec.unhealthyConditions[1].timeout"]);
        assert_eq!(fields("OpenStackCluster", &check), Vec::<String>::new());
    }

    #[test]
    fn integers_that_the_stored_version_cannot_hold_are_found() {
        let cluster = json!({"spec": {"networkMTU": 2_147_483_648_i64, "apiServerPort": 6443,
            "subnets": [{"filter": {"ipVersion": 4}}, {"filter": {"ipVersion": -3_000_000_000_i64}}]}});
        let expected = ["spec.networkMTU", "spec.subnets[1].filter.ipVersion"];
        assert_eq!(fields("OpenStackCluster", &cluster), expected);
        assert_eq!(fields("MachineSet", &cluster), Vec::<String>::new());
    }

    #[test]
    fn references_are_found_wherever_a_kind_has_them() {
        let reference = json!({"apiVersion": "a/b/c", "kind": "K", "name": "n"});
        let spec = json!({"bootstrap": {"configRef": reference}, "infrastructureRef": reference});
        for (kind, object, expected) in [
            ("Machine", json!({"spec": spec}), "spec.bootstrap.configRef.apiVersion"),
            (
                "MachineSet",
                json!({"spec": {"template": {"spec": spec}}}),
                "spec.template.spec.bootstrap.configRef.apiVersion",
            ),
            ("Cluster", json!({"spec": {"controlPlaneRef": reference}}), "spec.controlPlaneRef.apiVersion"),
            (
                "KubeadmControlPlane",
                json!({"spec": {"machineTemplate": {"infrastructureRef": reference}}}),
                "spec.machineTemplate.infrastructureRef.apiVersion",
            ),
        ] {
            let found = unconvertible(kind, &object);
            assert_eq!(found.first().map(|one| one.field.as_str()), Some(expected), "{kind}");
            assert!(found.iter().all(|one| one.problem == "unexpected GroupVersion string: a/b/c"), "{kind}");
        }
    }
}
