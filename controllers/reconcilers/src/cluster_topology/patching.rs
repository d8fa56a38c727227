//! Templates of one Cluster, after the patches of its class. Pure.

use std::collections::BTreeMap;

use apiserver_types::Cluster;
use controllers_topology::builtins;
use controllers_topology::patches::{self, GroupTemplates, Item, Place, Templates};

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

/// Returns the templates after the patches, which are in the items.
pub(super) fn patched(items: &[Item], blueprint: &Blueprint, parts: &Parts<'_>) -> Patched {
    let find = |place: &Place, template: &Template| {
        let mut items = items.iter();
        let object = items.find(|item| item.place == *place).map(|item| item.template.clone());
        Template { object: object.unwrap_or_else(|| template.object.clone()), ..template.clone() }
    };
    let machine = blueprint.control_plane_machine.as_ref();
    let of_group = |group: &Group<'_>| {
        let workers = Workers {
            bootstrap: find(&Place::bootstrap_of(group.topology), &group.templates.bootstrap),
            infrastructure: find(&Place::infrastructure_of(group.topology), &group.templates.infrastructure),
        };
        (group.topology.name.clone(), workers)
    };
    Patched {
        infrastructure: find(&Place::InfrastructureCluster, &blueprint.infrastructure),
        control_plane: find(&Place::ControlPlane, &blueprint.control_plane),
        control_plane_machine: machine.map(|it| find(&Place::ControlPlaneInfrastructureMachine, it)),
        groups: parts.groups.iter().map(of_group).collect(),
    }
}

/// Returns the templates after the patches that need no server.
///
/// # Errors
/// The first patch that fails. For people.
#[cfg(test)]
pub(super) fn patch(cluster: &Cluster, blueprint: &Blueprint, parts: &Parts<'_>) -> Result<Patched, String> {
    let variables = controllers_topology::variables::by_name(topology(cluster).variables.as_deref());
    let (items, builtin) = (items(cluster, blueprint, parts), builtins::cluster(cluster));
    let items = patches::apply_definitions(&blueprint.class, &variables, &builtin, items);
    Ok(patched(&items.map_err(|error| error.to_string())?, blueprint, parts))
}

/// Returns the templates that the patches are applied to, with their variables.
pub(super) fn items(cluster: &Cluster, blueprint: &Blueprint, parts: &Parts<'_>) -> Vec<Item> {
    let plane = topology(cluster).control_plane.unwrap_or_default();
    let metadata =
        Metadata::merged(blueprint.class.spec.control_plane.metadata.as_ref(), plane.metadata.as_ref());
    let control_plane_facts = builtins::ControlPlane {
        name: &parts.control_plane,
        version: parts.control_plane_version,
        replicas: plane.replicas,
        labels: &metadata.labels,
        annotations: &metadata.annotations,
        infrastructure_name: parts.control_plane_machine.as_deref(),
    };
    let of_group =
        |group: &Group<'_>| Metadata::merged(group.class.metadata.as_ref(), group.topology.metadata.as_ref());
    let of_groups: Vec<Metadata> = parts.groups.iter().map(of_group).collect();
    let groups = parts.groups.iter().zip(&of_groups).map(|(group, metadata)| GroupTemplates {
        topology: group.topology,
        bootstrap: &group.templates.bootstrap.object,
        infrastructure: &group.templates.infrastructure.object,
        facts: builtins::Workers {
            version: group.version,
            class: &group.topology.class,
            name: &group.name,
            topology_name: &group.topology.name,
            replicas: group.topology.replicas,
            labels: &metadata.labels,
            annotations: &metadata.annotations,
            bootstrap_name: &group.bootstrap,
            infrastructure_name: &group.infrastructure,
        },
    });
    let templates = Templates {
        infrastructure: &blueprint.infrastructure.object,
        control_plane: &blueprint.control_plane.object,
        control_plane_machine: blueprint.control_plane_machine.as_ref().map(|it| &it.object),
        control_plane_facts,
        groups: groups.collect(),
    };
    patches::items(cluster, &templates)
}
