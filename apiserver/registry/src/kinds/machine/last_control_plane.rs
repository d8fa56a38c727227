//! Deletion of the only control plane Machine of a Cluster: the workload cluster ends with it. A person is refused, and a
//! program gets a warning.

use apiserver_machinery::object;
use apiserver_machinery::related::ObjectReader;
use apiserver_machinery::status::ApiResult;
use apiserver_types::protection::{PROTECTED, UNPROTECTED};
use serde_json::Value;

use super::CONTROL_PLANE_LABEL;
use crate::rules::json_fields::{annotation, get, items, text};
use crate::rules::machine_template::CLUSTER_LABEL;
use crate::rules::protection;

/// API group of Clusters and Machines.
const GROUP: &str = "cluster.x-k8s.io";

/// Field of a Cluster whose workload API has answered once.
const INITIALIZED: &str = "status.initialization.controlPlaneInitialized";

/// API group of KubeadmControlPlanes.
const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";

/// Returns the warning for the client that deletes a Machine, unless the Cluster is being deleted or has another control
/// plane Machine that stays. A Machine that clusterctl has moved goes on in the other server, so there is none either.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(super) async fn warning(machine: &Value, others: &dyn ObjectReader) -> ApiResult<Option<String>> {
    if protection::is_moved(machine) {
        return Ok(None);
    }
    Ok(cluster_of_last(machine, others).await?.map(|_| consequence(machine)))
}

/// Returns the reason to refuse the deletion by a person. There is none if the Machine has the annotation
/// `capstan.dev/protected: "false"`, or if clusterctl has moved it. There is none either if the control plane is being
/// deleted, or was never initialized.
///
/// # Errors
/// 503 if the related objects cannot be read.
pub(super) async fn refusal(machine: &Value, others: &dyn ObjectReader) -> ApiResult<Option<String>> {
    let is_allowed = annotation(machine, PROTECTED) == Some(UNPROTECTED);
    if is_allowed || is_deleting(machine) || protection::is_moved(machine) {
        return Ok(None);
    }
    let Some(cluster) = cluster_of_last(machine, others).await? else { return Ok(None) };
    let is_initialized = get(&cluster, INITIALIZED).and_then(Value::as_bool).unwrap_or_default();
    if !is_initialized || is_control_plane_deleted(machine, others).await? {
        return Ok(None);
    }
    let why = consequence(machine);
    Ok(Some(format!(
        "{why}. To delete it all the same, set its annotation {PROTECTED} to {UNPROTECTED:?} first"
    )))
}

/// Returns true if the KubeadmControlPlane that owns a Machine is being deleted.
async fn is_control_plane_deleted(machine: &Value, others: &dyn ObjectReader) -> ApiResult<bool> {
    let mut owners = items(machine, "metadata.ownerReferences").map(|(_, owner)| owner);
    let Some(owner) = owners.find(|owner| text(owner, "kind") == Some("KubeadmControlPlane")) else {
        return Ok(false);
    };
    let name = text(owner, "name").unwrap_or_default();
    let namespace = object::namespace(machine);
    let found = others.find(CONTROL_PLANE_GROUP, "kubeadmcontrolplanes", namespace, name).await?;
    Ok(found.is_some_and(|found| is_deleting(&found)))
}

/// Returns the Cluster of which a Machine is the only control plane Machine. `None` if the Cluster is being deleted, or
/// has another one that stays.
async fn cluster_of_last(machine: &Value, others: &dyn ObjectReader) -> ApiResult<Option<Value>> {
    let Some(cluster) = control_plane_of(machine) else { return Ok(None) };
    let (namespace, name) = (object::namespace(machine), object::name(machine));
    let found = others.find(GROUP, "clusters", namespace, cluster).await?;
    let Some(found) = found.filter(|found| !is_deleting(found)) else { return Ok(None) };
    let machines = others.all(GROUP, "machines", namespace).await?;
    let stays = |other: &Value| {
        object::name(other) != name && control_plane_of(other) == Some(cluster) && !is_deleting(other)
    };
    Ok((!machines.iter().any(stays)).then_some(found))
}

/// Describes the effect of the deletion.
fn consequence(machine: &Value) -> String {
    let (name, cluster) = (object::name(machine), control_plane_of(machine).unwrap_or_default());
    format!(
        "Machine {name} is the only control plane Machine of Cluster {cluster}: the workload API and its etcd end with \
         it. To replace the Machine, create another one first, e.g. with more replicas of the control plane"
    )
}

/// Returns the name of the Cluster of a control plane Machine.
fn control_plane_of(machine: &Value) -> Option<&str> {
    let labels = object::at(machine, "metadata.labels")?;
    labels.get(CONTROL_PLANE_LABEL)?;
    labels.get(CLUSTER_LABEL)?.as_str()
}

