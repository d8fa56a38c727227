//! Observation of the objects around a control plane.

use std::sync::Arc;

use apiserver_types::{Cluster, KubeadmConfig, KubeadmControlPlane, Machine, MachinePool};
use controllers_runtime::{ControllerContext, ReconcileError};
use controllers_workload::etcd::Etcd;
use jiff::Timestamp;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};

use super::add_ons::AddOns;
use super::certificates::Certificates;
use super::in_place::Verdict;
use super::inspection::Workload;
use super::remediation::Remediation;
use super::replica::Replica;
use super::workload_settings::Settings;
use super::{endpoint, outdated, surplus};
use crate::CONTROL_PLANE_LABEL;
use crate::{CLUSTER_NAME_LABEL, generated_names, ownership, templates};

/// Label with the name of the control plane of a Machine.
pub(super) const CONTROL_PLANE_NAME_LABEL: &str = "cluster.x-k8s.io/control-plane-name";

/// Objects around a control plane.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub cluster: Cluster,
    /// Machines of the control plane, oldest first.
    pub replicas: Vec<Replica>,
    /// Machines with the labels of this control plane and without a controller.
    pub standalone: Vec<Replica>,
    /// Reason for which the control plane cannot work on its Machines: another owner controls one.
    pub refused: Option<String>,
    /// The template of the infrastructure objects, if it exists.
    pub template: Option<DynamicObject>,
    /// Objects that were made for a Machine which does not exist.
    pub unfinished: Vec<Unfinished>,
    /// Machines and MachinePools of the Cluster that are not of this control plane: workers, and control plane Machines
    /// without a controller. Listed only while the control plane is being deleted.
    pub others: Vec<String>,
    pub certificates: Certificates,
    pub workload: Workload,
    /// Access to etcd, where kubeadm runs it and the workload cluster responds.
    pub etcd: Option<Arc<dyn Etcd>>,
    /// Id of the learner that takes the slot in etcd. It is not among the members.
    pub slot: Option<u64>,
    /// Settings of kubeadm in the workload cluster, if a rollout needs them.
    pub settings: Settings,
    /// Decision on unhealthy Machines.
    pub remediation: Remediation,
    /// Answer of an extension server about the Machine that would be deleted next.
    pub verdict: Verdict,
    /// Add-ons of the workload cluster, if the pass looked at them.
    pub add_ons: Option<AddOns>,
    /// Machine to be deleted that still has the floating IP of the endpoint.
    pub endpoint_holder: Option<String>,
    /// True if the endpoint is a floating IP of a Machine, so that there is no load balancer.
    pub has_floating_ip: bool,
    /// Time of the observation.
    pub now: Timestamp,
    /// Reason and message of a Machine that this pass could not make.
    pub failure: Option<(&'static str, String)>,
}

/// Object that was made for a Machine which does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unfinished {
    pub group: String,
    pub kind: String,
    pub name: String,
    pub uid: Option<String>,
}

/// Returns the Cluster that owns a control plane; `None` if no owner reference names one yet.
pub(super) async fn cluster(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
) -> Result<Option<Cluster>, ReconcileError> {
    let is_cluster = |owner: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference| {
        owner.kind == "Cluster" && owner.api_version.starts_with("cluster.x-k8s.io/")
    };
    let Some(owner) = control_plane.owner_references().iter().find(is_cluster) else { return Ok(None) };
    let namespace = control_plane.namespace().unwrap_or_default();
    let api: Api<Cluster> = Api::namespaced(context.client.clone(), &namespace);
    let found = api.get_opt(&owner.name).await?;
    let missing =
        || ReconcileError::waiting("ClusterNotFound", format!("Cluster {} does not exist", owner.name));
    found.ok_or_else(missing).map(Some)
}

/// Reads the objects around a control plane.
pub(super) async fn observe(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    cluster: Cluster,
) -> Result<Observed, ReconcileError> {
    let namespace = control_plane.namespace().unwrap_or_default();
    let machines: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
    let selector = format!("{CLUSTER_NAME_LABEL}={}", cluster.name_any());
    let all = machines.list(&ListParams::default().labels(&selector)).await?;
    let is_control_plane = |machine: &Machine| machine.labels().contains_key(CONTROL_PLANE_LABEL);
    let (ours, others): (Vec<Machine>, Vec<Machine>) = all.items.into_iter().partition(is_control_plane);
    let mut observed = Observed { cluster, ..Observed::default() };
    for machine in ours {
        let replica = replica(context, &namespace, machine).await?;
        sort(control_plane, replica, &mut observed);
    }
    let now = Timestamp::now();
    let template = &control_plane.spec.machine_template.spec.infrastructure_ref;
    observed.template = templates::read(context, &namespace, template).await.or_else(absent)?;
    for replica in &mut observed.replicas {
        replica.causes = outdated::causes(control_plane, replica, observed.template.as_ref(), now);
    }
    observed.replicas.sort_by_key(|it| (it.created(), it.name()));
    let addresses = endpoint::addresses_of_leaving(&observed.cluster, &observed.replicas).await;
    observed.endpoint_holder = endpoint::holder(&observed.replicas, &addresses, now);
    observed.has_floating_ip = endpoint::is_floating_ip(&observed.replicas, &addresses);
    observed.now = now;
    observed.unfinished = unfinished(context, control_plane, &observed).await?;
    if control_plane.metadata.deletion_timestamp.is_some() {
        let standalone = observed.standalone.iter().map(|it| &it.machine);
        let machines = others.iter().chain(standalone).map(|it| format!("Machine {}", it.name_any()));
        observed.others = machines.collect();
        let pools: Api<MachinePool> = Api::namespaced(context.client.clone(), &namespace);
        let pools = pools.list(&ListParams::default().labels(&selector)).await?;
        observed.others.extend(pools.iter().map(|pool| format!("MachinePool {}", pool.name_any())));
    }
    Ok(observed)
}

