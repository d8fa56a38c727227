//! Control plane object of a topology.

use apiserver_types::{Cluster, MachineDeletionSpec};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::super::blueprint::{Blueprint, topology};
use super::super::metadata::Metadata;
use super::super::patching::Patched;
use super::{Parts, first};

/// Fields of a control plane in one version of its contract.
struct Contract {
    /// Path of the settings of Machines.
    machine: &'static str,
    is_old: bool,
}

impl Contract {
    fn of(api_version: &str) -> Self {
        match api_version.ends_with("/v1beta1") {
            true => Self { machine: "/spec/machineTemplate", is_old: true },
            false => Self { machine: "/spec/machineTemplate/spec", is_old: false },
        }
    }

    /// Returns the field and the value of a time limit. Unit: seconds.
    fn timeout(&self, name: &str, seconds: Option<i32>) -> (String, Option<Value>) {
        match self.is_old {
            true => (format!("{}/{name}", self.machine), seconds.map(|it| json!(format!("{it}s")))),
            false => (format!("{}/deletion/{name}Seconds", self.machine), seconds.map(|it| json!(it))),
        }
    }
}

/// Returns the field of a control plane object with the reference to the template of its Machines. `api_version` is that of the
/// object.
pub(in crate::cluster_topology) fn machine_template_field(api_version: &str) -> String {
    let path = format!("{}/infrastructureRef", Contract::of(api_version).machine);
    path.trim_start_matches('/').replace('/', ".")
}

/// Returns the control plane object.
pub(super) fn object(
    cluster: &Cluster,
    blueprint: &Blueprint,
    patched: &Patched,
    parts: &Parts<'_>,
) -> Value {
    let template = &patched.control_plane;
    let class = &blueprint.class.spec.control_plane;
    let plane = topology(cluster).control_plane.unwrap_or_default();
    let merged = Metadata::merged(class.metadata.as_ref(), plane.metadata.as_ref());
    let metadata = Metadata::at(&template.object, "/spec/template/metadata").under(&merged);
    let metadata = metadata.owned(&cluster.name_any(), None).cloned_from(template);
    let spec = template.object.pointer("/spec/template/spec").cloned().unwrap_or_else(|| json!({}));
    let types = (template.resource.api_version.as_str(), template.kind_of_object());
    let mut object = super::object(cluster, types, &parts.control_plane, &metadata, spec);
    let contract = Contract::of(types.0);
    let unpatched = &blueprint.control_plane.object;
    // Patches do not change these fields. A field that the topology does not set is that of the template.
    let mut put = |path: &str, value: Option<Value>| {
        let of_template = || unpatched.pointer(&format!("/spec/template{path}")).cloned();
        put(&mut object, path, value.or_else(of_template));
    };
    put("/spec/version", Some(json!(parts.control_plane_version)));
    put("/spec/replicas", plane.replicas.map(|replicas| json!(replicas)));
    let after = plane.rollout.as_ref().and_then(|rollout| rollout.after.as_ref()).map(|after| json!(after));
    put(if contract.is_old { "/spec/rolloutAfter" } else { "/spec/rollout/after" }, after);
    let of_machines = Metadata::at(unpatched, "/spec/template/spec/machineTemplate/metadata");
    let of_machines = of_machines.under(&merged).owned(&cluster.name_any(), None);
    put("/spec/machineTemplate/metadata", Some(Value::Object(of_machines.json())));
    put(&format!("{}/infrastructureRef", contract.machine), reference(cluster, patched, parts, &contract));
    let gates = first(plane.readiness_gates.as_ref(), class.readiness_gates.as_ref());
    put(&format!("{}/readinessGates", contract.machine), gates.map(|gates| json!(gates)));
    let taints = first(plane.taints.as_ref(), class.taints.as_ref());
    put(&format!("{}/taints", contract.machine), taints.map(|taints| json!(taints)));
    for (name, seconds) in timeouts(plane.deletion.as_ref(), class.deletion.as_ref()) {
        let (path, value) = contract.timeout(name, seconds);
        put(&path, value);
    }
    object
}

/// Returns the reference to the template of the infrastructure of Machines.
fn reference(cluster: &Cluster, patched: &Patched, parts: &Parts<'_>, contract: &Contract) -> Option<Value> {
    let (template, name) =
        patched.control_plane_machine.as_ref().zip(parts.control_plane_machine.as_ref())?;
    let resource = &template.resource;
    Some(match contract.is_old {
        true => json!({
            "apiVersion": resource.api_version, "kind": resource.kind, "name": name,
            "namespace": cluster.namespace(),
        }),
        false => json!({"apiGroup": resource.group, "kind": resource.kind, "name": name}),
    })
}

/// Returns the time limits, each from the topology or from the class. Unit: seconds.
fn timeouts(
    topology: Option<&MachineDeletionSpec>,
    class: Option<&MachineDeletionSpec>,
) -> [(&'static str, Option<i32>); 3] {
    let of = |field: fn(&MachineDeletionSpec) -> Option<i32>| {
        topology.and_then(field).or_else(|| class.and_then(field))
    };
    [
        ("nodeDeletionTimeout", of(|it| it.node_deletion_timeout_seconds)),
        ("nodeDrainTimeout", of(|it| it.node_drain_timeout_seconds)),
        ("nodeVolumeDetachTimeout", of(|it| it.node_volume_detach_timeout_seconds)),
    ]
}

/// Sets a field, and makes the objects around it.
pub(in crate::cluster_topology) fn put(object: &mut Value, path: &str, value: Option<Value>) {
    let Some(value) = value else { return };
    let mut target = object;
    for key in path.split('/').filter(|key| !key.is_empty()) {
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        let Some(fields) = target.as_object_mut() else { return };
        target = fields.entry(key).or_insert(Value::Null);
    }
    *target = value;
}
