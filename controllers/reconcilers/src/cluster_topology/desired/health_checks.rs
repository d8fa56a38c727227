//! MachineHealthChecks of a topology.

use apiserver_types::{
    Cluster, ControlPlaneRemediation, HealthChecks, LabelSelector, MachineDeploymentRemediation,
    MachineHealthCheck, MachineHealthCheckSpec,
};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::super::blueprint::{Blueprint, topology};
use super::super::metadata::{Metadata, Pairs};
use super::super::{DEPLOYMENT, OWNED};
use super::{Group, object};
use crate::CONTROL_PLANE_LABEL;

/// Definition of a health check.
#[derive(Debug, Clone, Default, PartialEq)]
struct Definition {
    checks: Option<HealthChecks>,
    remediation: Option<ControlPlaneRemediation>,
}

impl Definition {
    fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// Returns the definition that counts, if the check is on: the whole one of the topology, else that of the class.
fn chosen(
    enabled: Option<bool>,
    topology: Definition,
    class: Definition,
    field: &str,
) -> Result<Option<Definition>, String> {
    let found = [topology, class].into_iter().find(Definition::is_set);
    match (enabled, found) {
        (Some(false), _) => Ok(None),
        (Some(true), None) => Err(format!(
            "{field}.enabled is true, but neither the topology nor the ClusterClass defines a health check. Define one, \
             or remove the field"
        )),
        (_, found) => Ok(found),
    }
}

/// Returns the check of the control plane; `None` if there is to be none.
///
/// # Errors
/// It is on without a definition. For people.
pub(super) fn of_control_plane(
    cluster: &Cluster,
    blueprint: &Blueprint,
    name: &str,
) -> Result<Option<Value>, String> {
    if blueprint.control_plane_machine.is_none() {
        return Ok(None);
    }
    let check = topology(cluster).control_plane.and_then(|it| it.health_check).unwrap_or_default();
    let class = blueprint.class.spec.control_plane.health_check.clone().unwrap_or_default();
    let own = Definition { checks: check.checks, remediation: check.remediation };
    let of_class = Definition { checks: class.checks, remediation: class.remediation };
    let field = "spec.topology.controlPlane.healthCheck";
    let Some(found) = chosen(check.enabled, own, of_class, field)? else { return Ok(None) };
    let selector = [OWNED, CONTROL_PLANE_LABEL].map(|key| (key.to_owned(), String::new())).into();
    Ok(Some(intent(cluster, name, None, selector, found)))
}

/// Returns the check of a worker group; `None` if there is to be none.
///
/// # Errors
/// It is on without a definition. For people.
pub(super) fn of_group(cluster: &Cluster, group: &Group<'_>) -> Result<Option<Value>, String> {
    let check = group.topology.health_check.clone().unwrap_or_default();
    let class = group.class.health_check.clone().unwrap_or_default();
    let own = Definition { checks: check.checks, remediation: check.remediation.as_ref().map(remediation) };
    let of_class =
        Definition { checks: class.checks, remediation: class.remediation.as_ref().map(remediation) };
    let name = &group.topology.name;
    let field = format!("spec.topology.workers.machineDeployments[{name}].healthCheck");
    let Some(found) = chosen(check.enabled, own, of_class, &field)? else { return Ok(None) };
    let selector = [(OWNED.to_owned(), String::new()), (DEPLOYMENT.to_owned(), name.clone())].into();
    Ok(Some(intent(cluster, &group.name, Some(name), selector, found)))
}

/// Returns the part of a remediation that is a MachineHealthCheck's.
fn remediation(of: &MachineDeploymentRemediation) -> ControlPlaneRemediation {
    ControlPlaneRemediation { template_ref: of.template_ref.clone(), trigger_if: of.trigger_if.clone() }
}

fn intent(cluster: &Cluster, name: &str, group: Option<&str>, selector: Pairs, found: Definition) -> Value {
    let spec = MachineHealthCheckSpec {
        cluster_name: cluster.name_any(),
        selector: LabelSelector { match_labels: Some(selector), match_expressions: None },
        checks: found.checks,
        remediation: found.remediation.filter(|it| *it != ControlPlaneRemediation::default()),
    };
    let metadata = Metadata::default().owned(&cluster.name_any(), group);
    let (version, kind) = (MachineHealthCheck::api_version(&()), MachineHealthCheck::kind(&()));
    object(cluster, (&version, &kind), name, &metadata, json!(spec))
}
