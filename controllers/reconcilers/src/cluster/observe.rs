//! Observation of the objects around a Cluster.

use std::fmt::Debug;
use std::sync::Arc;

use apiserver_types::{
    Cluster, ClusterClass, Gate, KubeadmControlPlane, Machine, MachineDeployment, MachinePool, MachineSet,
    OpenStackCluster,
};
use controllers_bootstrap::certificates::PemPair;
use controllers_runtime::{ControllerContext, ControllerSettings, ReconcileError};
use controllers_workload::{ClusterKey, Probe};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use super::descendants::{self, Descendant};
use super::kubeconfig;
use super::workload_cleanup::{self, Leftovers};
use crate::cluster_certificates::kubeconfig_secret_name;
use crate::first_attempts::FirstAttempts;
use crate::object_refs::is_of;
use crate::ownership::{self, Adoption};
use crate::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL};

/// Objects around a Cluster.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// The OpenStackCluster that the Cluster names, unless another owner controls it.
    pub infrastructure: Option<OpenStackCluster>,
    /// Reason why the OpenStackCluster that the Cluster names does not belong to it.
    pub refused: Option<String>,
    /// The KubeadmControlPlane that the Cluster names, unless another owner controls it.
    pub control_plane: Option<KubeadmControlPlane>,
    /// Reason why the KubeadmControlPlane that the Cluster names does not belong to it.
    pub control_plane_refused: Option<String>,
    /// The Cluster names no infrastructure, and no topology will.
    pub without_infrastructure: bool,
    /// Gates of the class, which are in force if the Cluster has none of its own.
    pub class_gates: Vec<Gate>,
    pub deployments: Vec<MachineDeployment>,
    /// MachineSets that no MachineDeployment controls.
    pub sets: Vec<MachineSet>,
    pub pools: Vec<MachinePool>,
    pub control_plane_machines: Vec<Machine>,
    pub workers: Vec<Machine>,
    /// Probes of the workload API.
    pub probe: Probe,
    /// Kubeconfig of the workload cluster, once there is one.
    pub kubeconfig: Option<Vec<u8>>,
    /// Reason why there is no kubeconfig, though the control plane has answered once.
    pub kubeconfig_obstacle: Option<String>,
    /// Certificate authority of the workload cluster. Read only if a kubeconfig may have to be created or renewed.
    pub authority: Option<PemPair>,
    /// Secret with the kubeconfig, if it is to be renewed.
    pub old_kubeconfig: Option<Secret>,
    /// Objects that are deleted before the Cluster. Listed only while it is being deleted.
    pub descendants: Vec<Descendant>,
    /// Objects of the workload cluster that are deleted before the descendants.
    pub leftovers: Leftovers,
    /// Error that ended the steps of the pass.
    pub error: Option<String>,
    /// Settings of the operator.
    pub settings: Arc<ControllerSettings>,
    pub now: Timestamp,
}

/// Reads the objects around a Cluster. `looks`: times of the first looks at workload clusters that are being cleaned.
pub(super) async fn observe(
    context: &ControllerContext,
    cluster: &Cluster,
    looks: &FirstAttempts,
) -> Result<Observed, ReconcileError> {
    let settings = Arc::clone(&context.settings);
    let mut observed = Observed { settings, now: Timestamp::now(), ..Observed::default() };
    let reader = Reader { context, cluster };
    reader.parts(&mut observed).await?;
    reader.machines(&mut observed).await?;
    reader.workload(&mut observed).await?;
    if cluster.metadata.deletion_timestamp.is_some() {
        observed.descendants = descendants::list(&context.client, cluster).await?;
        let machines = descendants::of_machines(cluster, &observed.control_plane_machines, &observed.workers);
        observed.descendants.extend(machines);
        observed.leftovers = workload_cleanup::observe(context, cluster, &observed, looks).await;
    }
    Ok(observed)
}

/// Returns the key of a Cluster among the workload clusters.
pub(super) fn key(cluster: &Cluster) -> ClusterKey {
    ClusterKey { namespace: cluster.namespace().unwrap_or_default(), name: cluster.name_any() }
}

struct Reader<'a> {
    context: &'a ControllerContext,
    cluster: &'a Cluster,
}