fn is_deleting(object: &Value) -> bool {
    text(object, "metadata.deletionTimestamp").is_some()
}

#[cfg(test)]
mod tests {
    use apiserver_types::protection::DELETE_FOR_MOVE;
    use async_trait::async_trait;
    use serde_json::json;

    use super::*;

    /// Cluster or control plane, and Machines, of a namespace.
    #[derive(Debug)]
    struct World(Option<Value>, Vec<Value>);

    #[async_trait]
    impl ObjectReader for World {
        async fn find(&self, _: &str, _: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            Ok(self.0.clone())
        }

        async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
            Ok(self.1.clone())
        }
    }

    fn machine(name: &str, cluster: &str, is_control_plane: bool, is_going: bool) -> Value {
        let mut machine =
            json!({"metadata": {"name": name, "namespace": "n", "labels": {CLUSTER_LABEL: cluster}}});
        if is_control_plane {
            machine["metadata"]["labels"][CONTROL_PLANE_LABEL] = json!("");
        }
        if is_going {
            machine["metadata"]["deletionTimestamp"] = json!("2026-11-27T05:00:00Z");
        }
        machine
    }

    #[tokio::test]
    async fn only_the_deletion_of_the_last_control_plane_machine_is_warned_of() {
        let (cluster, going) =
            (json!({}), json!({"metadata": {"deletionTimestamp": "2026-11-27T05:00:00Z"}}));
        let one = || machine("m", "c", true, true);
        let mut moved = one();
        moved["metadata"]["annotations"] = json!({DELETE_FOR_MOVE: ""});
        let table = [
            ("alone", one(), Some(&cluster), vec![one()], true),
            ("beside a worker", one(), Some(&cluster), vec![machine("w", "c", false, false)], true),
            ("beside one that goes", one(), Some(&cluster), vec![machine("o", "c", true, true)], true),
            ("beside one of another", one(), Some(&cluster), vec![machine("o", "d", true, false)], true),
            ("beside one that stays", one(), Some(&cluster), vec![machine("o", "c", true, false)], false),
            ("with the Cluster", one(), Some(&going), vec![one()], false),
            ("without a Cluster", one(), None, vec![one()], false),
            ("a worker", machine("w", "c", false, true), Some(&cluster), vec![], false),
            ("moved by clusterctl", moved, Some(&cluster), vec![one()], false),
        ];
        for (case, deleted, cluster, machines, expected) in table {
            let warned = warning(&deleted, &World(cluster.cloned(), machines)).await.unwrap();
            assert_eq!(warned.is_some(), expected, "{case}: {warned:?}");
        }
    }

    /// Cluster that stays: its control plane is initialized or not, and is deleted or not.
    #[derive(Debug)]
    struct Owned(bool, bool);

    #[async_trait]
    impl ObjectReader for Owned {
        async fn find(&self, _: &str, plural: &str, _: &str, _: &str) -> ApiResult<Option<Value>> {
            let is_going = self.1 && plural == "kubeadmcontrolplanes";
            let time = is_going.then_some("2026-11-27T05:00:00Z");
            let status = json!({"initialization": {"controlPlaneInitialized": self.0}});
            Ok(Some(json!({"metadata": {"deletionTimestamp": time}, "status": status})))
        }

        async fn all(&self, _: &str, _: &str, _: &str) -> ApiResult<Vec<Value>> {
            Ok(Vec::new())
        }
    }

    #[tokio::test]
    async fn a_person_cannot_delete_the_last_control_plane_machine_by_mistake() {
        let mut owned = machine("m", "c", true, false);
        owned["metadata"]["ownerReferences"] = json!([{"kind": "KubeadmControlPlane", "name": "kcp"}]);
        let annotated = |key: &str, value: &str| {
            let mut machine = owned.clone();
            machine["metadata"]["annotations"] = json!({key: value});
            machine
        };
        let table = [
            ("bare", owned.clone(), false, true),
            ("with its control plane", owned.clone(), true, false),
            ("allowed", annotated(PROTECTED, UNPROTECTED), false, false),
            ("moved", annotated(DELETE_FOR_MOVE, ""), false, false),
            ("of no control plane object", machine("m", "c", true, false), true, true),
            ("in deletion", machine("m", "c", true, true), false, false),
            ("a worker", machine("w", "c", false, false), false, false),
        ];
        for (case, machine, is_going, expected) in table {
            let refused = refusal(&machine, &Owned(true, is_going)).await.unwrap();
            assert_eq!(refused.is_some(), expected, "{case}: {refused:?}");
            let says =
                |text: &String| text.contains("set its annotation capstan.dev/protected to \"false\" first");
            assert!(refused.as_ref().is_none_or(says), "{case}: {refused:?}");
        }
        let refused = refusal(&owned, &Owned(false, false)).await.unwrap();
        assert_eq!(refused, None, "a control plane that never was initialized");
    }
}
