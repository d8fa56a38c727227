//! Testbed: a Cluster of a class, and passes over its topology. The test plays the other controllers.

use std::sync::Arc;

use apiserver_types::{
    Cluster, ClusterClass, KubeadmConfigTemplate, KubeadmControlPlane, MachineDeployment, MachineHealthCheck,
    OpenStackCluster, OpenStackMachineTemplate,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, World};

use crate::manifest;

/// Passes after which nothing is left to do.
const PASSES: usize = 4;

/// Label of every object of a topology.
pub(crate) const OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Objects of a Cluster.
pub(crate) struct Testbed {
    pub(crate) world: World,
    pub(crate) client: Client,
    pub(crate) namespace: &'static str,
    pub(crate) crash: Arc<CrashPoint>,
    pub(crate) controllers: Controllers,
}

impl Testbed {
    /// Creates a Cluster of this version.
    pub(crate) async fn start(namespace: &'static str, version: &str) -> Self {
        let world = World::start().await.unwrap();
        world.create(&manifest(&world, namespace, version)).await.unwrap();
        Self::resume(world, namespace, Arc::new(CrashPoint::never())).await
    }

    /// Starts a process over the objects that exist.
    pub(crate) async fn resume(world: World, namespace: &'static str, crash: Arc<CrashPoint>) -> Self {
        let controllers = Controllers::start(&world, &crash);
        let testbed = Self { client: world.admin(), controllers, namespace, crash, world };
        testbed.reconcile_classes().await;
        testbed
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    /// Returns the objects of the topology.
    pub(crate) async fn owned<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        self.api::<K>().list(&ListParams::default().labels(OWNED)).await.unwrap().items
    }

    pub(crate) async fn merge<K>(&self, name: &str, change: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    }

    pub(crate) async fn merge_status<K>(&self, name: &str, status: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let change = json!({ "status": status });
        self.api::<K>().patch_status(name, &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    }

    /// Changes the topology of the Cluster.
    pub(crate) async fn change(&self, topology: Value) {
        self.merge::<Cluster>("blue", json!({"spec": {"topology": topology}})).await;
    }

    /// Changes the class, and makes a pass over it.
    pub(crate) async fn change_class(&self, spec: Value) {
        self.merge::<ClusterClass>("small", json!({ "spec": spec })).await;
        self.reconcile_classes().await;
    }

    /// Makes a pass over the classes in a process that does not crash.
    pub(crate) async fn reconcile_classes(&self) {
        let controllers = Controllers::start(&self.world, &Arc::new(CrashPoint::never()));
        controllers.round_of_classes().await.unwrap();
    }

    /// Reports the version of the control plane, as its controller does once all Machines have it.
    pub(crate) async fn control_plane_is_done(&self) {
        let control_plane = self.control_plane().await;
        let version = control_plane.spec.version.clone();
        let status = json!({"version": version, "versions": [{"version": version, "replicas": 1}]});
        self.merge_status::<KubeadmControlPlane>(&control_plane.name_any(), status).await;
    }

    /// Makes passes until nothing is left to do.
    pub(crate) async fn settle(&self) {
        for _ in 0..PASSES {
            self.controllers.round_of_topologies().await.unwrap();
        }
    }

    pub(crate) async fn cluster(&self) -> Cluster {
        self.api::<Cluster>().get("blue").await.unwrap()
    }

    pub(crate) async fn control_plane(&self) -> KubeadmControlPlane {
        self.owned::<KubeadmControlPlane>().await.remove(0)
    }

    pub(crate) async fn deployment(&self) -> MachineDeployment {
        self.owned::<MachineDeployment>().await.remove(0)
    }

    /// Returns status, reason and message of the condition.
    pub(crate) async fn condition(&self) -> String {
        let cluster = self.cluster().await;
        let found = cluster.condition("TopologyReconciled");
        found.map(|it| format!("{:?} {} {}", it.status, it.reason, it.message)).unwrap_or_default()
    }

    /// Returns the number of objects of the topology of each kind.
    pub(crate) async fn counts(&self) -> [usize; 6] {
        [
            self.owned::<OpenStackCluster>().await.len(),
            self.owned::<KubeadmControlPlane>().await.len(),
            self.owned::<MachineDeployment>().await.len(),
            self.owned::<OpenStackMachineTemplate>().await.len(),
            self.owned::<KubeadmConfigTemplate>().await.len(),
            self.owned::<MachineHealthCheck>().await.len(),
        ]
    }

    pub(crate) async fn events(&self) -> Vec<String> {
        let text = |event: Event| {
            format!("{} {}", event.reason.unwrap_or_default(), event.message.unwrap_or_default())
        };
        self.list::<Event>().await.into_iter().map(text).collect()
    }
}
