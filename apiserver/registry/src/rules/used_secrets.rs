//! References to Secrets beside those with credentials of a cloud: bootstrap data, and the content of files. The controllers
//! read these Secrets with their own permissions, and their content reaches servers and workload clusters.

use std::collections::BTreeSet;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use serde_json::Value;

use super::used_identities::secret;

/// Paths in a Machine.
pub(crate) const OF_MACHINE: [&str; 1] = ["spec.bootstrap.dataSecretName"];

/// Paths in a kind with a template of Machines.
pub(crate) const OF_MACHINES: [&str; 1] = ["spec.template.spec.bootstrap.dataSecretName"];

/// Paths in a KubeadmConfig.
pub(crate) const OF_KUBEADM_CONFIG: [&str; 2] =
    ["spec.files[].contentFrom.secret.name", "spec.users[].passwdFrom.secret.name"];

/// Paths in a KubeadmConfigTemplate.
pub(crate) const OF_KUBEADM_CONFIG_TEMPLATE: [&str; 2] = [
    "spec.template.spec.files[].contentFrom.secret.name",
    "spec.template.spec.users[].passwdFrom.secret.name",
];

/// Paths in a KubeadmControlPlane.
pub(crate) const OF_CONTROL_PLANE: [&str; 2] = [
    "spec.kubeadmConfigSpec.files[].contentFrom.secret.name",
    "spec.kubeadmConfigSpec.users[].passwdFrom.secret.name",
];

/// Paths in a KubeadmControlPlaneTemplate.
pub(crate) const OF_CONTROL_PLANE_TEMPLATE: [&str; 2] = [
    "spec.template.spec.kubeadmConfigSpec.files[].contentFrom.secret.name",
    "spec.template.spec.kubeadmConfigSpec.users[].passwdFrom.secret.name",
];

/// Returns the Secrets beside the object whose names are at these paths, each once. `[]` in a path stands for each item of
/// a list.
pub(crate) fn at(object: &Value, paths: &[&'static str]) -> Vec<UsedObject> {
    let mut known = BTreeSet::new();
    let named = paths.iter().copied().flat_map(|field| names(object, field).map(move |name| (field, name)));
    let new = named.filter(|(_, name)| known.insert(*name));
    new.map(|(field, name)| secret(field, object::namespace(object), name)).collect()
}

/// Returns all Secrets of a namespace, for a value that is not known.
pub(crate) fn any(field: &'static str, namespace: &str) -> UsedObject {
    let remedy = "Its values depend on variables, so they can name any Secret of the namespace, see \
        identities.requireSecretRead. Bind a Role with the verb get on secrets, without names, to the user, or give the field a \
        literal value";
    UsedObject { remedy: remedy.to_owned(), ..secret(field, namespace, "") }
}

/// Returns the texts at a path.
fn names<'a>(root: &'a Value, path: &'static str) -> Box<dyn Iterator<Item = &'a str> + 'a> {
    match path.split_once("[].") {
        None => {
            let name = object::at(root, path).and_then(Value::as_str);
            Box::new(name.filter(|name| !name.is_empty()).into_iter())
        }
        Some((list, rest)) => {
            let items = object::at(root, list).and_then(Value::as_array).into_iter().flatten();
            Box::new(items.flat_map(move |item| names(item, rest)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tm_05_secrets_in_lists_are_named_once_and_beside_the_object() {
        let file = |name: &str| json!({"path": "/a", "contentFrom": {"secret": {"name": name, "key": "k"}}});
        let config = json!({"metadata": {"namespace": "ns"}, "spec": {
            "files": [file("a"), {"path": "/b", "content": "x"}, file("b"), file("a")],
            "users": [{"name": "u", "passwdFrom": {"secret": {"name": "b", "key": "k"}}}, 7]}});
        let found = at(&config, &OF_KUBEADM_CONFIG);
        let found: Vec<_> = found.iter().map(|used| (used.action().namespace, used.action().name)).collect();
        assert_eq!(found, [("ns", "a"), ("ns", "b")]);
        let machine = json!({"spec": {"bootstrap": {"dataSecretName": "data"}}});
        assert_eq!(at(&machine, &OF_MACHINE)[0].field, OF_MACHINE[0]);
        for other in [json!({"spec": {"bootstrap": {"dataSecretName": ""}}}), json!({"spec": 7}), json!(7)] {
            assert!(at(&other, &OF_MACHINE).is_empty(), "{other}");
        }
    }
}
