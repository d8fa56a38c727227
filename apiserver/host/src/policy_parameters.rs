//! Permission to read the ConfigMaps that policies of the host cluster have as parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde_json::{Value, json};

/// Any namespace, or any name.
const ANY: &str = "*";

/// Name of the roles and bindings.
const ROLE: &str = "capstan:policy-parameters";

/// ConfigMaps that Capstan may read: all of a namespace, one of a namespace, or those of one name in all namespaces.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyParameters {
    /// Namespace; `None` for all.
    namespace: Option<String>,
    /// Name; `None` for all.
    name: Option<String>,
}

impl FromStr for PolicyParameters {
    type Err = String;

    /// Reads `NAMESPACE`, `NAMESPACE/NAME`, `*/NAME` or `*`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (namespace, name) = text.split_once('/').unwrap_or((text, ANY));
        if namespace.is_empty() || name.is_empty() || name.contains('/') {
            return Err("expected NAMESPACE, NAMESPACE/NAME, */NAME or *".to_owned());
        }
        let part = |part: &str| Some(part.to_owned()).filter(|part| part != ANY);
        Ok(Self { namespace: part(namespace), name: part(name) })
    }
}

/// Returns a role with its binding for each namespace, and one for all namespaces if a permission means them.
pub(crate) fn access(permissions: &[PolicyParameters], subjects: &Value, verbs: &[&str]) -> Vec<Value> {
    let mut namespaces: BTreeMap<Option<&str>, BTreeSet<Option<&str>>> = BTreeMap::new();
    for PolicyParameters { namespace, name } in permissions {
        namespaces.entry(namespace.as_deref()).or_default().insert(name.as_deref());
    }
    namespaces.into_iter().flat_map(|(namespace, names)| role(namespace, &names, subjects, verbs)).collect()
}

fn role(
    namespace: Option<&str>,
    names: &BTreeSet<Option<&str>>,
    subjects: &Value,
    verbs: &[&str],
) -> [Value; 2] {
    let group = "rbac.authorization.k8s.io";
    let mut rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs});
    if !names.contains(&None) {
        rule["resourceNames"] = json!(names);
    }
    let (kind, metadata) = match namespace {
        Some(namespace) => ("Role", json!({"name": ROLE, "namespace": namespace})),
        None => ("ClusterRole", json!({"name": ROLE})),
    };
    let version = format!("{group}/v1");
    [
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": [rule]}),
        json!({"apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": kind, "name": ROLE}, "subjects": subjects}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_namespace_has_one_role_that_is_as_narrow_as_possible() {
        let given =
            ["team", "team/limits", "tools/b", "tools/a", "*/limits"].map(|text| text.parse().unwrap());
        let objects = access(&given, &json!([]), &["get"]);
        let shown: Vec<(&Value, &Value, &Value)> = objects
            .iter()
            .filter(|object| object["rules"].is_array())
            .map(|it| (&it["kind"], &it["metadata"]["namespace"], &it["rules"][0]["resourceNames"]))
            .collect();
        let expected =
            json!([["ClusterRole", null, ["limits"]], ["Role", "team", null], ["Role", "tools", ["a", "b"]]]);
        assert_eq!(json!(shown), expected);
        let kinds: Vec<&Value> = objects.iter().map(|object| &object["kind"]).collect();
        assert_eq!(kinds[..3], ["ClusterRole", "ClusterRoleBinding", "Role"]);
        assert_eq!(objects[5]["roleRef"]["kind"], "Role");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "/a", "a/", "a/b/c"] {
            assert!(text.parse::<PolicyParameters>().is_err(), "{text:?}");
        }
        assert_eq!("*".parse(), Ok(PolicyParameters { namespace: None, name: None }));
    }
}
