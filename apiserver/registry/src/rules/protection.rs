//! Protection against deletion: by an annotation or label of the object, or of an object that would be deleted with it.

use std::collections::BTreeSet;

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_types::protection::{DELETE_FOR_MOVE, PROTECTED, protects};
use apiserver_types::{
    Cluster, Described, Descriptor, KubeadmControlPlane, Machine, MachineDeployment, MachineSet,
};
use serde_json::Value;

use crate::rules::json_fields::{annotation, items, text};
use crate::rules::machine_template::CLUSTER_LABEL;

/// Number of protected objects that an error names. It counts the others.
const MOST_NAMED: usize = 3;

/// Kinds of objects that are deleted with a Cluster, owners first.
pub(crate) const WITH_A_CLUSTER: &[Descriptor] = &[
    KubeadmControlPlane::DESCRIPTOR,
    MachineDeployment::DESCRIPTOR,
    MachineSet::DESCRIPTOR,
    Machine::DESCRIPTOR,
];

/// Kinds of objects that are deleted with a MachineDeployment, owners first.
pub(crate) const WITH_A_DEPLOYMENT: &[Descriptor] = &[MachineSet::DESCRIPTOR, Machine::DESCRIPTOR];

/// Kinds of objects that are deleted with a MachineSet or a KubeadmControlPlane.
pub(crate) const WITH_A_SET: &[Descriptor] = &[Machine::DESCRIPTOR];

/// Kinds of objects that can be protected, owners first. All of them are deleted with their namespace.
const WITH_A_NAMESPACE: &[Descriptor] = &[
    Cluster::DESCRIPTOR,
    KubeadmControlPlane::DESCRIPTOR,
    MachineDeployment::DESCRIPTOR,
    MachineSet::DESCRIPTOR,
    Machine::DESCRIPTOR,
];

/// Returns the reason to refuse a deletion: the object is protected, or an object of these kinds that would be deleted
/// with it. An object that is being deleted, or that clusterctl has moved, is not refused.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(crate) async fn refusal(
    object: &Value,
    beneath: &[Descriptor],
    others: &dyn ObjectReader,
) -> ApiResult<Option<String>> {
    if object::is_deleting(object) || is_moved(object) {
        return Ok(None);
    }
    if let Some(place) = place(object) {
        let name = object::name(object);
        return Ok(Some(format!(
            "{name} is protected by its {place} {PROTECTED}. Remove the {place} to delete {name}"
        )));
    }
    Ok(because_of(&protected_beneath(object, beneath, others).await?))
}

/// Returns the reason to refuse the deletion of a namespace: protected objects in it. A namespace that is being deleted is
/// not refused.
///
/// # Errors
/// 503 if the objects in the namespace cannot be read.
pub(crate) async fn refusal_of_namespace(
    namespace: &Value,
    others: &dyn ObjectReader,
) -> ApiResult<Option<String>> {
    if object::is_deleting(namespace) {
        return Ok(None);
    }
    let mut protected = Vec::new();
    for kind in WITH_A_NAMESPACE {
        let found = others.all(kind.group, kind.plural, object::name(namespace)).await?;
        protected.extend(found.iter().filter(|it| is_kept(it)).map(|it| shown(kind, it)));
    }
    Ok(because_of(&protected))
}

/// Returns the text about the protected objects that a deletion would delete, too. `None` without any.
fn because_of(protected: &[String]) -> Option<String> {
    (!protected.is_empty()).then(|| {
        let list = named(protected);
        format!(
            "objects that would be deleted with it are protected by the annotation or label {PROTECTED}: {list}. Remove \
             it from them first"
        )
    })
}

/// Returns true if an object is protected, is not being deleted, and was not moved by clusterctl.
fn is_kept(object: &Value) -> bool {
    place(object).is_some() && !object::is_deleting(object) && !is_moved(object)
}

