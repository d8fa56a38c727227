//! MachineDeployments of a topology, and their templates.

use apiserver_types::{
    Cluster, ContractVersionedObjectReference, LabelSelector, MachineDeletionSpec, MachineDeployment,
    MachineDeploymentDeletion, MachineDeploymentRollout, MachineDeploymentSpec, ReplicaDeletion,
    ReplicaRemediation, TemplateMeta,
};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::super::blueprint::Template;
use super::super::metadata::{Metadata, owned_labels};
use super::super::patching::Workers;
use super::{DesiredGroup, Group, copy, first, health_checks, object};

/// Returns the objects of a worker group.
///
/// # Errors
/// Its health check has no definition. For people.
pub(super) fn group(
    cluster: &Cluster,
    group: &Group<'_>,
    templates: &Workers,
) -> Result<DesiredGroup, String> {
    let name = Some(group.topology.name.as_str());
    Ok(DesiredGroup {
        topology_name: group.topology.name.clone(),
        object: deployment(cluster, group, templates),
        bootstrap: copy(&templates.bootstrap, cluster, &group.bootstrap, name),
        infrastructure: copy(&templates.infrastructure, cluster, &group.infrastructure, name),
        check: health_checks::of_group(cluster, group)?,
        is_written: group.is_written,
    })
}

fn deployment(cluster: &Cluster, group: &Group<'_>, templates: &Workers) -> Value {
    let (topology, class) = (group.topology, group.class);
    let metadata = Metadata::merged(class.metadata.as_ref(), topology.metadata.as_ref());
    let metadata = metadata.owned(&cluster.name_any(), Some(&topology.name));
    let filled = |map: &super::super::metadata::Pairs| (!map.is_empty()).then(|| map.clone());
    let labels = owned_labels(&cluster.name_any(), Some(&topology.name));
    let mut spec = MachineDeploymentSpec {
        cluster_name: cluster.name_any(),
        replicas: topology.replicas,
        selector: LabelSelector { match_labels: Some(labels), match_expressions: None },
        rollout: rollout(group),
        remediation: remediation(group),
        deletion: order(group),
        ..MachineDeploymentSpec::default()
    };
    spec.template.metadata =
        Some(TemplateMeta { labels: filled(&metadata.labels), annotations: filled(&metadata.annotations) });
    let machine = &mut spec.template.spec;
    machine.cluster_name = cluster.name_any();
    machine.version = Some(group.version.to_owned());
    machine.failure_domain = first(topology.failure_domain.as_ref(), class.failure_domain.as_ref());
    machine.min_ready_seconds = first(topology.min_ready_seconds.as_ref(), class.min_ready_seconds.as_ref());
    machine.readiness_gates = first(topology.readiness_gates.as_ref(), class.readiness_gates.as_ref());
    machine.taints = first(topology.taints.as_ref(), class.taints.as_ref());
    machine.deletion = timeouts(group);
    machine.bootstrap.config_ref = Some(reference(&templates.bootstrap, &group.bootstrap));
    machine.infrastructure_ref = reference(&templates.infrastructure, &group.infrastructure);
    let (version, kind) = (MachineDeployment::api_version(&()), MachineDeployment::kind(&()));
    object(cluster, (&version, &kind), &group.name, &metadata, json!(spec))
}

fn reference(template: &Template, name: &str) -> ContractVersionedObjectReference {
    ContractVersionedObjectReference {
        api_group: template.resource.group.clone(),
        kind: template.resource.kind.clone(),
        name: name.to_owned(),
    }
}

/// Returns the rollout settings: all of the topology if it has any, else those of the class.
fn rollout(group: &Group<'_>) -> Option<MachineDeploymentRollout> {
    let is_set = |it: &&MachineDeploymentRollout| it.after.is_some() || it.strategy.is_some();
    let own = group.topology.rollout.as_ref().filter(is_set).cloned();
    let of_class = group.class.rollout.as_ref().and_then(|it| it.strategy.clone());
    own.or_else(|| {
        of_class.map(|strategy| MachineDeploymentRollout { strategy: Some(strategy), after: None })
    })
}

fn remediation(group: &Group<'_>) -> Option<ReplicaRemediation> {
    let own = group.topology.health_check.as_ref().and_then(|it| it.remediation.as_ref());
    let of_class = group.class.health_check.as_ref().and_then(|it| it.remediation.as_ref());
    let limit = own.and_then(|it| it.max_in_flight.as_ref());
    let limit = first(limit, of_class.and_then(|it| it.max_in_flight.as_ref()))?;
    Some(ReplicaRemediation { max_in_flight: Some(limit) })
}

/// Returns a field of the deletion settings, from the topology or from the class.
fn deletion<T>(group: &Group<'_>, field: fn(&MachineDeploymentDeletion) -> Option<T>) -> Option<T> {
    let own = group.topology.deletion.as_ref().and_then(field);
    own.or_else(|| group.class.deletion.as_ref().and_then(field))
}

fn order(group: &Group<'_>) -> Option<ReplicaDeletion> {
    deletion(group, |it| it.order).map(|order| ReplicaDeletion { order: Some(order) })
}

fn timeouts(group: &Group<'_>) -> Option<MachineDeletionSpec> {
    let found = MachineDeletionSpec {
        node_deletion_timeout_seconds: deletion(group, |it| it.node_deletion_timeout_seconds),
        node_drain_timeout_seconds: deletion(group, |it| it.node_drain_timeout_seconds),
        node_volume_detach_timeout_seconds: deletion(group, |it| it.node_volume_detach_timeout_seconds),
    };
    (found != MachineDeletionSpec::default()).then_some(found)
}
