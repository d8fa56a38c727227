//! Garbage collection: owners, their dependents, and the three deletion policies.

use anyhow::ensure;
use serde_json::{Value, json};

use super::lab::{Lab, until};

fn exists(lab: &Lab, kind: &str, name: &str) -> anyhow::Result<bool> {
    let (found, _, error) = lab.try_kubectl("direct", &["get", kind, name, "-n", "default"])?;
    ensure!(found || error.contains("not found"), "{error}");
    Ok(found)
}

/// Creates a Cluster and a Machine that it owns. `other` is a second owner of the Machine.
fn create(lab: &Lab, owner: &str, dependent: &str, other: Option<&str>) -> anyhow::Result<()> {
    let mut owners = Vec::new();
    for name in [Some(owner), other].into_iter().flatten() {
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": name, "namespace": "default"}, "spec": {"paused": true}});
        let file = lab.file("cluster.json", &cluster.to_string())?;
        let made = lab.kubectl("direct", &["create", "-f", &file, "-o", "json"])?;
        let made: Value = serde_json::from_str(&made)?;
        owners.push(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": name,
            "uid": made["metadata"]["uid"], "blockOwnerDeletion": true}));
    }
    let machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": dependent, "namespace": "default", "ownerReferences": owners},
        "spec": {"clusterName": owner, "bootstrap": {"dataSecretName": "s"}, "infrastructureRef":
            {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": "m"}}});
    let file = lab.file("machine.json", &machine.to_string())?;
    lab.kubectl("direct", &["create", "-f", &file]).map(|_| ())
}

pub(super) fn background(lab: &Lab) -> anyhow::Result<()> {
    create(lab, "alone", "owned-once", None)?;
    create(lab, "first", "owned-twice", Some("second"))?;
    lab.kubectl("direct", &["delete", "cluster", "alone", "first", "-n", "default"])?;
    until("the dependent is deleted", || Ok(!exists(lab, "machine", "owned-once")?))?;
    until("the deleted owner is removed from the references", || {
        let path = "jsonpath={.metadata.ownerReferences[*].name}";
        let owners =
            lab.kubectl("direct", &["get", "machine", "owned-twice", "-n", "default", "-o", path])?;
        Ok(owners == "second")
    })
}

pub(super) fn other_orders(lab: &Lab) -> anyhow::Result<()> {
    create(lab, "front", "held", None)?;
    let hold = r#"{"metadata":{"finalizers":["example.com/hold"]}}"#;
    lab.kubectl("direct", &["patch", "machine", "held", "-n", "default", "--type=merge", "-p", hold])?;
    lab.kubectl(
        "direct",
        &["delete", "cluster", "front", "-n", "default", "--cascade=foreground", "--wait=false"],
    )?;
    until("the dependent is being deleted", || {
        let path = "jsonpath={.metadata.deletionTimestamp}";
        Ok(!lab.kubectl("direct", &["get", "machine", "held", "-n", "default", "-o", path])?.is_empty())
    })?;
    ensure!(exists(lab, "cluster", "front")?, "the owner was deleted before the dependent that blocks it");
    let release = r#"{"metadata":{"finalizers":null}}"#;
    lab.kubectl("direct", &["patch", "machine", "held", "-n", "default", "--type=merge", "-p", release])?;
    until("the owner is deleted", || Ok(!exists(lab, "cluster", "front")?))?;

    create(lab, "leaver", "orphan", None)?;
    lab.kubectl(
        "direct",
        &["delete", "cluster", "leaver", "-n", "default", "--cascade=orphan", "--timeout=30s"],
    )?;
    let path = "jsonpath={.metadata.ownerReferences}";
    let owners = lab.kubectl("direct", &["get", "machine", "orphan", "-n", "default", "-o", path])?;
    ensure!(owners.is_empty(), "the orphan still has the owners {owners}");
    Ok(())
}