/// Takes an object of a kind that is not served for one that does not exist.
fn absent(error: ReconcileError) -> Result<Option<DynamicObject>, ReconcileError> {
    match error {
        ReconcileError::Waiting { .. } => Ok(None),
        other => Err(other),
    }
}

async fn replica(
    context: &ControllerContext,
    namespace: &str,
    machine: Machine,
) -> Result<Replica, ReconcileError> {
    let configs: Api<KubeadmConfig> = Api::namespaced(context.client.clone(), namespace);
    let reference = machine.spec.bootstrap.config_ref.as_ref().filter(|it| it.kind == "KubeadmConfig");
    let config = match reference {
        Some(reference) => configs.get_opt(&reference.name).await?,
        None => None,
    };
    let found = templates::read(context, namespace, &machine.spec.infrastructure_ref).await;
    let infrastructure = found.or_else(absent)?;
    Ok(Replica { machine, config, infrastructure, causes: Vec::new() })
}

/// Sorts a control plane Machine by its controller.
fn sort(control_plane: &KubeadmControlPlane, replica: Replica, observed: &mut Observed) {
    let controller = replica.machine.owner_references().iter().find(|owner| owner.controller == Some(true));
    match controller {
        Some(owner) if Some(&owner.uid) == control_plane.metadata.uid.as_ref() => {
            observed.replicas.push(replica)
        }
        None => observed.standalone.push(replica),
        Some(owner) => {
            let (name, kind) = (replica.name(), &owner.kind);
            let message = format!(
                "Machine {name} has the labels of this control plane, and {kind} {} controls it. Remove the label \
                 {CONTROL_PLANE_LABEL} or the owner reference",
                owner.name
            );
            observed.refused = Some(message);
        }
    }
}

async fn unfinished(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
) -> Result<Vec<Unfinished>, ReconcileError> {
    let template = &control_plane.spec.machine_template.spec.infrastructure_ref;
    let kind = templates::kind_of(template);
    let kinds = [("bootstrap.cluster.x-k8s.io", "KubeadmConfig"), (template.api_group.as_str(), kind)];
    let namespace = control_plane.namespace().unwrap_or_default();
    let label = generated_names::label_value(&control_plane.name_any());
    let selector = ListParams::default().labels(&format!("{CONTROL_PLANE_NAME_LABEL}={label}"));
    let has_machine = |name: &str| observed.replicas.iter().any(|it| it.machine.name_any() == name);
    let mut unfinished = Vec::new();
    for (group, kind) in kinds {
        let Ok((api, _)) = templates::api(context, &namespace, group, kind) else { continue };
        for object in api.list(&selector).await? {
            let is_going = object.metadata.deletion_timestamp.is_some();
            if is_going || has_machine(&object.name_any()) || !ownership::is_owned(&object, control_plane) {
                continue;
            }
            let (name, uid) = (object.name_any(), object.uid());
            unfinished.push(Unfinished { group: group.to_owned(), kind: kind.to_owned(), name, uid });
        }
    }
    Ok(unfinished)
}

impl Observed {
    /// Reports whether the infrastructure of the Cluster was complete once.
    pub(super) fn is_provisioned(&self) -> bool {
        let status = self.cluster.status.as_ref();
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.infrastructure_provisioned) == Some(true)
    }

    /// Returns the facts about members of etcd without a Machine, if the members are known.
    pub(super) fn of_etcd(&self) -> Option<surplus::View<'_>> {
        let (members, nodes) = (self.workload.members()?, self.workload.nodes());
        Some(surplus::View { members, replicas: &self.replicas, nodes, now: self.now })
    }

    /// Returns the endpoint of the cluster, if it is complete.
    pub(super) fn endpoint(&self) -> Option<(&str, i32)> {
        let endpoint = self.cluster.spec.control_plane_endpoint.as_ref()?;
        let host = endpoint.host.as_deref().filter(|host| !host.is_empty())?;
        Some((host, endpoint.port.filter(|port| *port != 0)?))
    }
}

#[cfg(test)]
pub(super) mod examples {
    use super::*;

    /// Returns observations of replicas whose template exists.
    pub(in super::super) fn observed(replicas: Vec<Replica>) -> Observed {
        let template =
            DynamicObject { types: None, metadata: Default::default(), data: serde_json::Value::Null };
        Observed { replicas, template: Some(template), ..Observed::default() }
    }
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;
