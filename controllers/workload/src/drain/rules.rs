//! Selection of MachineDrainRules.

use std::collections::BTreeMap;

use apiserver_types::{DrainedPods, MachineDrainRule};
use k8s_openapi::api::core::v1::Pod;

use super::selectors::matches;
use crate::WorkloadError;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// Returns the rules that select a Machine, by name. `rules` are all rules of the Machine's namespace.
///
/// # Errors
/// A selector cannot be evaluated.
pub fn matching_rules(
    rules: &[MachineDrainRule],
    machine: Option<&Labels>,
    cluster: Option<&Labels>,
) -> Result<Vec<MachineDrainRule>, WorkloadError> {
    let mut matching = Vec::new();
    for rule in rules {
        if selects_machine(rule, machine, cluster).map_err(|error| unusable(rule, &error))? {
            matching.push(rule.clone());
        }
    }
    matching.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    Ok(matching)
}

fn selects_machine(
    rule: &MachineDrainRule,
    machine: Option<&Labels>,
    cluster: Option<&Labels>,
) -> Result<bool, String> {
    let entries = rule.spec.machines.as_deref().unwrap_or_default();
    for entry in entries {
        let by_machine = matches(entry.selector.as_ref(), machine)?;
        if by_machine && matches(entry.cluster_selector.as_ref(), cluster)? {
            return Ok(true);
        }
    }
    Ok(entries.is_empty())
}

/// Says whether a rule selects a Pod. `namespace` are the labels of the Pod's namespace.
pub(super) fn selects_pod(
    rule: &MachineDrainRule,
    pod: &Pod,
    namespace: Option<&Labels>,
) -> Result<bool, WorkloadError> {
    let entries = rule.spec.pods.as_deref().unwrap_or_default();
    for entry in entries {
        if entry_selects(entry, pod, namespace).map_err(|error| unusable(rule, &error))? {
            return Ok(true);
        }
    }
    Ok(entries.is_empty())
}

fn entry_selects(entry: &DrainedPods, pod: &Pod, namespace: Option<&Labels>) -> Result<bool, String> {
    Ok(matches(entry.selector.as_ref(), pod.metadata.labels.as_ref())?
        && matches(entry.namespace_selector.as_ref(), namespace)?)
}

/// Says whether a decision needs the labels of namespaces.
pub(super) fn need_namespaces(rules: &[MachineDrainRule]) -> bool {
    let entries = rules.iter().flat_map(|rule| rule.spec.pods.iter().flatten());
    entries.into_iter().any(|entry| entry.namespace_selector.is_some())
}

fn unusable(rule: &MachineDrainRule, error: &str) -> WorkloadError {
    let name = rule.metadata.name.as_deref().unwrap_or_default();
    WorkloadError::Rule(format!("{name}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, machines: &str) -> MachineDrainRule {
        let json = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"drain":{{"behavior":"Drain"}},"machines":{machines}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn labels(key: &str, value: &str) -> Labels {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_rule_selects_machines_by_any_entry_with_both_selectors() {
        let both = r#"[{"selector":{"matchLabels":{"a":"1"}},"clusterSelector":{"matchLabels":{"b":"2"}}}]"#;
        let term = |operator: &str, values: &str| {
            format!(
                r#"[{{"selector":{{"matchExpressions":[{{"key":"a","operator":"{operator}"{values}}}]}}}}]"#
            )
        };
        let values = r#","values":["1","2"]"#;
        let cases = [
            ("[]".to_owned(), true),
            (r#"[{"selector":{}}]"#.to_owned(), true),
            (r#"[{"selector":{"matchLabels":{"a":"2"}}}]"#.to_owned(), false),
            (r#"[{"selector":{"matchLabels":{"a":"2"}}},{"clusterSelector":{}}]"#.to_owned(), true),
            (both.to_owned(), true),
            (both.replace("\"2\"", "\"3\""), false),
            (term("In", values), true),
            (term("NotIn", values), false),
            (term("Exists", ""), true),
            (term("DoesNotExist", ""), false),
        ];
        for (machines, expected) in cases {
            let rules = [rule("r", &machines)];
            let found = matching_rules(&rules, Some(&labels("a", "1")), Some(&labels("b", "2"))).unwrap();
            assert_eq!(!found.is_empty(), expected, "{machines}");
        }
        for broken in [term("In", ""), term("Gt", values)] {
            let error = matching_rules(&[rule("r", &broken)], None, None).unwrap_err().to_string();
            assert!(error.contains("r: the selector term for label \"a\""), "{error}");
        }
    }

    #[test]
    fn rules_are_sorted_by_name() {
        let rules = [rule("b", "[]"), rule("a", "[]")];
        let found = matching_rules(&rules, None, None).unwrap();
        let names: Vec<_> = found.iter().filter_map(|rule| rule.metadata.name.as_deref()).collect();
        assert_eq!(names, ["a", "b"]);
    }
}
