//! Observation of the objects around a Machine.

use std::sync::Arc;

use apiserver_types::{
    Cluster, KubeadmConfig, KubeadmControlPlane, Machine, MachineDeployment, MachineDrainRule, MachineSet,
    OpenStackMachine,
};
use controllers_runtime::{ControllerContext, ControllerSettings, ReconcileError};
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::fence::Verdict;
use super::in_place::Update;
use super::node::{self, NodeObservation};
use super::node_metadata;
use crate::object_refs::is_of;
use crate::ownership::{self, Adoption};
use crate::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL};

/// Objects around a Machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// Error that ended the steps of the pass.
    pub error: Option<String>,
    pub cluster: Option<Cluster>,
    /// The OpenStackMachine that the Machine names, unless another owner controls it.
    pub infrastructure: Option<OpenStackMachine>,
    /// The KubeadmConfig that the Machine names, unless another owner controls it.
    pub bootstrap: Option<KubeadmConfig>,
    /// Reason why the Machine cannot join its Cluster.
    pub obstacle: Option<String>,
    /// Reason why the Machine cannot use its KubeadmConfig.
    pub bootstrap_obstacle: Option<String>,
    /// MachineSet that controls the Machine.
    pub set: Option<MachineSet>,
    /// MachineDeployment that controls the MachineSet.
    pub deployment: Option<MachineDeployment>,
    /// Progress of the MachineOperation that updates the Machine in place.
    pub update: Option<String>,
    /// State of the update by an extension server, if the server has said anything about it.
    pub in_place: Option<Update>,
    pub node: NodeObservation,
    /// Text about a Node with the Machine's name and another provider ID, while none has the right one.
    pub namesake: Option<String>,
    /// The Node was read in this pass, because the one of the watch was old.
    pub node_is_newest: bool,
    /// Uid of the operation whose cordon of the Node ends, because a pause of the Machine or its Cluster has ended.
    pub ends_cordon: Option<String>,
    /// Failure of the write to the Node in this pass. For people.
    pub node_failure: Option<String>,
    /// Read only while the Machine is being deleted.
    pub deletion: DeletionObservation,
    /// Settings of the operator.
    pub settings: Arc<ControllerSettings>,
    pub now: Timestamp,
}

/// Observation that only a deletion needs.
#[derive(Debug, Clone, Default)]
pub(super) struct DeletionObservation {
    /// The object of the control plane is being deleted.
    pub control_plane_deleting: bool,
    /// Another control plane Machine of the Cluster is not being deleted.
    pub another_control_plane_machine: bool,
    /// MachineDrainRules of the namespace.
    pub rules: Vec<MachineDrainRule>,
    /// Outcome of the drain in this pass.
    pub drain: Option<Outcome>,
    /// Verdict of this pass about the server of a Node that does not report.
    pub server: Option<Verdict>,
    /// Outcome of the wait for volumes in this pass.
    pub volumes: Option<Outcome>,
    /// Outcome of the deletion of the Node in this pass.
    pub node: Option<Outcome>,
    /// Time of the first attempt to delete the Node.
    pub node_since: Option<Timestamp>,
}

/// Outcome of a step in the workload cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// Not done yet. For people.
    Waiting(String),
    /// Failed, and tried again. For people.
    Failed(String),
}

/// Reads the objects around a Machine.
pub(super) async fn observe(
    context: &ControllerContext,
    machine: &Machine,
) -> Result<Observed, ReconcileError> {
    let namespace = machine.namespace().unwrap_or_default();
    let reader = Reader { context, namespace: &namespace };
    let mut observed = Observed {
        cluster: reader.get(&machine.spec.cluster_name).await?,
        settings: Arc::clone(&context.settings),
        now: Timestamp::now(),
        ..Observed::default()
    };
    let reference = &machine.spec.infrastructure_ref;
    if is_of::<OpenStackMachine>(reference) {
        observed.infrastructure = reader.get(&reference.name).await?;
    }
    let bootstrap = machine.spec.bootstrap.config_ref.as_ref();
    if let Some(reference) = bootstrap.filter(|it| is_of::<KubeadmConfig>(it)) {
        observed.bootstrap = reader.get(&reference.name).await?;
    }
    observed.find_obstacles(machine);
    reader.owners(machine, &mut observed).await?;
    observed.node = node::observe(context, machine, &observed);
    if observed.node == NodeObservation::NotFound {
        let nodes = context.workloads.nodes(&node::cluster_key(machine)).unwrap_or_default();
        observed.namesake = node::namesake(nodes.iter().map(AsRef::as_ref), &machine.name_any());
    }
    reader.twin(machine, &mut observed).await?;
    if machine.metadata.deletion_timestamp.is_some() {
        reader.deletion(machine, &mut observed).await?;
    }
    Ok(observed)
}

