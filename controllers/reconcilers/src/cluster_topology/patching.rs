//! Templates of one Cluster, after the patches of its class. Pure.

use std::collections::BTreeMap;

use apiserver_types::{Cluster, ClusterVariable, MachineDeploymentTopology, VariableOverrides};
use controllers_topology::builtins;
use controllers_topology::patches::{self, Item, Place};
use controllers_topology::variables::by_name;
use serde_json::Value;

use super::blueprint::{Blueprint, Template, topology};
use super::desired::{Group, Parts};
use super::metadata::Metadata;

/// Patched templates of a worker group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Workers {
    pub bootstrap: Template,
    pub infrastructure: Template,
}

/// Patched templates.
#[derive(Debug, Clone)]
pub(super) struct Patched {
    pub infrastructure: Template,
    pub control_plane: Template,
    pub control_plane_machine: Option<Template>,
    /// By the name of the group in the topology.
    pub groups: BTreeMap<String, Workers>,
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

/// Applies the patches of a class to its templates.
///
/// # Errors
/// The first patch that fails. For people.
pub(super) fn patch(cluster: &Cluster, blueprint: &Blueprint, parts: &Parts<'_>) -> Result<Patched, String> {
    let items = items(cluster, blueprint, parts);
    let variables = by_name(topology(cluster).variables.as_deref());
    let items = patches::apply(&blueprint.class, &variables, &builtins::cluster(cluster), items)
        .map_err(|error| error.to_string())?;
    let find = |place: &Place, template: &Template| {
        let mut items = items.iter();
        let object = items.find(|item| item.place == *place).map(|item| item.template.clone());
        Template { object: object.unwrap_or_else(|| template.object.clone()), ..template.clone() }
    };
    let machine = blueprint.control_plane_machine.as_ref();
    let of_group = |group: &Group<'_>| {
        let workers = Workers {
            bootstrap: find(&bootstrap(group.topology), &group.templates.bootstrap),
            infrastructure: find(&infrastructure(group.topology), &group.templates.infrastructure),
        };
        (group.topology.name.clone(), workers)
    };
    Ok(Patched {
        infrastructure: find(&Place::InfrastructureCluster, &blueprint.infrastructure),
        control_plane: find(&Place::ControlPlane, &blueprint.control_plane),
        control_plane_machine: machine.map(|it| find(&Place::ControlPlaneInfrastructureMachine, it)),
        groups: parts.groups.iter().map(of_group).collect(),
    })
}

fn bootstrap(group: &MachineDeploymentTopology) -> Place {
    Place::DeploymentBootstrap { class: group.class.clone(), topology_name: group.name.clone() }
}

fn infrastructure(group: &MachineDeploymentTopology) -> Place {
    Place::DeploymentInfrastructure { class: group.class.clone(), topology_name: group.name.clone() }
}

fn overrides(variables: Option<&VariableOverrides>) -> BTreeMap<String, Value> {
    let values: Option<&[ClusterVariable]> = variables.and_then(|it| it.overrides.as_deref());
    by_name(values)
}

/// Returns the templates that the patches are applied to, with their variables.
fn items(cluster: &Cluster, blueprint: &Blueprint, parts: &Parts<'_>) -> Vec<Item> {
    let plane = topology(cluster).control_plane.unwrap_or_default();
    let metadata =
        Metadata::merged(blueprint.class.spec.control_plane.metadata.as_ref(), plane.metadata.as_ref());
    let builtin = builtins::control_plane(builtins::ControlPlane {
        name: &parts.control_plane,
        version: parts.control_plane_version,
        replicas: plane.replicas,
        labels: &metadata.labels,
        annotations: &metadata.annotations,
        infrastructure_name: parts.control_plane_machine.as_deref(),
    });
    let item = |place, template: &Template, variables, builtin: &Value| Item {
        place,
        template: template.object.clone(),
        variables,
        builtin: builtin.clone(),
    };
    let of_plane = || overrides(plane.variables.as_ref());
    let infrastructure_item =
        item(Place::InfrastructureCluster, &blueprint.infrastructure, BTreeMap::new(), &Value::Null);
    let mut items =
        vec![infrastructure_item, item(Place::ControlPlane, &blueprint.control_plane, of_plane(), &builtin)];
    if let Some(machine) = &blueprint.control_plane_machine {
        items.push(item(Place::ControlPlaneInfrastructureMachine, machine, of_plane(), &builtin));
    }
    for group in &parts.groups {
        let metadata = Metadata::merged(group.class.metadata.as_ref(), group.topology.metadata.as_ref());
        let builtin = builtins::machine_deployment(builtins::Workers {
            version: group.version,
            class: &group.topology.class,
            name: &group.name,
            topology_name: &group.topology.name,
            replicas: group.topology.replicas,
            labels: &metadata.labels,
            annotations: &metadata.annotations,
            bootstrap_name: &group.bootstrap,
            infrastructure_name: &group.infrastructure,
        });
        let of_group = || overrides(group.topology.variables.as_ref());
        items.push(item(bootstrap(group.topology), &group.templates.bootstrap, of_group(), &builtin));
        items.push(item(
            infrastructure(group.topology),
            &group.templates.infrastructure,
            of_group(),
            &builtin,
        ));
    }
    items
}
