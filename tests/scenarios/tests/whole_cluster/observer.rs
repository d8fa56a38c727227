//! Observer of a cluster: waits for its states, and describes what is missing when they do not come.

use std::time::{Duration, Instant};

use apiserver_types::{Cluster, Condition, KubeadmControlPlane, Machine, MachineDeployment, MachinePhase};
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use tests_scenarios::World;

/// Time limit of a state. A quiet machine needs a twentieth of it.
const LIMIT: Duration = Duration::from_secs(300);

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Observer {
    client: Client,
    namespace: String,
}

impl Observer {
    pub(crate) fn new(world: &World, namespace: &str) -> Self {
        Self { client: world.admin(), namespace: namespace.to_owned() }
    }

    pub(crate) fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until exactly these numbers of Machines are Running and Available, and their owners agree.
    pub(crate) async fn until_available(&self, control_plane: usize, workers: usize) {
        let begun = Instant::now();
        loop {
            let missing = self.unavailable(control_plane, workers).await;
            if missing.is_empty() {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "not available after {LIMIT:?}:\n{}", missing.join("\n"));
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Returns true if that is so now.
    pub(crate) async fn is_available(&self, control_plane: usize, workers: usize) -> bool {
        self.unavailable(control_plane, workers).await.is_empty()
    }

    /// Waits until each control plane Machine says when its certificates expire.
    pub(crate) async fn until_expiry_is_known(&self) {
        let begun = Instant::now();
        let control_plane = ListParams::default().labels("cluster.x-k8s.io/control-plane");
        loop {
            let machines = self.machines().list(&control_plane).await.unwrap().items;
            let known =
                |it: &Machine| it.status.as_ref().is_some_and(|it| it.certificates_expiry_date.is_some());
            if machines.iter().all(known) {
                return;
            }
            assert!(begun.elapsed() < LIMIT, "the expiry of certificates is not known after {LIMIT:?}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Describes what keeps the cluster from being available.
    async fn unavailable(&self, control_plane: usize, workers: usize) -> Vec<String> {
        let all = ListParams::default();
        let machines = self.machines().list(&all).await.unwrap().items;
        let label = "cluster.x-k8s.io/control-plane";
        let count = machines.iter().filter(|machine| machine.labels().contains_key(label)).count();
        let mut missing = Vec::new();
        if (count, machines.len() - count) != (control_plane, workers) {
            missing.push(format!(
                "Machines: {count} + {}, not {control_plane} + {workers}",
                machines.len() - count
            ));
        }
        for machine in &machines {
            let status = machine.status.clone().unwrap_or_default();
            if status.phase != Some(MachinePhase::Running) || !holds(machine.condition("Available")) {
                let conditions = status.conditions.unwrap_or_default();
                missing.push(format!(
                    "Machine {} {:?}{}",
                    machine.name_any(),
                    status.phase,
                    shown(&conditions)
                ));
            }
        }
        for cluster in self.clusters().list(&all).await.unwrap() {
            if !holds(cluster.condition("Available")) {
                let conditions = cluster.status.clone().unwrap_or_default().conditions.unwrap_or_default();
                missing.push(format!("Cluster {}{}", cluster.name_any(), shown(&conditions)));
            }
        }
        missing.extend(self.owners(control_plane, workers).await);
        missing
    }

    async fn owners(&self, control_plane: usize, workers: usize) -> Vec<String> {
        let wanted = |count: usize| Some(i32::try_from(count).unwrap());
        let mut missing = Vec::new();
        let api: Api<KubeadmControlPlane> = Api::namespaced(self.client.clone(), &self.namespace);
        for it in api.list(&ListParams::default()).await.unwrap() {
            let status = it.status.clone().unwrap_or_default();
            if status.available_replicas != wanted(control_plane) || !holds(it.condition("Available")) {
                let conditions = status.conditions.unwrap_or_default();
                missing.push(format!("KubeadmControlPlane {}{}", it.name_any(), shown(&conditions)));
            }
        }
        let api: Api<MachineDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        for it in api.list(&ListParams::default()).await.unwrap() {
            let status = it.status.clone().unwrap_or_default();
            if status.available_replicas != wanted(workers) || !holds(it.condition("Available")) {
                let conditions = status.conditions.unwrap_or_default();
                missing.push(format!("MachineDeployment {}{}", it.name_any(), shown(&conditions)));
            }
        }
        missing
    }

    /// Waits until the workload cluster itself, reached by its kubeconfig, has this number of Ready Nodes and no other.
    pub(crate) async fn until_nodes_are_ready(&self, count: usize) {
        let client = self.workload().await;
        let begun = Instant::now();
        loop {
            let nodes = match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
                Ok(nodes) => nodes,
                // The API of a cluster that is disturbed on purpose may need a moment.
                Err(error) => {
                    assert!(begun.elapsed() < LIMIT, "the Nodes cannot be listed after {LIMIT:?}: {error}");
                    tokio::time::sleep(INTERVAL).await;
                    continue;
                }
            };
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            if (nodes.items.len(), ready) == (count, count) {
                return;
            }
            if begun.elapsed() > LIMIT {
                let nodes: Vec<String> = nodes.iter().map(described).collect();
                let events = self.events().await;
                panic!("{ready} Nodes are Ready, not {count}:\n{}\n{events}", nodes.join("\n"));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Returns the Events of the namespace, one in a line.
    async fn events(&self) -> String {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
        let lines = events.iter().map(|event| {
            let at = event.last_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
            let object = event.involved_object.name.clone().unwrap_or_default();
            let reason = event.reason.clone().unwrap_or_default();
            format!("{at} {object} {reason}: {}", event.message.clone().unwrap_or_default())
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(crate) async fn workload(&self) -> Client {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = secrets.get("blue-kubeconfig").await.unwrap();
        let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// Returns true if nothing of the cluster is left in the API.
    pub(crate) async fn is_gone(&self) -> bool {
        let all = ListParams::default();
        let clusters = self.clusters().list(&all).await.unwrap().items;
        clusters.is_empty() && self.machines().list(&all).await.unwrap().items.is_empty()
    }

    /// Waits until nothing of the cluster is left in the API.
    pub(crate) async fn until_gone(&self) {
        let begun = Instant::now();
        loop {
            let clusters = self.clusters().list(&ListParams::default()).await.unwrap().items;
            if clusters.is_empty() {
                break;
            }
            let conditions = clusters[0].status.clone().unwrap_or_default().conditions.unwrap_or_default();
            assert!(begun.elapsed() < LIMIT, "the Cluster still exists{}", shown(&conditions));
            tokio::time::sleep(INTERVAL).await;
        }
        assert!(self.machines().list(&ListParams::default()).await.unwrap().items.is_empty());
    }
}

fn holds(condition: Option<&Condition>) -> bool {
    condition.is_some_and(Condition::holds)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().filter_map(|status| status.conditions.as_ref()).flatten();
    conditions.filter(|it| it.type_ == "Ready").any(|it| it.status == "True")
}

fn described(node: &Node) -> String {
    let created =
        node.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default();
    format!("Node {} created {created}, ready {}", node.name_any(), is_ready(node))
}

fn shown(conditions: &[Condition]) -> String {
    let lines =
        conditions.iter().map(|it| format!("\n  {} {:?} {}: {}", it.kind, it.status, it.reason, it.message));
    lines.collect()
}
