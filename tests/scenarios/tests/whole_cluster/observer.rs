//! Observer of a cluster: waits for its states, and describes what is missing when they do not come.

use apiserver_types::{Cluster, Condition, KubeadmControlPlane, Machine, MachineDeployment, MachinePhase};
use k8s_openapi::api::core::v1::{Event, Node, Secret};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use tests_scenarios::World;

use super::looks::Looks;

#[derive(Clone)]
pub(crate) struct Observer {
    client: Client,
    namespace: String,
}

impl Observer {
    pub(crate) fn new(world: &World, namespace: &str) -> Self {
        Self::of(world.admin(), namespace)
    }

    /// Returns an observer that reads with this client.
    pub(crate) fn of(client: Client, namespace: &str) -> Self {
        Self { client, namespace: namespace.to_owned() }
    }

    pub(crate) fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until exactly these numbers of Machines are Running and Available, and their owners agree.
    pub(crate) async fn until_available(&self, control_plane: usize, workers: usize) {
        let mut looks = Looks::begin();
        loop {
            let missing = self.unavailable(control_plane, workers).await;
            if missing.is_empty() {
                return;
            }
            looks.again(&missing.join("\n")).await;
        }
    }

    /// Returns true if that is so now.
    pub(crate) async fn is_available(&self, control_plane: usize, workers: usize) -> bool {
        self.unavailable(control_plane, workers).await.is_empty()
    }

    /// Waits until each control plane Machine says when its certificates expire.
    pub(crate) async fn until_expiry_is_known(&self) {
        let mut looks = Looks::begin();
        let control_plane = ListParams::default().labels("cluster.x-k8s.io/control-plane");
        loop {
            let machines = self.machines().list(&control_plane).await.unwrap().items;
            let known =
                |it: &Machine| it.status.as_ref().is_some_and(|it| it.certificates_expiry_date.is_some());
            if machines.iter().all(known) {
                return;
            }
            looks.again("the expiry of certificates").await;
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
        let mut looks = Looks::begin();
        loop {
            let nodes = match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
                Ok(nodes) => nodes,
                // The API of a cluster that is disturbed on purpose may need a moment.
                Err(error) => {
                    looks.again(&format!("the list of Nodes: {error}")).await;
                    continue;
                }
            };
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            if (nodes.items.len(), ready) == (count, count) {
                return;
            }
            let nodes: Vec<String> = nodes.iter().map(described).collect();
            let events = if looks.is_last() { self.events().await } else { String::new() };
            let nodes = nodes.join("\n");
            looks.again(&format!("{ready} Nodes are Ready, not {count}:\n{nodes}\n{events}")).await;
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

    /// Waits until a Machine does not exist.
    pub(crate) async fn until_deleted(&self, machine: Option<&str>) {
        let mut looks = Looks::begin();
        while let Some(machine) = machine
            && let Some(found) = self.machines().get_opt(machine).await.unwrap()
        {
            let conditions = found.status.unwrap_or_default().conditions.unwrap_or_default();
            looks.again(&format!("the end of Machine {machine}{}", shown(&conditions))).await;
        }
    }

    /// Waits until nothing of the cluster is left in the API.
    pub(crate) async fn until_gone(&self) {
        let mut looks = Looks::begin();
        loop {
            let clusters = self.clusters().list(&ListParams::default()).await.unwrap().items;
            let Some(cluster) = clusters.first() else { break };
            let conditions = cluster.status.clone().unwrap_or_default().conditions.unwrap_or_default();
            looks.again(&format!("the end of the Cluster{}", shown(&conditions))).await;
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
