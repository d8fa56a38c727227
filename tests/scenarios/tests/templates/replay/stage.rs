//! The cluster of the replay: its objects, and the user who changes them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use apiserver_types::{Cluster, Condition, Machine, MachineDeployment};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tests_scenarios::World;

/// Name of the cluster.
const CLUSTER: &str = "capo-without-lb";

/// Paths of the kinds that were recorded, below the root of their group.
const KINDS: [(&str, &str); 13] = [
    ("cluster.x-k8s.io/v1beta2", "clusters"),
    ("cluster.x-k8s.io/v1beta2", "machinedeployments"),
    ("cluster.x-k8s.io/v1beta2", "machinesets"),
    ("cluster.x-k8s.io/v1beta2", "machines"),
    ("cluster.x-k8s.io/v1beta2", "machinehealthchecks"),
    ("cluster.x-k8s.io/v1beta2", "machinepools"),
    ("controlplane.cluster.x-k8s.io/v1beta2", "kubeadmcontrolplanes"),
    ("bootstrap.cluster.x-k8s.io/v1beta2", "kubeadmconfigs"),
    ("bootstrap.cluster.x-k8s.io/v1beta2", "kubeadmconfigtemplates"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "openstackclusters"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "openstackmachines"),
    ("infrastructure.cluster.x-k8s.io/v1beta2", "openstackmachinetemplates"),
    ("infrastructure.cluster.x-k8s.io/v1alpha1", "openstackservers"),
];

/// Time without a change after which the objects are at rest.
const STILL: Duration = Duration::from_millis(1500);

/// Time limit of a rest.
const LIMIT: Duration = Duration::from_secs(180);

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct Stage {
    client: Client,
    namespace: String,
}

impl Stage {
    pub(super) fn new(world: &World, namespace: &str) -> Self {
        Self { client: world.admin(), namespace: namespace.to_owned() }
    }

    async fn list(&self, root: &str, plural: &str) -> Vec<Value> {
        let path = format!("{root}/namespaces/{}/{plural}", self.namespace);
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let mut list: Value = self.client.request(request).await.unwrap();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let named = items.into_iter().map(|mut item| {
            item["kind"] = kind.clone().into();
            item
        });
        named.collect()
    }

    async fn objects(&self) -> Vec<Value> {
        let mut objects = Vec::new();
        for (version, plural) in KINDS {
            objects.extend(self.list(&format!("/apis/{version}"), plural).await);
        }
        objects
    }

    /// Returns the Secrets.
    pub(super) async fn secrets(&self) -> Vec<Value> {
        self.list("/api/v1", "secrets").await
    }

    /// Waits until this number of Machines exists, so many of them in a phase, and nothing changes any more.
    /// Returns all objects.
    pub(super) async fn rest(&self, machines: usize, phase: &str, in_phase: usize) -> Vec<Value> {
        let begun = Instant::now();
        let (mut revisions, mut since) = (Vec::new(), Instant::now());
        loop {
            let objects = self.objects().await;
            let now: Vec<Value> =
                objects.iter().map(|it| it["metadata"]["resourceVersion"].clone()).collect();
            if now != revisions {
                (revisions, since) = (now, Instant::now());
            }
            let phases: Vec<&Value> = objects
                .iter()
                .filter(|it| it["kind"] == "Machine")
                .map(|it| &it["status"]["phase"])
                .collect();
            let there = phases.iter().filter(|it| **it == phase).count();
            if (phases.len(), there) == (machines, in_phase) && since.elapsed() > STILL {
                return objects;
            }
            assert!(begun.elapsed() < LIMIT, "no rest with {in_phase} of {machines} {phase}: {phases:?}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Changes the MachineDeployment.
    pub(super) async fn change_workers(&self, change: &Value) {
        let api: Api<MachineDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let name = format!("{CLUSTER}-md-0");
        api.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    /// Returns the namespace of the cluster.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the name of a worker.
    pub(super) async fn worker(&self) -> String {
        let workers = ListParams::default().labels("cluster.x-k8s.io/deployment-name");
        self.machines().list(&workers).await.unwrap().items.pop().unwrap().name_any()
    }

    /// Waits until the Node of a Machine is not healthy.
    pub(super) async fn until_unhealthy(&self, machine: &str) {
        let begun = Instant::now();
        while self
            .machines()
            .get(machine)
            .await
            .unwrap()
            .condition("NodeHealthy")
            .is_some_and(Condition::holds)
        {
            assert!(begun.elapsed() < LIMIT, "the Node of {machine} is still healthy");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Deletes a Machine.
    pub(super) async fn delete_machine(&self, name: &str) {
        self.machines().delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Deletes the cluster.
    pub(super) async fn begin_to_delete(&self) {
        let api: Api<Cluster> = Api::namespaced(self.client.clone(), &self.namespace);
        api.delete(CLUSTER, &DeleteParams::background()).await.unwrap();
    }

    /// Waits until the cluster is gone.
    pub(super) async fn until_gone(&self) {
        let api: Api<Cluster> = Api::namespaced(self.client.clone(), &self.namespace);
        let begun = Instant::now();
        while api.get_opt(CLUSTER).await.unwrap().is_some() {
            assert!(begun.elapsed() < LIMIT, "the Cluster still exists");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Returns the names of the Machines.
    pub(super) async fn names(&self) -> BTreeSet<String> {
        let machines = self.machines().list(&ListParams::default()).await.unwrap();
        machines.iter().map(ResourceExt::name_any).collect()
    }
}
