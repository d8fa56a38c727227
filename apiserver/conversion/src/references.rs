//! Conversion of references to other objects.

use serde_json::{Map, Value, json};

use crate::fields::{get, namespace, put, rename_as};

/// Version of the current contract: the one in which v1beta1 shows every reference, as upstream does.
pub(crate) const CONTRACT: &str = "v1beta2";

/// Groups whose kinds the server serves. References to other groups keep the version that a client wrote.
const SERVED_GROUPS: [&str; 4] = [
    "cluster.x-k8s.io",
    "bootstrap.cluster.x-k8s.io",
    "controlplane.cluster.x-k8s.io",
    "infrastructure.cluster.x-k8s.io",
];

/// Paths of the versions of references in a Machine.
const OF_MACHINE: &[&str] = &["spec.bootstrap.configRef.apiVersion", "spec.infrastructureRef.apiVersion"];

/// Paths of the versions of references in a template of Machines.
const OF_TEMPLATE: &[&str] =
    &["spec.template.spec.bootstrap.configRef.apiVersion", "spec.template.spec.infrastructureRef.apiVersion"];

/// Returns the paths of references that have a version in v1beta1, and only a group in v1beta2.
pub(crate) fn paths(kind: &str) -> &'static [&'static str] {
    match kind {
        "Machine" => OF_MACHINE,
        "MachineSet" | "MachineDeployment" | "MachinePool" => OF_TEMPLATE,
        "Cluster" => &["spec.controlPlaneRef.apiVersion", "spec.infrastructureRef.apiVersion"],
        "KubeadmControlPlane" => &["spec.machineTemplate.infrastructureRef.apiVersion"],
        _ => &[],
    }
}

/// Returns the error of an `apiVersion` in the words of Kubernetes, which upstream reports.
pub(crate) fn error(text: &str) -> Option<String> {
    (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

/// Reports whether a value is more than an empty object.
pub(crate) fn is_not_empty(value: &Value) -> bool {
    value.as_object().is_none_or(|fields| !fields.is_empty())
}

/// Fills in the namespace of a reference of v1beta1, and gives it the version of the current contract. The stored
/// version keeps neither.
pub(crate) fn default(object: &mut Value, path: &str) {
    default_namespace(object, path);
    let field = format!("{path}.apiVersion");
    let group = get(object, &field).and_then(Value::as_str).and_then(|text| text.split_once('/'));
    if let Some((group, version)) = group
        && SERVED_GROUPS.contains(&group)
        && !version.contains('/')
        && version != CONTRACT
    {
        let current = format!("{group}/{CONTRACT}");
        put(object, &field, current.into());
    }
}

/// Sets the namespace of a reference to the object's own, which is v1beta1's default.
pub(crate) fn default_namespace(object: &mut Value, path: &str) {
    let own = namespace(object);
    default_namespace_to(object, path, &own);
}

/// Sets the namespace of a reference to `own`.
pub(crate) fn default_namespace_to(object: &mut Value, path: &str, own: &str) {
    let is_named =
        get(object, path).and_then(|reference| reference.get("name")).is_some_and(Value::is_string);
    if is_named && !own.is_empty() && get(object, &format!("{path}.namespace")).is_none() {
        put(object, &format!("{path}.namespace"), own.into());
    }
}

/// Converts an ObjectReference at `from` to a reference to a template at `to`: group, version, kind and name.
pub(crate) fn template_to_stored(object: &mut Value, from: &str, to: &str) {
    rename_as(object, from, to, |reference| some_fields(&reference, &["apiVersion", "kind", "name"]));
}

/// Converts a reference to a template at `from` to an ObjectReference at `to`, in `namespace` unless it is empty.
pub(crate) fn template_from_stored(object: &mut Value, from: &str, to: &str, namespace: &str) {
    rename_as(object, from, to, |reference| {
        let mut found = some_fields(&reference, &["apiVersion", "kind", "name"])?;
        if !namespace.is_empty() {
            found["namespace"] = json!(namespace);
        }
        Some(found)
    });
}

fn some_fields(value: &Value, names: &[&str]) -> Option<Value> {
    let found: Map<String, Value> =
        names.iter().filter_map(|name| Some(((*name).to_owned(), value.get(name)?.clone()))).collect();
    (!found.is_empty()).then_some(Value::Object(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_to_a_served_group_gets_the_contract_version() {
        for (written, expected) in [
            ("infrastructure.cluster.x-k8s.io/v1beta1", "infrastructure.cluster.x-k8s.io/v1beta2"),
            ("infrastructure.cluster.x-k8s.io/v1alpha7", "infrastructure.cluster.x-k8s.io/v1beta2"),
            ("bootstrap.cluster.x-k8s.io/v1beta2", "bootstrap.cluster.x-k8s.io/v1beta2"),
            ("example.com/v1", "example.com/v1"),
            ("infrastructure.cluster.x-k8s.io/a/b", "infrastructure.cluster.x-k8s.io/a/b"),
            ("v1", "v1"),
        ] {
            let mut machine = json!({"spec": {"infrastructureRef": {"apiVersion": written, "name": "a"}}});
            default(&mut machine, "spec.infrastructureRef");
            assert_eq!(machine["spec"]["infrastructureRef"]["apiVersion"], expected, "{written}");
        }
    }
}
