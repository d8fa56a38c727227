//! Objects of a Cluster that its topology has made.

use std::collections::BTreeSet;

use apiserver_types::{
    Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachineHealthCheck,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::blueprint::{Blueprint, FAILED, groups, value};
use super::metadata::{DEFER, HOLD};
use super::upgrade::{control_plane, workers};
use super::{DEPLOYMENT, OWNED};
use crate::machine_versions::parse;
use crate::{CLUSTER_NAME_LABEL, templates};

/// Objects of a Cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Current {
    pub infrastructure: Option<Value>,
    pub control_plane: Option<Value>,
    /// Template of the infrastructure of control plane Machines.
    pub control_plane_machine: Option<Value>,
    pub health_checks: Vec<MachineHealthCheck>,
    pub deployments: Vec<Deployment>,
}

/// Worker group of the topology.
#[derive(Debug, Clone, Default)]
pub(super) struct Deployment {
    pub topology_name: String,
    pub object: MachineDeployment,
    /// `None` if it does not exist.
    pub bootstrap: Option<Value>,
    /// `None` if it does not exist.
    pub infrastructure: Option<Value>,
    /// A Machine has another version than the MachineDeployment.
    pub is_upgrading: bool,
}

impl Current {
    /// Returns a worker group, unless it is being deleted.
    pub(super) fn group(&self, topology_name: &str) -> Option<&Deployment> {
        self.deployments
            .iter()
            .find(|it| it.topology_name == topology_name && it.object.metadata.deletion_timestamp.is_none())
    }

    /// Returns the worker groups that left the topology.
    pub(super) fn unwanted_groups<'a>(
        &'a self,
        cluster: &'a Cluster,
    ) -> impl Iterator<Item = &'a Deployment> {
        let is_wanted = |name: &str| groups(cluster).iter().any(|group| group.name == name);
        self.deployments.iter().filter(move |it| !is_wanted(&it.topology_name))
    }

    /// Returns a health check.
    pub(super) fn health_check(&self, name: &str) -> Option<&MachineHealthCheck> {
        self.health_checks.iter().find(|check| check.name_any() == name)
    }

    /// Returns the health checks that are not among the wanted ones.
    pub(super) fn unwanted_checks<'a>(
        &'a self,
        wanted: &'a [String],
    ) -> impl Iterator<Item = &'a MachineHealthCheck> {
        self.health_checks.iter().filter(|check| !wanted.contains(&check.name_any()))
    }

    /// Returns the state of the control plane for the decision on versions.
    pub(super) fn control_plane_state(&self) -> Option<control_plane::State> {
        self.control_plane.as_ref().map(state)
    }

    /// Returns the states of the worker groups, in the order of the topology.
    pub(super) fn groups(&self, cluster: &Cluster) -> Vec<workers::Group> {
        let of = |topology: &apiserver_types::MachineDeploymentTopology| {
            let annotations = topology.metadata.as_ref().and_then(|it| it.annotations.as_ref());
            let has = |key: &str| annotations.is_some_and(|it| it.contains_key(key));
            let current = self.group(&topology.name);
            workers::Group {
                topology_name: topology.name.clone(),
                object: current.map(|it| it.object.name_any()).unwrap_or_default(),
                version: current.map(|it| version(&it.object)),
                is_upgrading: current.is_some_and(|it| it.is_upgrading),
                defers: has(DEFER),
                holds: has(HOLD),
            }
        };
        groups(cluster).iter().map(of).collect()
    }
}

fn version(deployment: &MachineDeployment) -> String {
    deployment.spec.template.spec.version.clone().unwrap_or_default()
}

/// Returns the state of a control plane object, in either version of its contract.
pub(super) fn state(object: &Value) -> control_plane::State {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|it| !it.is_empty());
    let entries = object.pointer("/status/versions").and_then(Value::as_array);
    let mut running: Vec<&str> =
        entries.into_iter().flatten().filter_map(|it| it.get("version")?.as_str()).collect();
    if running.is_empty() {
        running.extend(text("/status/version"));
    }
    let wanted = text("/spec/version").unwrap_or_default();
    let is_behind = |version: &&str| parse(version) < parse(wanted);
    control_plane::State {
        version: wanted.to_owned(),
        is_provisioning: running.is_empty(),
        is_upgrading: running.iter().any(is_behind),
    }
}

