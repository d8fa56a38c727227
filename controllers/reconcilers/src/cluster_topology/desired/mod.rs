//! Objects that a topology wants, from the templates of its class. Pure.

mod control_plane;
mod deployments;
mod health_checks;

use apiserver_types::{Cluster, MachineDeploymentClass, MachineDeploymentTopology};
use kube::ResourceExt;
use serde_json::{Value, json};

pub(super) use control_plane::{machine_template_field, put};

use super::blueprint::{Blueprint, Template, WorkerTemplates, groups};
use super::current::Current;
use super::metadata::Metadata;
use super::naming;
use super::patching::Patched;
use super::upgrade::Upgrade;
use crate::ownership;

/// Names and versions of a pass.
#[derive(Debug, Clone)]
pub(super) struct Parts<'a> {
    pub infrastructure: String,
    pub control_plane: String,
    pub control_plane_version: &'a str,
    /// `None` if the class has no such template.
    pub control_plane_machine: Option<String>,
    pub groups: Vec<Group<'a>>,
}

/// Worker group that exists or is made in this pass.
#[derive(Debug, Clone)]
pub(super) struct Group<'a> {
    pub topology: &'a MachineDeploymentTopology,
    pub class: &'a MachineDeploymentClass,
    pub templates: &'a WorkerTemplates,
    pub name: String,
    pub bootstrap: String,
    pub infrastructure: String,
    pub version: &'a str,
    /// The object is written in this pass. Its health check is in any case.
    pub is_written: bool,
}

/// Objects that are wanted.
#[derive(Debug, Clone)]
pub(super) struct Desired {
    pub infrastructure: Value,
    pub control_plane: Value,
    pub control_plane_machine: Option<Value>,
    pub control_plane_check: Option<Value>,
    pub groups: Vec<DesiredGroup>,
}

/// Objects of a worker group.
#[derive(Debug, Clone)]
pub(super) struct DesiredGroup {
    pub topology_name: String,
    pub object: Value,
    pub bootstrap: Value,
    pub infrastructure: Value,
    pub check: Option<Value>,
    pub is_written: bool,
}

/// Returns the names of all parts: those of existing objects, or new ones.
///
/// # Errors
/// A naming rule of the class is wrong, or a class of workers is missing. For people.
pub(super) fn parts<'a>(
    cluster: &'a Cluster,
    blueprint: &'a Blueprint,
    current: &Current,
    upgrade: &'a Upgrade,
) -> Result<Parts<'a>, String> {
    let class = &blueprint.class.spec;
    let infrastructure = match &current.infrastructure {
        Some(object) => name(object),
        None => naming::of_cluster(cluster, class.infrastructure.naming.as_ref())?,
    };
    let control_plane = match &current.control_plane {
        Some(object) => name(object),
        None => naming::of_cluster(cluster, class.control_plane.naming.as_ref())?,
    };
    let template = |object: Option<&Value>, group: Option<&str>| {
        object.map_or_else(|| naming::of_template(&naming::prefix(cluster, group)), name)
    };
    let control_plane_machine = blueprint.control_plane_machine.as_ref();
    let control_plane_machine =
        control_plane_machine.map(|_| template(current.control_plane_machine.as_ref(), None));
    let mut parts = Vec::new();
    for topology in groups(cluster) {
        let Some(decision) = upgrade.group(&topology.name) else { continue };
        let existing = current.group(&topology.name);
        if existing.is_none() && !decision.is_written() {
            continue;
        }
        let (class, templates) = blueprint.of_group(topology)?;
        let name = match existing {
            Some(existing) => existing.object.name_any(),
            None => naming::of_deployment(cluster, &topology.name, class.naming.as_ref())?,
        };
        let group = Some(topology.name.as_str());
        parts.push(Group {
            topology,
            class,
            templates,
            name,
            bootstrap: template(existing.and_then(|it| it.bootstrap.as_ref()), group),
            infrastructure: template(existing.and_then(|it| it.infrastructure.as_ref()), group),
            version: &decision.version,
            is_written: decision.is_written(),
        });
    }
    let control_plane_version = &upgrade.control_plane.version;
    Ok(Parts { infrastructure, control_plane, control_plane_version, control_plane_machine, groups: parts })
}