/// Returns kind and name of an object, as an error shows them.
fn shown(kind: &Descriptor, object: &Value) -> String {
    format!("{} {}", kind.kind, object::name(object))
}

/// Returns true if clusterctl has moved an object to another server, and deletes it here.
pub(crate) fn is_moved(object: &Value) -> bool {
    annotation(object, DELETE_FOR_MOVE).is_some()
}

/// Returns the place of the protection of an object: its annotation or its label. `None` without a protection.
fn place(object: &Value) -> Option<&'static str> {
    let value = |place: &str| object::at(object, place)?.get(PROTECTED)?.as_str();
    let places = [("annotation", "metadata.annotations"), ("label", "metadata.labels")];
    places.into_iter().find(|&(_, at)| protects(value(at))).map(|(place, _)| place)
}

/// Returns kind and name of each protected object that would be deleted with `object`.
async fn protected_beneath(
    object: &Value,
    beneath: &[Descriptor],
    others: &dyn ObjectReader,
) -> ApiResult<Vec<String>> {
    let cluster = (text(object, "kind") == Some("Cluster")).then(|| object::name(object));
    let mut owners = BTreeSet::from([object::meta(object, "uid").to_owned()]);
    let mut protected = Vec::new();
    for kind in beneath {
        for found in others.all(kind.group, kind.plural, object::namespace(object)).await? {
            let label = object::labels(&found).and_then(|labels| labels.get(CLUSTER_LABEL)?.as_str());
            let is_labelled = cluster.is_some() && label == cluster;
            if !is_labelled && !is_owned(&found, &owners) {
                continue;
            }
            owners.insert(object::meta(&found, "uid").to_owned());
            if is_kept(&found) {
                protected.push(shown(kind, &found));
            }
        }
    }
    Ok(protected)
}

fn is_owned(object: &Value, owners: &BTreeSet<String>) -> bool {
    items(object, "metadata.ownerReferences")
        .filter_map(|(_, owner)| owner.get("uid")?.as_str())
        .any(|uid| !uid.is_empty() && owners.contains(uid))
}

