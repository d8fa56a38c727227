//! Secrets and identities that the patches of a class name. The controllers write the patched templates with their own
//! permissions, and read what these name. So a writer of patches needs the permission to read it.

use std::collections::BTreeSet;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use serde_json::Value;

use super::users;
use crate::rules::class_templates::{self, Effect, TemplateFields, named_by};
use crate::rules::json_fields::{get, items, text};
use crate::rules::{used_identities, used_secrets};

/// Field of a refusal.
const FIELD: &str = "spec.patches";

/// Field of the variables, on which the values of patches depend.
const VARIABLES: &str = "spec.variables";

/// Returns what the patches of a class newly name, in the namespace of the class and in those of its Clusters. A value that
/// is no literal can name each Secret. It counts with each change of the variables, and of the patches that can name
/// something: others can change what it is.
///
/// # Errors
/// 503 if the Clusters cannot be read.
pub(super) async fn newly_used(
    new: &Value,
    old: Option<&Value>,
    others: &dyn ObjectReader,
) -> ApiResult<Vec<UsedObject>> {
    let is_same = |old: &Value| get(old, VARIABLES) == get(new, VARIABLES) && naming(old) == naming(new);
    if old.is_some_and(is_same) || used(new, object::namespace(new)).is_empty() {
        return Ok(Vec::new());
    }
    let mut namespaces = BTreeSet::from([object::namespace(new).to_owned()]);
    let clusters = users::clusters(new, others).await?;
    namespaces.extend(clusters.iter().map(|cluster| object::namespace(cluster).to_owned()));
    let newly_used = |namespace: &String| {
        let before = old.map(|old| literals(old, namespace)).unwrap_or_default();
        let is_known = |used: &UsedObject| before.iter().any(|known| known.action() == used.action());
        let mut found = used(new, namespace);
        found.retain(|used| !is_known(used));
        found
    };
    Ok(namespaces.iter().flat_map(newly_used).collect())
}

/// Returns true if patches of a class can set a name, or remove one.
pub(crate) fn has_names(class: &Value) -> bool {
    !naming(class).is_empty()
}

/// Returns the patches of a class that can set a name, or remove one, in their order. Others change nothing for them.
fn naming(class: &Value) -> Vec<&Value> {
    let is_naming = |(definition, operation): (&Value, &Value)| {
        target(definition, operation).is_some_and(|(fields, path)| fields.effect(path) != Effect::None)
    };
    let patches = items(class, FIELD).map(|(_, patch)| patch);
    patches.filter(|patch| is_external(patch) || operations(patch).any(is_naming)).collect()
}

/// Returns what the literal values of patches name in a namespace.
pub(crate) fn literals(class: &Value, namespace: &str) -> Vec<UsedObject> {
    let mut used = used(class, namespace);
    used.retain(|used| !used.name.is_empty());
    used
}

/// Returns all that the patches of a class can name in a namespace, each once. An object without a name stands for all of
/// its kind.
fn used(class: &Value, namespace: &str) -> Vec<UsedObject> {
    let mut found: Vec<UsedObject> = Vec::new();
    for used in items(class, FIELD).flat_map(|(_, patch)| by_patch(patch, namespace)) {
        if !found.iter().any(|known| known.action() == used.action()) {
            found.push(UsedObject { field: FIELD, ..used });
        }
    }
    found
}

/// Returns what one patch can name. A patch of an extension can be any.
fn by_patch(patch: &Value, namespace: &str) -> Vec<UsedObject> {
    if is_external(patch) {
        return used_identities::any(FIELD, namespace).into();
    }
    operations(patch)
        .flat_map(|(definition, operation)| by_operation(definition, operation, namespace))
        .collect()
}

fn is_external(patch: &Value) -> bool {
    get(patch, "external").is_some()
}

/// Returns the operations of a patch, each with its definition.
fn operations(patch: &Value) -> impl Iterator<Item = (&Value, &Value)> {
    items(patch, "definitions").flat_map(|(_, definition)| {
        items(definition, "jsonPatches").map(move |(_, operation)| (definition, operation))
    })
}

/// Returns the template and the path that an operation changes, if the template can name something.
fn target<'a>(definition: &Value, operation: &'a Value) -> Option<(&'static TemplateFields, &'a str)> {
    let fields = class_templates::of(text(definition, "selector.kind")?)?;
    let path = text(operation, "path").filter(|path| *path == "/spec" || path.starts_with("/spec/"))?;
    Some((fields, path))
}