/// Reads the objects of a Cluster.
///
/// # Errors
/// An object is not the topology's, or the API's own failure.
pub(super) async fn read(
    context: &ControllerContext,
    cluster: &Cluster,
    blueprint: &Blueprint,
) -> Result<Current, ReconcileError> {
    let reader = Reader { context, cluster };
    let infrastructure = &blueprint.infrastructure;
    let reference = cluster.spec.infrastructure_ref.as_ref();
    let resource = reader.of_template(&infrastructure.resource, infrastructure.kind_of_object())?;
    let infrastructure = reader.part(reference, &resource, "spec.infrastructureRef").await?;
    let control_plane = &blueprint.control_plane;
    let reference = cluster.spec.control_plane_ref.as_ref();
    let resource = reader.of_template(&control_plane.resource, control_plane.kind_of_object())?;
    let control_plane = reader.part(reference, &resource, "spec.controlPlaneRef").await?;
    let machine = match control_plane.as_ref().and_then(machine_template) {
        Some(reference) => reader.template(&reference, blueprint.control_plane_machine.as_ref()).await?,
        None => None,
    };
    Ok(Current {
        infrastructure,
        control_plane,
        control_plane_machine: machine,
        health_checks: reader.health_checks().await?,
        deployments: reader.deployments(blueprint).await?,
    })
}

/// Returns the reference of a control plane to the template of its Machines, in either version of its contract.
pub(super) fn machine_template(control_plane: &Value) -> Option<ContractVersionedObjectReference> {
    let new = control_plane.pointer("/spec/machineTemplate/spec/infrastructureRef");
    let found = new.or_else(|| control_plane.pointer("/spec/machineTemplate/infrastructureRef"))?;
    let text = |key: &str| found.get(key).and_then(Value::as_str);
    let group = text("apiGroup").or_else(|| text("apiVersion")?.split_once('/').map(|(group, _)| group));
    Some(ContractVersionedObjectReference {
        api_group: group?.to_owned(),
        kind: text("kind")?.to_owned(),
        name: text("name")?.to_owned(),
    })
}

struct Reader<'a> {
    context: &'a ControllerContext,
    cluster: &'a Cluster,
}