/// Returns the objects that a topology wants, from the patched templates.
///
/// # Errors
/// A health check is on without a definition. For people.
pub(super) fn desired(
    cluster: &Cluster,
    blueprint: &Blueprint,
    parts: &Parts<'_>,
    patched: &Patched,
) -> Result<Desired, String> {
    let machine = patched.control_plane_machine.as_ref().zip(parts.control_plane_machine.as_ref());
    let machine = machine.map(|(template, name)| copy(template, cluster, name, None));
    let mut groups = Vec::with_capacity(parts.groups.len());
    for group in &parts.groups {
        let Some(templates) = patched.groups.get(&group.topology.name) else { continue };
        groups.push(deployments::group(cluster, group, templates)?);
    }
    Ok(Desired {
        infrastructure: infrastructure(cluster, &patched.infrastructure, &parts.infrastructure),
        control_plane: control_plane::object(cluster, blueprint, patched, parts),
        control_plane_machine: machine,
        control_plane_check: health_checks::of_control_plane(cluster, blueprint, &parts.control_plane)?,
        groups,
    })
}

/// Returns the name of an object.
pub(super) fn name(object: &Value) -> String {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Field of a MachineDeployment with the reference to its bootstrap template.
pub(super) const BOOTSTRAP: &str = "bootstrap/configRef";

/// Field of a MachineDeployment with the reference to its infrastructure template.
pub(super) const INFRASTRUCTURE: &str = "infrastructureRef";

/// Sets the name of a template of a MachineDeployment.
pub(super) fn refer_to_template(deployment: &mut Value, field: &str, name: &str) {
    put(deployment, &format!("/spec/template/spec/{field}/name"), Some(json!(name)));
}

/// Sets the name of the template of the Machines of a control plane, in either version of its contract.
pub(super) fn refer_to_machine_template(control_plane: &mut Value, name: &str) {
    for path in ["/spec/machineTemplate/spec/infrastructureRef", "/spec/machineTemplate/infrastructureRef"] {
        if control_plane.pointer(path).is_some() {
            put(control_plane, &format!("{path}/name"), Some(json!(name)));
        }
    }
}

/// Returns an object with these names and this metadata. The Cluster is its owner from the start, so that it goes with the
/// Cluster whatever happens.
fn object(cluster: &Cluster, types: (&str, &str), name: &str, metadata: &Metadata, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": types.0, "kind": types.1,
        "metadata": {
            "name": name, "namespace": cluster.namespace(), "ownerReferences": [ownership::shared(cluster)],
        },
    });
    if let Some(target) = object.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        target.extend(metadata.json());
    }
    if spec.as_object().is_some_and(|fields| !fields.is_empty()) {
        object["spec"] = spec;
    }
    object
}

/// Returns the object that a template describes.
fn infrastructure(cluster: &Cluster, template: &Template, name: &str) -> Value {
    let metadata = Metadata::at(&template.object, "/spec/template/metadata");
    let metadata = metadata.owned(&cluster.name_any(), None).cloned_from(template);
    let mut spec = template.object.pointer("/spec/template/spec").cloned().unwrap_or_default();
    remove_empty_endpoint(&mut spec);
    let types = (template.resource.api_version.as_str(), template.kind_of_object());
    object(cluster, types, name, &metadata, spec)
}

/// Removes what a template has of an endpoint without content: `host: ""` and `port: 0`, as some clients write them. The
/// endpoint of the object comes from its own controller, and the topology must not take it back.
fn remove_empty_endpoint(spec: &mut Value) {
    let endpoint = spec.pointer_mut("/controlPlaneEndpoint").and_then(Value::as_object_mut);
    let Some(endpoint) = endpoint else { return };
    endpoint.retain(|_, value| *value != json!("") && *value != json!(0));
    let is_empty = endpoint.is_empty();
    if let Some(fields) = spec.as_object_mut().filter(|_| is_empty) {
        fields.remove("controlPlaneEndpoint");
    }
}

/// Returns a template of this Cluster alone. `group` is the name of a worker group.
fn copy(template: &Template, cluster: &Cluster, name: &str, group: Option<&str>) -> Value {
    let metadata = Metadata::at(&template.object, "/metadata");
    let metadata = metadata.owned(&cluster.name_any(), group).cloned_from(template);
    let spec = template.object.get("spec").cloned().unwrap_or_default();
    let types = (template.resource.api_version.as_str(), template.resource.kind.as_str());
    object(cluster, types, name, &metadata, spec)
}

/// Returns a field of a part of the topology, or that of its class.
fn first<T: Clone>(topology: Option<&T>, class: Option<&T>) -> Option<T> {
    topology.or(class).cloned()
}

#[cfg(test)]
mod tests;
