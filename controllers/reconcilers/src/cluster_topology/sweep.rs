//! Removal of templates that no object of the topology uses: the old one of a control plane, and those that a pass made
//! which ended before it wrote the object that uses them.

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::{Cluster, KubeadmControlPlane, MachineDeployment, MachineSet, MachineSpec};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::OWNED;
use super::blueprint::{Blueprint, Template, value};
use super::current::machine_template;
use super::write::Writer;
use crate::{CLUSTER_NAME_LABEL, templates};

/// Kind and name of a template.
type Key = (String, String);

/// Deletes the templates of a Cluster that nothing uses. `written` are the names of those that this pass wrote.
///
/// # Errors
/// The API's own failure.
pub(super) async fn sweep(
    context: &ControllerContext,
    writer: &Writer<'_>,
    cluster: &Cluster,
    blueprint: &Blueprint,
    written: &[String],
) -> Result<(), ReconcileError> {
    let (client, namespace) = (context.client.clone(), cluster.namespace().unwrap_or_default());
    let labels = format!("{CLUSTER_NAME_LABEL}={},{OWNED}", cluster.name_any());
    let owned = ListParams::default().labels(&labels);
    // The templates first: what came into use before is then among the uses.
    let mut found: Vec<DynamicObject> = Vec::new();
    for resource in kinds(blueprint) {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &resource);
        found.extend(api.list(&owned).await?.items);
    }
    if found.is_empty() {
        return Ok(());
    }
    let used = used(&client, &namespace, &owned).await?;
    for template in found {
        let kind = template.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let name = template.name_any();
        if !written.contains(&name) && !used.contains(&(kind, name)) {
            writer.delete(&value(&template)).await?;
        }
    }
    Ok(())
}

/// Returns the kinds of the templates of a class that Machines are made from.
fn kinds(blueprint: &Blueprint) -> Vec<ApiResource> {
    let workers = blueprint.deployments.values().flat_map(|it| [&it.bootstrap, &it.infrastructure]);
    let all = blueprint.control_plane_machine.iter().chain(workers);
    let key = |it: &Template| (it.resource.group.clone(), it.resource.kind.clone());
    let kinds: BTreeMap<_, _> = all.map(|it| (key(it), it.resource.clone())).collect();
    kinds.into_values().collect()
}

/// Returns the templates that control planes, MachineDeployments and MachineSets name.
async fn used(
    client: &kube::Client,
    namespace: &str,
    owned: &ListParams,
) -> Result<BTreeSet<Key>, ReconcileError> {
    let mut used = BTreeSet::new();
    let mut of_machines = |spec: &MachineSpec| {
        used.extend(templates::references(spec).map(|(_, it)| (it.kind.clone(), it.name.clone())));
    };
    let deployments: Api<MachineDeployment> = Api::namespaced(client.clone(), namespace);
    deployments.list(owned).await?.iter().for_each(|it| of_machines(&it.spec.template.spec));
    let sets: Api<MachineSet> = Api::namespaced(client.clone(), namespace);
    sets.list(owned).await?.iter().for_each(|it| of_machines(&it.spec.template.spec));
    let planes: Api<KubeadmControlPlane> = Api::namespaced(client.clone(), namespace);
    let planes = planes.list(owned).await?;
    let of_planes = planes.iter().filter_map(|it| machine_template(&value(it)));
    used.extend(of_planes.map(|it| (it.kind, it.name)));
    Ok(used)
}
