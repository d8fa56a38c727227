//! Objects of the host whose owners are objects of Capstan: the host's garbage collector asks Capstan for these.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::e2e::lab::{Lab, until};

/// Namespace of the objects.
const NAMESPACE: &str = "team";

/// Owner, which a client of the load writes all the time.
const OWNER: &str = "carol-0";

/// Name of the object whose owner exists, and of the one whose owner does not.
const KEPT: &str = "kept";
const COLLECTED: &str = "collected";

/// Uid of no object.
const NO_UID: &str = "00000000-0000-4000-8000-000000000000";

/// Creates both objects.
pub(super) fn create(lab: &Lab) -> anyhow::Result<()> {
    let uid = ["get", "machinedrainrule", OWNER, "-n", NAMESPACE, "-o", "jsonpath={.metadata.uid}"];
    let mut owner = String::new();
    until("the owner exists", || {
        let (found, uid, _) = lab.try_kubectl("direct", &uid)?;
        owner = uid;
        Ok(found)
    })?;
    for (name, uid) in [(KEPT, owner.as_str()), (COLLECTED, NO_UID)] {
        let file = lab.file(&format!("{name}.json"), &config_map(name, uid).to_string())?;
        lab.kubectl("admin", &["create", "-f", &file])?;
    }
    Ok(())
}

fn config_map(name: &str, owner: &str) -> Value {
    let reference = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule", "name": OWNER,
        "uid": owner});
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [reference]}})
}

/// Waits until the garbage collector has removed the object without an owner: it knows all of Capstan's kinds then.
pub(super) fn wait(lab: &Lab) -> anyhow::Result<()> {
    until("the garbage collector of the host knows the kinds of Capstan", || {
        let get = ["get", "configmap", COLLECTED, "-n", NAMESPACE, "--ignore-not-found", "-o", "name"];
        let (found, name, _) = lab.try_kubectl("admin", &get)?;
        Ok(found && name.is_empty())
    })
}

/// Checks that the object with an owner is still there, and the namespaces, too.
pub(super) fn check(lab: &Lab) -> anyhow::Result<()> {
    let get = ["get", "configmap", KEPT, "-n", NAMESPACE, "-o", "jsonpath={.metadata.deletionTimestamp}"];
    let deleted = lab.kubectl("admin", &get)?;
    ensure!(deleted.is_empty(), "the host deletes the ConfigMap {KEPT}, whose owner exists");
    let phases = ["get", "namespaces", "-o", "jsonpath={.items[*].status.phase}"];
    let phases = lab.kubectl("admin", &phases)?;
    ensure!(phases.split_whitespace().all(|phase| phase == "Active"), "namespaces of the host: {phases}");
    Ok(())
}