fn named(protected: &[String]) -> String {
    let list = protected.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match protected.len().saturating_sub(MOST_NAMED) {
        0 => list,
        more => format!("{list}, ... ({more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;

    /// Objects by their plurals.
    #[derive(Debug)]
    struct World(Value);

    #[async_trait]
    impl ObjectReader for World {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(None)
        }

        async fn all(&self, _: &str, plural: &str, _: &str) -> ApiResult<Vec<Value>> {
            Ok(self.0[plural].as_array().cloned().unwrap_or_default())
        }
    }

    /// Returns an object whose uid is its name, with this owner.
    fn object(kind: &str, name: &str, owner: &str) -> Value {
        json!({"kind": kind, "metadata": {"name": name, "uid": name, "namespace": "n", "labels": {}, "annotations": {},
            "ownerReferences": [{"uid": owner}]}})
    }

    fn protected(mut object: Value, place: &str, value: &str) -> Value {
        object["metadata"][place][PROTECTED] = json!(value);
        object
    }

    async fn refused(object: &Value, beneath: &[Descriptor], world: &Value) -> Option<String> {
        refusal(object, beneath, &World(world.clone())).await.unwrap()
    }

    #[tokio::test]
    async fn a_protected_object_is_not_deleted_unless_it_goes_already_or_was_moved() {
        let machine = || object("Machine", "m", "ms");
        let nothing = json!({});
        let refused = async |machine: &Value| refused(machine, &[], &nothing).await;
        assert_eq!(refused(&machine()).await, None);
        assert_eq!(refused(&protected(machine(), "annotations", "false")).await, None);
        let found = refused(&protected(machine(), "annotations", "true")).await;
        let expected =
            "m is protected by its annotation capstan.dev/protected. Remove the annotation to delete m";
        assert_eq!(found.as_deref(), Some(expected));
        let mut labelled = protected(machine(), "labels", "true");
        assert!(refused(&labelled).await.is_some_and(|it| it.contains("its label")));
        labelled["metadata"]["annotations"][DELETE_FOR_MOVE] = json!("");
        assert_eq!(refused(&labelled).await, None, "moved");
        let mut going = protected(machine(), "labels", "true");
        going["metadata"]["deletionTimestamp"] = json!("2026-11-30T05:00:00Z");
        assert_eq!(refused(&going).await, None, "in deletion");
    }

    #[tokio::test]
    async fn an_object_is_not_deleted_while_one_beneath_it_is_protected() {
        let world = json!({
            "machinedeployments": [object("MachineDeployment", "md", "c")],
            "machinesets": [object("MachineSet", "ms", "md"), object("MachineSet", "other", "")],
            "machines": [protected(object("Machine", "m", "ms"), "annotations", "true"),
                object("Machine", "o", "other")],
        });
        let found = refused(&object("Cluster", "c", ""), WITH_A_CLUSTER, &world).await;
        let expected = "objects that would be deleted with it are protected by the annotation or label \
                        capstan.dev/protected: Machine m. Remove it from them first";
        assert_eq!(found.as_deref(), Some(expected));
        let above = object("MachineDeployment", "md", "c");
        assert!(refused(&above, WITH_A_DEPLOYMENT, &world).await.is_some());
        assert!(refused(&object("MachineSet", "ms", "md"), WITH_A_SET, &world).await.is_some());
        assert_eq!(refused(&object("MachineSet", "other", ""), WITH_A_SET, &world).await, None);
        assert_eq!(refused(&object("Cluster", "d", ""), WITH_A_CLUSTER, &world).await, None);
    }

    #[tokio::test]
    async fn a_namespace_is_not_deleted_while_an_object_in_it_is_protected() {
        let refused = async |namespace: &Value, world: Value| {
            refusal_of_namespace(namespace, &World(world)).await.unwrap()
        };
        let mut namespace = json!({"kind": "Namespace", "metadata": {"name": "n"}});
        let going = || {
            let mut going = protected(object("Machine", "going", ""), "labels", "true");
            going["metadata"]["deletionTimestamp"] = json!("2026-11-30T05:00:00Z");
            going
        };
        assert_eq!(
            refused(&namespace, json!({"machines": [object("Machine", "m", ""), going()]})).await,
            None
        );
        let kinds = [
            ("clusters", "Cluster"),
            ("kubeadmcontrolplanes", "KubeadmControlPlane"),
            ("machinedeployments", "MachineDeployment"),
            ("machinesets", "MachineSet"),
            ("machines", "Machine"),
        ];
        for (plural, kind) in kinds {
            let kept = protected(object(kind, "x", ""), "annotations", "true");
            let found = refused(&namespace, json!({plural: [kept]})).await;
            assert!(found.is_some_and(|it| it.contains(&format!(": {kind} x. Remove"))), "{kind}");
        }
        let kept = protected(object("Cluster", "c", ""), "labels", "true");
        namespace["metadata"]["deletionTimestamp"] = json!("2026-11-30T05:00:00Z");
        assert_eq!(refused(&namespace, json!({"clusters": [kept]})).await, None, "in deletion");
    }

    #[tokio::test]
    async fn objects_with_the_label_of_a_cluster_are_beneath_it_and_a_few_are_named() {
        let machine = |name: &str| {
            let mut machine = protected(object("Machine", name, ""), "labels", "true");
            machine["metadata"]["labels"][CLUSTER_LABEL] = json!("c");
            machine
        };
        let world = json!({"machines": [machine("1"), machine("2"), machine("3"), machine("4")]});
        let found = refused(&object("Cluster", "c", ""), WITH_A_CLUSTER, &world).await.unwrap();
        assert!(found.contains("Machine 1, Machine 2, Machine 3, ... (1 more)"), "{found}");
        assert_eq!(refused(&object("Cluster", "d", ""), WITH_A_CLUSTER, &world).await, None);
    }
}