/// Returns what one operation can name.
fn by_operation(definition: &Value, operation: &Value, namespace: &str) -> Vec<UsedObject> {
    let Some((fields, path)) = target(definition, operation) else { return Vec::new() };
    let is_removed = text(operation, "op") == Some("remove");
    let literal = operation.get("value").filter(|_| get(operation, "valueFrom").is_none());
    match (fields.effect(path), literal) {
        (Effect::None, _) => Vec::new(),
        (Effect::Names, _) if is_removed => Vec::new(),
        (Effect::Names, Some(value)) => named_by(fields, path, value, namespace),
        // Without a type, a reference is to a Secret.
        (Effect::Completes, _) if is_removed => vec![used_secrets::any(FIELD, namespace)],
        (Effect::Completes, Some(kind)) if kind == "Secret" => vec![used_secrets::any(FIELD, namespace)],
        (Effect::Names | Effect::Completes, _) if fields.has_identities() => {
            used_identities::any(FIELD, namespace).into()
        }
        (Effect::Names | Effect::Completes, _) => vec![used_secrets::any(FIELD, namespace)],
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;

    /// Clusters of all namespaces.
    #[derive(Debug)]
    struct Clusters(Vec<Value>);

    #[async_trait]
    impl ObjectReader for Clusters {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(None)
        }

        async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
            Ok(self.0.clone())
        }
    }

    fn operation(path: &str, value: &Value) -> Value {
        let mut operation = json!({"op": "add", "path": path});
        let name = if value.get("variable").is_some() || value.get("template").is_some() {
            "valueFrom"
        } else {
            "value"
        };
        operation[name] = value.clone();
        operation
    }

    fn class(kind: &str, operations: &Value) -> Value {
        let definition = json!({"selector": {"kind": kind}, "jsonPatches": operations});
        json!({"metadata": {"name": "k", "namespace": "ns"}, "spec": {
            "patches": [{"name": "p", "definitions": [definition]}]}})
    }

    /// Returns namespace and name of each object that a change of a class newly names.
    async fn found(new: &Value, old: Option<&Value>) -> Vec<(String, String)> {
        let cluster = |namespace: &str, class: &str| {
            let reference = json!({"name": class, "namespace": "ns"});
            json!({"metadata": {"name": "c", "namespace": namespace},
                "spec": {"topology": {"classRef": reference}}})
        };
        let clusters = Clusters(vec![cluster("team", "k"), cluster("other", "another")]);
        let used = newly_used(new, old, &clusters).await.unwrap();
        used.into_iter().map(|used| (used.namespace, used.name)).collect()
    }

    #[tokio::test]
    async fn tm_05_a_literal_name_counts_once_in_each_namespace_and_a_computed_one_at_each_change() {
        let name = "/spec/template/spec/identityRef/name";
        let literal =
            |value: &str| class("OpenStackMachineTemplate", &json!([operation(name, &json!(value))]));
        let both = |name: &str| ["ns", "team"].map(|namespace| (namespace.to_owned(), name.to_owned()));
        assert_eq!(found(&literal("s"), None).await, both("s"));
        assert_eq!(found(&literal("t"), Some(&literal("s"))).await, both("t"));
        let mut described = literal("s");
        described["spec"]["patches"][0]["description"] = json!("d");
        assert!(found(&described, Some(&literal("s"))).await.is_empty(), "a name that stays");
        assert!(found(&literal("s"), Some(&literal("s"))).await.is_empty());

        let file = operation("/spec/template/spec/files/-", &json!({"template": "{{ .file }}"}));
        let computed = class("KubeadmConfigTemplate", &json!([file]));
        assert_eq!(found(&computed, None).await, both(""));
        assert!(found(&computed, Some(&computed)).await.is_empty());
        let mut more = computed.clone();
        more["spec"]["variables"] = json!([{"name": "file"}]);
        assert_eq!(found(&more, Some(&computed)).await, both(""), "a default can name another Secret");
        let mut labelled = computed.clone();
        labelled["metadata"]["labels"] = json!({"a": "b"});
        assert!(found(&labelled, Some(&computed)).await.is_empty());
        let with = |other: &Value| {
            let mut more = computed.clone();
            more["spec"]["patches"].as_array_mut().unwrap().insert(0, other["spec"]["patches"][0].clone());
            more
        };
        let flavor = operation("/spec/template/spec/flavor", &json!({"variable": "flavor"}));
        let unrelated = with(&class("OpenStackMachineTemplate", &json!([flavor])));
        assert!(found(&unrelated, Some(&computed)).await.is_empty(), "another patch names nothing");
        let removal = json!({"op": "remove", "path": "/spec/template/spec/files"});
        let removed = with(&class("KubeadmConfigTemplate", &json!([removal])));
        assert_eq!(found(&computed, Some(&removed)).await, both(""), "without a removal, names can appear");
    }

    #[tokio::test]
    async fn tm_05_a_computed_reference_can_name_identities_too_and_other_patches_name_nothing() {
        let of = async |kind: &str, path: &str, value: Value| {
            let operations = json!([operation(path, &value)]);
            let class = class(kind, &operations);
            let used = newly_used(&class, None, &Clusters(Vec::new())).await.unwrap();
            used.into_iter().map(|used| (used.resource, used.name)).collect::<Vec<_>>()
        };
        let variable = || json!({"variable": "identity"});
        let (machine, bootstrap) = ("OpenStackMachineTemplate", "KubeadmConfigTemplate");
        let (any, secret) = (String::new, "secrets");
        let both = [(secret, any()), ("openstackclusteridentities", any())];
        assert_eq!(of(machine, "/spec/template/spec/identityRef", variable()).await, both);
        let kind = async |value: Value| of(machine, "/spec/template/spec/identityRef/type", value).await;
        let own = json!("Secret");
        assert_eq!(kind(own).await, [(secret, any())], "the name of an identity becomes that of a Secret");
        assert_eq!(kind(json!("ClusterIdentity")).await, both, "and the other way round");
        assert_eq!(kind(variable()).await, both);
        assert_eq!(of(bootstrap, "/spec/template/spec/users", variable()).await, [(secret, any())]);
        for (kind, path, value) in [
            (machine, "/spec/template/spec/flavor", variable()),
            (machine, "/spec/template/spec/identityRef/cloudName", variable()),
            (bootstrap, "/spec/template/spec/files/-", json!({"path": "/a", "content": "x"})),
            (bootstrap, "/metadata/labels", variable()),
            ("AzureMachineTemplate", "/spec/template/spec/identityRef", variable()),
        ] {
            assert!(of(kind, path, value).await.is_empty(), "{kind} {path}");
        }
        let external = json!({"metadata": {"name": "k", "namespace": "ns"}, "spec": {
            "patches": [{"name": "p", "external": {"generatePatchesExtension": "e"}}]}});
        assert_eq!(found(&external, None).await.first(), Some(&("ns".to_owned(), any())));
    }
}
