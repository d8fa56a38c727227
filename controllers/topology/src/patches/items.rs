//! Items of a topology: its templates, with the variables that patches see.

use std::collections::BTreeMap;

use apiserver_types::{Cluster, MachineDeploymentTopology, VariableOverrides};
use serde_json::Value;

use super::{Item, Place};
use crate::builtins::{self, ControlPlane, Workers};
use crate::variables::by_name;

/// Templates of a topology, with the facts for their built-in variables. Each is a whole object.
#[derive(Debug, Clone)]
pub struct Templates<'a> {
    /// Template of the infrastructure object of the Cluster.
    pub infrastructure: &'a Value,
    /// Template of the control plane object.
    pub control_plane: &'a Value,
    /// Template of the infrastructure objects of control plane Machines. `None` if the class has none.
    pub control_plane_machine: Option<&'a Value>,
    /// Facts of the control plane.
    pub control_plane_facts: ControlPlane<'a>,
    /// Worker groups that are MachineDeployments.
    pub groups: Vec<GroupTemplates<'a>>,
}

/// Templates of a worker group.
#[derive(Debug, Clone)]
pub struct GroupTemplates<'a> {
    /// Worker group in the topology.
    pub topology: &'a MachineDeploymentTopology,
    /// Bootstrap template.
    pub bootstrap: &'a Value,
    /// Infrastructure template.
    pub infrastructure: &'a Value,
    /// Facts of the MachineDeployment.
    pub facts: Workers<'a>,
}

impl Place {
    /// Returns the use of the bootstrap template of a worker group.
    pub fn bootstrap_of(group: &MachineDeploymentTopology) -> Self {
        Self::DeploymentBootstrap { class: group.class.clone(), topology_name: group.name.clone() }
    }

    /// Returns the use of the infrastructure template of a worker group.
    pub fn infrastructure_of(group: &MachineDeploymentTopology) -> Self {
        Self::DeploymentInfrastructure { class: group.class.clone(), topology_name: group.name.clone() }
    }
}

/// Returns the templates that the patches are applied to, with their variables.
pub fn items(cluster: &Cluster, templates: &Templates<'_>) -> Vec<Item> {
    let item = |place, template: &Value, variables, builtin: &Value| Item {
        place,
        template: template.clone(),
        variables,
        builtin: builtin.clone(),
    };
    let plane = cluster.spec.topology.as_ref().and_then(|topology| topology.control_plane.as_ref());
    let of_plane = || overrides(plane.and_then(|it| it.variables.as_ref()));
    let builtin = builtins::control_plane(templates.control_plane_facts);
    let (none, infrastructure) = (BTreeMap::new(), templates.infrastructure);
    let mut items = vec![
        item(Place::InfrastructureCluster, infrastructure, none, &Value::Null),
        item(Place::ControlPlane, templates.control_plane, of_plane(), &builtin),
    ];
    if let Some(machine) = templates.control_plane_machine {
        items.push(item(Place::ControlPlaneInfrastructureMachine, machine, of_plane(), &builtin));
    }
    for group in &templates.groups {
        let builtin = builtins::machine_deployment(group.facts);
        let of_group = || overrides(group.topology.variables.as_ref());
        let (bootstrap, infrastructure) =
            (Place::bootstrap_of(group.topology), Place::infrastructure_of(group.topology));
        items.push(item(bootstrap, group.bootstrap, of_group(), &builtin));
        items.push(item(infrastructure, group.infrastructure, of_group(), &builtin));
    }
    items
}

fn overrides(variables: Option<&VariableOverrides>) -> BTreeMap<String, Value> {
    by_name(variables.and_then(|it| it.overrides.as_deref()))
}
