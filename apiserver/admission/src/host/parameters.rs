//! ConfigMaps of the host cluster that the bindings of its policies name as parameters.

use std::collections::BTreeSet;
use std::fmt;

use apiserver_machinery::object;
use apiserver_machinery::selectors::LabelSelector;
use serde_json::Value;

use crate::value::text;

/// Kinds of policies, each with the kind of its bindings.
const POLICIES: [(&str, &str); 2] = [
    ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
];

/// Reference of a binding to ConfigMaps of the host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostParameters {
    /// Namespace; empty for that of each request.
    pub namespace: String,
    /// Name; empty if labels select.
    pub name: String,
    /// Label selector, as a query has it; empty for all ConfigMaps.
    pub labels: String,
}

impl fmt::Display for HostParameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = if self.namespace.is_empty() { "*" } else { &self.namespace };
        match (self.name.as_str(), self.labels.as_str()) {
            ("", "") => write!(f, "ConfigMaps {namespace}/*"),
            ("", labels) => write!(f, "ConfigMaps {namespace}/* with the labels {labels}"),
            (name, _) => write!(f, "ConfigMap {namespace}/{name}"),
        }
    }
}

impl HostParameters {
    /// Returns the reference to the ConfigMap of this name, or else to those that a selector selects.
    pub(crate) fn new(namespace: &str, name: &str, selector: &LabelSelector) -> Self {
        let labels = if name.is_empty() { selector.to_string() } else { String::new() };
        Self { namespace: namespace.to_owned(), name: name.to_owned(), labels }
    }

    /// Reads the `paramRef` of a binding; `None` if its selector is invalid.
    fn of(reference: &Value) -> Option<Self> {
        let selector = LabelSelector::of_object(reference.get("selector")).ok()?;
        Some(Self::new(text(reference, "namespace"), text(reference, "name"), &selector))
    }
}

/// Returns true if a `paramKind` is ConfigMap.
pub(crate) fn is_config_map((group, version, kind): (&str, &str, &str)) -> bool {
    (group, version, kind) == ("", "v1", "ConfigMap")
}

/// Returns the references of all bindings to ConfigMaps.
pub(super) fn references(configurations: &[Value]) -> BTreeSet<HostParameters> {
    let of_kind = |kind: &'static str| configurations.iter().filter(move |it| text(it, "kind") == kind);
    let all = POLICIES.into_iter().flat_map(|(policy, binding)| {
        let policies: BTreeSet<&str> =
            of_kind(policy).filter(|it| reads_maps(it)).map(object::name).collect();
        let specs = of_kind(binding).filter_map(|it| it.get("spec"));
        let bound = specs.filter(move |spec| policies.contains(text(spec, "policyName")));
        bound.filter_map(|spec| HostParameters::of(spec.get("paramRef")?))
    });
    all.collect()
}

fn reads_maps(policy: &Value) -> bool {
    let kind = policy.pointer("/spec/paramKind");
    kind.is_some_and(|kind| is_config_map(("", text(kind, "apiVersion"), text(kind, "kind"))))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_bindings_of_policies_with_config_maps_name_some() {
        let policy = |kind: &str, name: &str, of: &str| {
            let spec = json!({"paramKind": {"apiVersion": "v1", "kind": of}});
            json!({"kind": kind, "metadata": {"name": name}, "spec": spec})
        };
        let binding = |kind: &str, policy: &str, reference: Value| json!({"kind": kind, "metadata": {"name": policy}, "spec": {"policyName": policy, "paramRef": reference}});
        let [(validating, of_validating), (mutating, of_mutating)] = POLICIES;
        let labels = json!({"matchLabels": {"b": "c"}, "matchExpressions": [
            {"key": "d", "operator": "NotIn", "values": ["f", "e"]}, {"key": "g", "operator": "DoesNotExist"}]});
        let found = references(&[
            policy(validating, "maps", "ConfigMap"),
            policy(validating, "secrets", "Secret"),
            policy(mutating, "maps", "ConfigMap"),
            binding(of_validating, "maps", json!({"namespace": "team", "name": "limits"})),
            binding(of_validating, "secrets", json!({"namespace": "team", "name": "keys"})),
            binding(of_validating, "other", json!({"namespace": "team", "name": "other"})),
            binding(of_mutating, "maps", json!({"selector": labels})),
        ]);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["ConfigMaps */* with the labels b=c,d notin (e,f),!g", "ConfigMap team/limits"]);
    }
}
