//! Rule: operations on resources.

use serde_json::Value;

use crate::value::{text, texts};

/// Rule of a webhook or a policy.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: Scope,
    /// Names of objects; empty for all.
    names: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
}

/// Facts about a write that a rule looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) operation: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) is_namespaced: bool,
    pub(crate) name: &'a str,
}

impl Rule {
    /// Reads a valid rule.
    pub(crate) fn of(rule: &Value) -> Self {
        Self {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: texts(rule, "resources"),
            scope: match text(rule, "scope") {
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::All,
            },
            names: texts(rule, "resourceNames"),
        }
    }

    /// Returns true if a write of this resource may match.
    pub(crate) fn may_concern(&self, group: &str, resource: &str) -> bool {
        has(&self.groups, group)
            && self.resources.iter().any(|entry| {
                let name = entry.split('/').next().unwrap_or_default();
                name == "*" || name == resource
            })
    }

    /// Returns true if a write matches.
    pub(crate) fn matches(&self, probe: Probe<'_>) -> bool {
        let fits = match self.scope {
            Scope::All => true,
            Scope::Cluster => !probe.is_namespaced,
            Scope::Namespaced => probe.is_namespaced,
        };
        fits && has(&self.operations, probe.operation)
            && has(&self.groups, probe.group)
            && has(&self.versions, probe.version)
            && self.resources.iter().any(|entry| is_resource(entry, probe.resource, probe.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name == probe.name))
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == wanted)
}

/// Reports whether an entry such as `pods`, `pods/log`, `*` or `*/*` is a resource with a subresource.
fn is_resource(entry: &str, resource: &str, subresource: &str) -> bool {
    let (name, part) = entry.split_once('/').unwrap_or((entry, ""));
    (name == "*" || name == resource) && (part == "*" || part == subresource)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn probe() -> Probe<'static> {
        Probe {
            operation: "CREATE",
            group: "cluster.x-k8s.io",
            version: "v1beta2",
            resource: "machines",
            subresource: "",
            is_namespaced: true,
            name: "a",
        }
    }

    fn rule(changes: &Value) -> Rule {
        let mut rule = json!({"operations": ["CREATE"], "apiGroups": ["cluster.x-k8s.io"],
            "apiVersions": ["v1beta2"], "resources": ["machines"], "scope": "*"});
        rule.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        Rule::of(&rule)
    }

    #[test]
    fn every_part_of_a_rule_must_match() {
        for (changes, expected) in [
            (json!({}), true),
            (json!({"operations": ["*"]}), true),
            (json!({"operations": ["UPDATE", "DELETE"]}), false),
            (json!({"apiGroups": ["*"]}), true),
            (json!({"apiGroups": [""]}), false),
            (json!({"apiVersions": ["*"]}), true),
            (json!({"apiVersions": ["v1beta1"]}), false),
            (json!({"scope": "Namespaced"}), true),
            (json!({"scope": "Cluster"}), false),
            (json!({"resourceNames": ["a", "b"]}), true),
            (json!({"resourceNames": ["b"]}), false),
            (json!({"resources": []}), false),
        ] {
            assert_eq!(rule(&changes).matches(probe()), expected, "{changes}");
        }
    }

    #[test]
    fn resources_are_matched_with_their_subresources() {
        for (entry, whole, status, reboot) in [
            ("machines", true, false, false),
            ("machines/status", false, true, false),
            ("machines/*", true, true, true),
            ("*", true, false, false),
            ("*/status", false, true, false),
            ("*/*", true, true, true),
            ("clusters/*", false, false, false),
        ] {
            let rule = rule(&json!({"resources": [entry]}));
            for (subresource, expected) in [("", whole), ("status", status), ("reboot", reboot)] {
                let found = rule.matches(Probe { subresource, ..probe() });
                assert_eq!(found, expected, "{entry} {subresource:?}");
            }
            assert_eq!(rule.may_concern("cluster.x-k8s.io", "machines"), !entry.starts_with("clusters"));
        }
    }
}
