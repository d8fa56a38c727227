//! Conversion of Machine.

use serde_json::{Value, json};

use crate::core_status::StatusFields;
use crate::fields::{get, put, rename_as, take};
use crate::{Rules, machine_spec};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "Machine",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored,
    from_stored,
};

const STATUS: StatusFields = StatusFields {
    deprecated: &["conditions", "failureReason", "failureMessage"],
    modern: &["conditions"],
    milestones: &[
        ("bootstrapReady", "bootstrapDataSecretCreated"),
        ("infrastructureReady", "infrastructureProvisioned"),
    ],
};

fn default(machine: &mut Value) {
    machine_spec::default(machine, "spec");
}

fn to_stored(machine: &mut Value) {
    machine_spec::to_stored(machine, "spec");
    rename_as(machine, "status.nodeRef", "status.nodeRef", |node| {
        let name = node.get("name").filter(|name| name.is_string())?;
        Some(json!({"name": name}))
    });
    STATUS.to_stored(machine);
}

fn from_stored(machine: &mut Value) {
    machine_spec::from_stored(machine, "spec");
    take(machine, "spec.minReadySeconds");
    take(machine, "status.failureDomain");
    rename_as(machine, "status.nodeRef", "status.nodeRef", |node| {
        let name = node.get("name")?;
        Some(json!({"apiVersion": "v1", "kind": "Node", "name": name}))
    });
    // v1beta1 has no field for a Machine that is updated in place.
    if get(machine, "status.phase") == Some(&json!("Updating")) {
        put(machine, "status.phase", json!("Running"));
    }
    STATUS.to_older(machine);
}