struct Reader<'a> {
    context: &'a ControllerContext,
    namespace: &'a str,
}

impl Reader<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.context.client.clone(), self.namespace)
    }

    async fn get<K>(&self, name: &str) -> Result<Option<K>, ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Ok(self.api::<K>().get_opt(name).await?)
    }

    /// Reads the MachineSet that controls the Machine, and its MachineDeployment.
    async fn owners(&self, machine: &Machine, observed: &mut Observed) -> Result<(), ReconcileError> {
        let Some(owner) = ownership::controller_of(machine).filter(|it| it.kind == "MachineSet") else {
            return Ok(());
        };
        observed.set = self.get(&owner.name).await?;
        let owner = observed.set.as_ref().and_then(|set| ownership::controller_of(set).cloned());
        if let Some(owner) = owner.filter(|it| it.kind == "MachineDeployment") {
            observed.deployment = self.get(&owner.name).await?;
        }
        Ok(())
    }

    /// Looks whether the Node belongs to another Machine with the same provider id. The one that wrote first keeps it.
    async fn twin(&self, machine: &Machine, observed: &mut Observed) -> Result<(), ReconcileError> {
        let Some(other) = observed.node.found().and_then(|node| node_metadata::other_machine(node, machine))
        else {
            return Ok(());
        };
        let other: Option<Machine> = self.get(&other).await?;
        let id = machine.spec.provider_id.as_ref();
        if let Some(other) = other.filter(|other| id.is_some() && other.spec.provider_id.as_ref() == id) {
            observed.node = NodeObservation::OfAnother(other.name_any());
        }
        Ok(())
    }

    async fn deletion(&self, machine: &Machine, observed: &mut Observed) -> Result<(), ReconcileError> {
        let cluster = &machine.spec.cluster_name;
        let selector = format!("{CLUSTER_NAME_LABEL}={cluster},{CONTROL_PLANE_LABEL}");
        let machines = self.api::<Machine>().list(&ListParams::default().labels(&selector)).await?;
        observed.deletion.another_control_plane_machine = machines
            .iter()
            .any(|other| other.uid() != machine.uid() && other.metadata.deletion_timestamp.is_none());
        let reference = observed.cluster.as_ref().and_then(|cluster| cluster.spec.control_plane_ref.clone());
        if let Some(reference) = reference.filter(|it| it.kind == "KubeadmControlPlane") {
            let found: Option<KubeadmControlPlane> = self.get(&reference.name).await?;
            observed.deletion.control_plane_deleting =
                found.is_some_and(|it| it.metadata.deletion_timestamp.is_some());
        }
        let rules = self.api::<MachineDrainRule>().list(&ListParams::default()).await?;
        observed.deletion.rules = rules.items;
        Ok(())
    }
}

impl Observed {
    /// Reports whether the server was complete once.
    pub(super) fn provisioned(&self) -> bool {
        let status = self.infrastructure.as_ref().and_then(|it| it.status.as_ref());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.provisioned) == Some(true)
    }

    /// Returns the name of the Secret with the bootstrap data, once the KubeadmConfig reports it.
    pub(super) fn data_secret(&self) -> Option<&str> {
        let status = self.bootstrap.as_ref()?.status.as_ref()?;
        let created = status.initialization.as_ref()?.data_secret_created == Some(true);
        status.data_secret_name.as_deref().filter(|name| created && !name.is_empty())
    }

    fn find_obstacles(&mut self, machine: &Machine) {
        let Some(cluster) = &self.cluster else {
            self.obstacle = Some(format!(
                "Cluster {} does not exist. Create it, or delete this Machine: its spec.clusterName cannot be changed",
                machine.spec.cluster_name
            ));
            return;
        };
        let (owner, name) = (ownership::reference(machine, true), cluster.name_any());
        let adoption = self.infrastructure.as_ref().map(|it| ownership::adoption(it, &owner, &name));
        if let Some(Adoption::Refused(message)) = adoption {
            self.obstacle = Some(message);
            self.infrastructure = None;
        }
        let adoption = self.bootstrap.as_ref().map(|it| ownership::adoption(it, &owner, &name));
        if let Some(Adoption::Refused(message)) = adoption {
            self.bootstrap_obstacle = Some(message);
            self.bootstrap = None;
        }
    }
}

/// Reports whether the bootstrap data of a Machine has a name.
pub(super) fn is_bootstrapped(machine: &Machine) -> bool {
    machine.spec.bootstrap.data_secret_name.as_deref().is_some_and(|name| !name.is_empty())
}
