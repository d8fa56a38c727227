//! Process with the controller of control planes.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{DESCRIPTORS, KubeadmControlPlane, Machine};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use controllers_reconcilers::kubeadm_control_plane::{CONTROLLER, KubeadmControlPlaneReconciler};
use controllers_runtime::{
    ApiSecrets, ControllerContext, NoEventHolds, Queues, Recorder, ServedKind, ServerLists, TermStart,
};
use controllers_workload::WorkloadClusters;
use kube::api::{ApiResource, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::World;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::NAMESPACE;
use crate::workload::{Members, Workload};

/// One process with this controller, and its workload connections.
pub(crate) struct Process {
    pub(crate) client: Client,
    pub(crate) reconciler: KubeadmControlPlaneReconciler,
    pub(crate) members: Members,
    _running: JoinSet<()>,
}

impl Process {
    pub(crate) fn start(world: &World) -> Self {
        let client = world.admin();
        let workloads = Arc::new(WorkloadClusters::new(Arc::new(Workload)));
        let kinds: Vec<ServedKind> = DESCRIPTORS
            .iter()
            .map(|it| ServedKind {
                resource: ApiResource {
                    group: it.group.to_owned(),
                    version: it.version.to_owned(),
                    api_version: format!("{}/{}", it.group, it.version),
                    kind: it.kind.to_owned(),
                    plural: it.plural.to_owned(),
                },
                namespaced: it.namespaced,
                versions: Vec::new(),
            })
            .collect();
        let context = ControllerContext {
            connector: Arc::new(OpenStackConnector::new(AllowedEndpoints::with_loopback())),
            secrets: Arc::new(ApiSecrets(client.clone())),
            servers: Arc::new(ServerLists::default()),
            workloads: Arc::clone(&workloads),
            events: Recorder::new(client.clone(), CONTROLLER.identity),
            event_holds: Arc::new(NoEventHolds),
            queues: Queues::default(),
            kinds: kinds.into(),
            settings: Arc::default(),
            term: TermStart::default(),
            client: client.clone(),
        };
        let mut running = JoinSet::new();
        running.spawn(async move { workloads.run(CancellationToken::new()).await });
        let members = Members::default();
        let reconciler = KubeadmControlPlaneReconciler::with_etcd(context, Arc::new(members.clone()));
        Self { client, reconciler, members, _running: running }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Makes passes until there is nothing left to do at once.
    pub(crate) async fn settle(&self) -> KubeadmControlPlane {
        for _ in 0..12 {
            let Some(object) = self.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap() else { break };
            self.reconciler.reconcile(&object).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.api::<KubeadmControlPlane>().get_opt("kcp").await.unwrap().unwrap_or_default()
    }

    pub(crate) async fn machines(&self) -> Vec<Machine> {
        let mut machines = self.api::<Machine>().list(&ListParams::default()).await.unwrap().items;
        machines.sort_by_key(|machine| machine.metadata.creation_timestamp.clone());
        machines
    }

    pub(crate) async fn merge<K>(&self, name: &str, change: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    }

    pub(crate) async fn merge_status<K>(&self, name: &str, status: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let change = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &change).await.unwrap();
    }

    /// Gives Nodes to all Machines that have none, as the Machines' controller does.
    pub(crate) async fn give_nodes(&self) {
        for (index, machine) in self.machines().await.iter().enumerate() {
            let status = json!({"nodeRef": {"name": format!("node-{index}")}});
            self.merge_status::<Machine>(&machine.name_any(), status).await;
        }
    }
}