impl Reader<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.context.client.clone(), &self.cluster.namespace().unwrap_or_default())
    }

    /// Reads the objects that the Cluster names.
    async fn parts(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let spec = &self.cluster.spec;
        observed.without_infrastructure = spec.infrastructure_ref.is_none() && spec.topology.is_none();
        if let Some(name) = spec.infrastructure_ref.as_ref().filter(|it| is_of::<OpenStackCluster>(it)) {
            (observed.infrastructure, observed.refused) = self.part(&name.name).await?;
        }
        if let Some(name) = spec.control_plane_ref.as_ref().filter(|it| is_of::<KubeadmControlPlane>(it)) {
            (observed.control_plane, observed.control_plane_refused) = self.part(&name.name).await?;
        }
        if let Some(topology) = spec.topology.as_ref().filter(|_| spec.availability_gates.is_none()) {
            let class = &topology.class_ref;
            let namespace = class.namespace.clone().or_else(|| self.cluster.namespace()).unwrap_or_default();
            let api: Api<ClusterClass> = Api::namespaced(self.context.client.clone(), &namespace);
            let class = api.get_opt(&class.name).await?;
            observed.class_gates = class.and_then(|it| it.spec.availability_gates).unwrap_or_default();
        }
        Ok(())
    }

    /// Returns an object that the Cluster names, or the reason why it is not the Cluster's.
    async fn part<K>(&self, name: &str) -> Result<(Option<K>, Option<String>), ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let Some(found) = self.api::<K>().get_opt(name).await? else { return Ok((None, None)) };
        Ok(match ownership::part_adoption(&found, self.cluster) {
            Adoption::Refused(message) => (None, Some(message)),
            Adoption::Complete | Adoption::Due => (Some(found), None),
        })
    }

    async fn machines(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        let cluster = self.cluster;
        let name = cluster.name_any();
        // By the spec as well as by the label: a Machine that no controller has labelled yet counts too.
        let belongs = |machine: &Machine| {
            machine.spec.cluster_name == name
                || machine.labels().get(CLUSTER_NAME_LABEL) == Some(&name)
                || ownership::is_owned(machine, cluster)
        };
        let machines = self.api::<Machine>().list(&ListParams::default()).await?.into_iter().filter(belongs);
        (observed.control_plane_machines, observed.workers) =
            machines.partition(|machine| machine.labels().contains_key(CONTROL_PLANE_LABEL));
        let deployments = self.api::<MachineDeployment>().list(&ListParams::default()).await?;
        let ours = deployments.into_iter().filter(|deployment| deployment.spec.cluster_name == name);
        observed.deployments = ours.collect();
        let sets = self.api::<MachineSet>().list(&ListParams::default()).await?.into_iter();
        let alone =
            sets.filter(|set| set.spec.cluster_name == name && ownership::controller_of(set).is_none());
        observed.sets = alone.collect();
        let pools = self.api::<MachinePool>().list(&ListParams::default()).await?;
        observed.pools = pools.into_iter().filter(|pool| pool.spec.cluster_name == name).collect();
        Ok(())
    }

    /// Reads the kubeconfig, from the time on at which a workload API can exist.
    async fn workload(&self, observed: &mut Observed) -> Result<(), ReconcileError> {
        observed.probe = self.context.workloads.probe(&key(self.cluster));
        if !observed.was_provisioned(self.cluster) {
            return Ok(());
        }
        let namespace = self.cluster.namespace().unwrap_or_default();
        let name = kubeconfig_secret_name(&self.cluster.name_any());
        let secret = self.context.secrets.secret(&namespace, &name).await?;
        let exists = secret.is_some();
        observed.kubeconfig = secret.as_ref().and_then(|it| Some(it.data.as_ref()?.get("value")?.0.clone()));
        observed.kubeconfig_obstacle = match (&observed.kubeconfig, exists) {
            (None, true) => Some(format!("Secret {namespace}/{name} has no key value with a kubeconfig")),
            (None, false) if observed.initialized(self.cluster) => {
                Some(format!("Secret {namespace}/{name} with the kubeconfig does not exist"))
            }
            _ => None,
        };
        // With an object for the control plane, that object's controller renews the kubeconfig.
        let secret = secret.filter(|_| self.cluster.spec.control_plane_ref.is_none());
        if observed.kubeconfig.is_none() && self.cluster.spec.control_plane_ref.is_none() {
            observed.authority = kubeconfig::authority(self.context, self.cluster).await?;
            let without = kubeconfig::without_authority(self.cluster, observed);
            observed.kubeconfig_obstacle = observed.kubeconfig_obstacle.take().or(without);
        } else if let Some(secret) = secret {
            self.old_kubeconfig(secret, observed).await?;
        }
        Ok(())
    }

    /// Notes the Secret of a kubeconfig that is to be renewed, if its authority is still the cluster's.
    async fn old_kubeconfig(&self, secret: Secret, observed: &mut Observed) -> Result<(), ReconcileError> {
        let Some(known) = kubeconfig::authority_of_old(self.cluster, &secret, observed.now) else {
            return Ok(());
        };
        let authority = kubeconfig::authority(self.context, self.cluster).await?;
        observed.authority = authority.filter(|it| kubeconfig::renews(it, &known, observed.now));
        observed.old_kubeconfig = observed.authority.is_some().then_some(secret);
        Ok(())
    }
}

impl Observed {
    /// Reports whether the infrastructure is complete. Nothing is awaited if there is none.
    pub(super) fn provisioned(&self) -> bool {
        if self.without_infrastructure {
            return true;
        }
        let status = self.infrastructure.as_ref().and_then(|it| it.status.as_ref());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.provisioned) == Some(true)
    }

    /// Reports whether the infrastructure is complete, or was, as the status records: a milestone stays reached when the
    /// object is deleted.
    pub(super) fn was_provisioned(&self, cluster: &Cluster) -> bool {
        let status = cluster.status.as_ref().and_then(|status| status.initialization.as_ref());
        self.provisioned() || status.and_then(|it| it.infrastructure_provisioned) == Some(true)
    }

    /// Reports whether the control plane has answered once: by its object, or by the Node of a Machine.
    pub(super) fn initialized(&self, cluster: &Cluster) -> bool {
        if cluster.spec.control_plane_ref.is_none() {
            let has_node =
                |machine: &Machine| machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
            return self.control_plane_machines.iter().any(has_node);
        }
        let status = self.control_plane.as_ref().and_then(|it| it.status.as_ref());
        let initialization = status.and_then(|status| status.initialization.as_ref());
        initialization.and_then(|it| it.control_plane_initialized) == Some(true)
    }
}