impl Reader<'_> {
    fn namespace(&self) -> String {
        self.cluster.namespace().unwrap_or_default()
    }

    fn labels(&self) -> ListParams {
        ListParams::default().labels(&format!("{CLUSTER_NAME_LABEL}={},{OWNED}", self.cluster.name_any()))
    }

    /// Returns the resource of the objects of a template, in its version.
    fn of_template(&self, template: &ApiResource, kind: &str) -> Result<ApiResource, ReconcileError> {
        super::blueprint::resource(self.context, &template.api_version, kind).ok_or_else(|| {
            let message = format!("kind {kind} of {} is not served here", template.api_version);
            ReconcileError::waiting(FAILED, message)
        })
    }

    /// Reads an object that the Cluster names. Without a reference, that of an earlier pass which ended before it wrote
    /// the reference.
    async fn part(
        &self,
        reference: Option<&ContractVersionedObjectReference>,
        resource: &ApiResource,
        field: &str,
    ) -> Result<Option<Value>, ReconcileError> {
        let (client, namespace) = (self.context.client.clone(), self.namespace());
        let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, resource);
        let Some(reference) = reference else {
            let mut found = api.list(&self.labels()).await?.items;
            found.retain(|object| object.metadata.deletion_timestamp.is_none());
            found.sort_by_key(|object| (object.creation_timestamp().map(|at| at.0), object.name_any()));
            return Ok(found.first().map(value));
        };
        let shown = format!("{} {namespace}/{}", reference.kind, reference.name);
        let failed = |message: String| Err(ReconcileError::waiting(FAILED, message));
        if (reference.kind.as_str(), reference.api_group.as_str()) != (&resource.kind, &resource.group) {
            let (kind, group) = (&resource.kind, &resource.group);
            return failed(format!(
                "{field} names {shown} of group {}, but the ClusterClass makes {kind} of group {group}. Use a class \
                 with the same kinds",
                reference.api_group
            ));
        }
        let Some(object) = api.get_opt(&reference.name).await? else {
            return failed(format!("{shown} of {field} does not exist"));
        };
        if !object.labels().contains_key(OWNED) {
            return failed(format!(
                "{shown} of {field} is not topology owned. Add the label {OWNED} to let the topology manage it"
            ));
        }
        Ok(Some(value(&object)))
    }

    /// Reads a template that an object names, in the version of its class's template if it has the same kind. `None` if it
    /// does not exist.
    async fn template(
        &self,
        reference: &ContractVersionedObjectReference,
        of_class: Option<&super::blueprint::Template>,
    ) -> Result<Option<Value>, ReconcileError> {
        let is_same = |it: &&super::blueprint::Template| {
            it.resource.kind == reference.kind && it.resource.group == reference.api_group
        };
        let resource = match of_class.filter(is_same) {
            Some(template) => template.resource.clone(),
            None => match templates::resource(self.context, &reference.api_group, &reference.kind) {
                Some(resource) => resource,
                None => return Ok(None),
            },
        };
        let client = self.context.client.clone();
        let api: Api<DynamicObject> = Api::namespaced_with(client, &self.namespace(), &resource);
        Ok(api.get_opt(&reference.name).await?.map(|object| value(&object)))
    }

    async fn health_checks(&self) -> Result<Vec<MachineHealthCheck>, ReconcileError> {
        let api: Api<MachineHealthCheck> = Api::namespaced(self.context.client.clone(), &self.namespace());
        Ok(api.list(&self.labels()).await?.items)
    }

    async fn deployments(&self, blueprint: &Blueprint) -> Result<Vec<Deployment>, ReconcileError> {
        let client = self.context.client.clone();
        let api: Api<MachineDeployment> = Api::namespaced(client.clone(), &self.namespace());
        let of_cluster = format!("{CLUSTER_NAME_LABEL}={}", self.cluster.name_any());
        let objects = api.list(&ListParams::default().labels(&of_cluster)).await?.items;
        let (objects, others): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|it| it.labels().contains_key(OWNED));
        let api: Api<Machine> = Api::namespaced(client, &self.namespace());
        let machines = if objects.is_empty() { Vec::new() } else { api.list(&self.labels()).await?.items };
        let mut names = BTreeSet::new();
        let mut found = Vec::with_capacity(objects.len());
        for object in objects {
            let topology_name = object.labels().get(DEPLOYMENT).cloned().unwrap_or_default();
            let is_going = object.metadata.deletion_timestamp.is_some();
            if topology_name.is_empty() || (!is_going && !names.insert(topology_name.clone())) {
                let (name, key) = (object.name_any(), DEPLOYMENT);
                let message = match topology_name.as_str() {
                    "" => format!("MachineDeployment {name} is topology owned, but has no label {key}"),
                    group => {
                        format!("several MachineDeployments have the label {key}={group}. Delete all but one")
                    }
                };
                return Err(ReconcileError::waiting(FAILED, message));
            }
            found.push(self.deployment(blueprint, object, topology_name, &machines).await?);
        }
        let mut wanted = groups(self.cluster).iter().map(|group| group.name.as_str());
        match wanted.find_map(|name| stray(name, &names, &others)) {
            Some(message) => Err(ReconcileError::waiting(FAILED, message)),
            None => Ok(found),
        }
    }

    async fn deployment(
        &self,
        blueprint: &Blueprint,
        object: MachineDeployment,
        topology_name: String,
        machines: &[Machine],
    ) -> Result<Deployment, ReconcileError> {
        let mut topologies = groups(self.cluster).iter();
        let topology = topologies.find(|topology| topology.name == topology_name);
        let templates = topology.and_then(|topology| blueprint.deployments.get(&topology.class));
        let spec = &object.spec.template.spec;
        let bootstrap = match &spec.bootstrap.config_ref {
            Some(reference) => self.template(reference, templates.map(|it| &it.bootstrap)).await?,
            None => None,
        };
        let infrastructure =
            self.template(&spec.infrastructure_ref, templates.map(|it| &it.infrastructure)).await?;
        let own = machines.iter().filter(|it| it.labels().get(DEPLOYMENT) == Some(&topology_name));
        let is_upgrading = is_upgrading(&version(&object), own);
        Ok(Deployment { topology_name, object, bootstrap, infrastructure, is_upgrading })
    }
}

/// Returns why a worker group cannot be made: a MachineDeployment has its label, but not that of the topology. A second one
/// would double the Machines. `owned` are the groups that have an object; `others` are not topology owned.
fn stray(group: &str, owned: &BTreeSet<String>, others: &[MachineDeployment]) -> Option<String> {
    let is_of_group = |it: &&MachineDeployment| {
        it.metadata.deletion_timestamp.is_none() && it.labels().get(DEPLOYMENT).is_some_and(|of| of == group)
    };
    let found = others.iter().find(is_of_group).filter(|_| !owned.contains(group))?;
    Some(format!(
        "MachineDeployment {} has the label {DEPLOYMENT}={group}, but is not topology owned. Add the label {OWNED} to let \
         the topology manage it, or delete it",
        found.name_any()
    ))
}

/// Returns true if a Machine, or its kubelet, has another version.
pub(super) fn is_upgrading<'a>(version: &str, machines: impl IntoIterator<Item = &'a Machine>) -> bool {
    machines.into_iter().any(|machine| {
        let node = machine.status.as_ref().and_then(|status| status.node_info.as_ref());
        let kubelet = node.map(|node| node.kubelet_version.as_str()).filter(|found| !found.is_empty());
        machine.spec.version.as_deref() != Some(version) || kubelet.is_some_and(|found| found != version)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_control_plane_provisions_until_it_reports_a_version_and_upgrades_until_none_is_older() {
        let table = [
            (json!({}), true, false),
            (json!({"version": "v1.33.0"}), false, false),
            (json!({"version": "v1.32.0"}), false, true),
            (json!({"versions": [{"version": "v1.33.0"}, {"version": "v1.32.0"}]}), false, true),
            (json!({"versions": [{"version": "v1.33.0"}], "version": "v1.32.0"}), false, false),
            (json!({"version": "v1.34.0"}), false, false),
        ];
        for (status, provisioning, upgrading) in table {
            let found = state(&json!({"spec": {"version": "v1.33.0"}, "status": status}));
            assert_eq!((found.is_provisioning, found.is_upgrading), (provisioning, upgrading), "{status}");
        }
    }

    #[test]
    fn a_group_is_upgrading_while_a_machine_or_its_kubelet_has_another_version() {
        let machine = |version: &str, kubelet: &str| -> Machine {
            let status = json!({"nodeInfo": {"kubeletVersion": kubelet}});
            let mut machine = Machine::default();
            machine.spec.version = Some(version.to_owned());
            if !kubelet.is_empty() {
                let whole = json!({
                    "architecture": "", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
                    "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
                    "kubeletVersion": kubelet,
                });
                let status = serde_json::from_value(status);
                machine.status = status.or_else(|_| serde_json::from_value(json!({"nodeInfo": whole}))).ok();
            }
            machine
        };
        let table = [
            (machine("v1.33.0", ""), false),
            (machine("v1.33.0", "v1.33.0"), false),
            (machine("v1.33.0", "v1.32.0"), true),
            (machine("v1.32.0", "v1.33.0"), true),
        ];
        for (machine, expected) in table {
            assert_eq!(is_upgrading("v1.33.0", [&machine]), expected, "{machine:?}");
        }
    }

    #[test]
    fn a_deployment_without_the_label_of_the_topology_keeps_its_group_from_being_made_twice() {
        let mut deployment = MachineDeployment::default();
        deployment.metadata.name = Some("c-md-0-x".to_owned());
        deployment.labels_mut().insert(DEPLOYMENT.to_owned(), "md-0".to_owned());
        let of = |group: &str, owned: &[&str], deployment: &MachineDeployment| {
            let owned = owned.iter().map(|&name| name.to_owned()).collect();
            stray(group, &owned, std::slice::from_ref(deployment))
        };
        let message = of("md-0", &[], &deployment).unwrap();
        assert!(message.starts_with("MachineDeployment c-md-0-x has the label"), "{message}");
        assert!(message.contains("Add the label topology.cluster.x-k8s.io/owned"), "{message}");
        assert_eq!(of("md-1", &[], &deployment), None);
        assert_eq!(of("md-0", &["md-0"], &deployment), None, "the topology has one of its own");
        let mut going = deployment;
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        going.metadata.deletion_timestamp = Some(now);
        assert_eq!(of("md-0", &[], &going), None);
    }

    #[test]
    fn the_template_of_machines_is_read_in_both_versions_of_the_contract() {
        let new = json!({"apiGroup": "g", "kind": "K", "name": "n"});
        let old = json!({"apiVersion": "g/v1beta1", "kind": "K", "name": "n"});
        for object in [
            json!({"spec": {"machineTemplate": {"spec": {"infrastructureRef": new}}}}),
            json!({"spec": {"machineTemplate": {"infrastructureRef": old}}}),
        ] {
            let found = machine_template(&object).unwrap();
            assert_eq!((found.api_group.as_str(), found.kind.as_str(), found.name.as_str()), ("g", "K", "n"));
        }
    }
}
