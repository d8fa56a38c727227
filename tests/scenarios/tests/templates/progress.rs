//! Progress of one cluster: waits for its states, and describes what is missing when they do not come.

use std::time::{Duration, Instant};

use apiserver_types::{Cluster, Condition, Machine, MachinePhase, OpenStackMachine};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use tests_scenarios::World;

use crate::source::Template;

/// Time limit of a state. All clusters run at once, and share the time of the processor.
const LIMIT: Duration = Duration::from_secs(300);

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(300);

pub(crate) struct Progress {
    /// Name of the Cluster.
    pub(crate) cluster: String,
    client: Client,
    namespace: String,
    machines: usize,
}

impl Progress {
    pub(crate) fn new(world: &World, template: &Template) -> Self {
        let cluster = template.cluster().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        let machines = template.replicas("KubeadmControlPlane") + template.replicas("MachineDeployment");
        Self { cluster, client: world.admin(), namespace: template.namespace.clone(), machines }
    }

    pub(crate) fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Waits until all Machines are Running and the Cluster is Available.
    pub(crate) async fn until_available(&self) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let missing = self.unavailable().await;
            if missing.is_empty() {
                return Ok(());
            }
            if let Some(refusal) = self.refusal().await {
                return Err(refusal);
            }
            if begun.elapsed() > LIMIT {
                return Err(format!("not available after {LIMIT:?}:\n{}", missing.join("\n")));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Returns the text of a condition after which the cluster cannot become available.
    async fn refusal(&self) -> Option<String> {
        let api: Api<OpenStackMachine> = Api::namespaced(self.client.clone(), &self.namespace);
        let machines = api.list(&ListParams::default()).await.unwrap().items;
        let ready = machines.iter().filter_map(|machine| machine.condition("Ready"));
        let refused = ready.into_iter().find(|it| it.reason == "NotSupported");
        refused.map(|it| it.message.clone())
    }

    async fn unavailable(&self) -> Vec<String> {
        let mut missing = Vec::new();
        let machines = self.machines().list(&ListParams::default()).await.unwrap().items;
        if machines.len() != self.machines {
            missing.push(format!("Machines: {}, not {}", machines.len(), self.machines));
        }
        for machine in &machines {
            let status = machine.status.clone().unwrap_or_default();
            if status.phase != Some(MachinePhase::Running) {
                let conditions = shown(&status.conditions.unwrap_or_default());
                missing.push(format!("Machine {} {:?}{conditions}", machine.name_any(), status.phase));
            }
        }
        let cluster = self.clusters().get(&self.cluster).await.unwrap();
        if !cluster.condition("Available").is_some_and(Condition::holds) {
            let conditions = cluster.status.clone().unwrap_or_default().conditions.unwrap_or_default();
            missing.push(format!("Cluster {}{}", self.cluster, shown(&conditions)));
        }
        missing
    }

    /// Waits until nothing of the cluster is left in the API.
    pub(crate) async fn until_gone(&self) -> Result<(), String> {
        let begun = Instant::now();
        while let Some(cluster) = self.clusters().get_opt(&self.cluster).await.unwrap() {
            if begun.elapsed() > LIMIT {
                let conditions = cluster.status.unwrap_or_default().conditions.unwrap_or_default();
                return Err(format!("the Cluster still exists{}", shown(&conditions)));
            }
            tokio::time::sleep(INTERVAL).await;
        }
        let machines = self.machines().list(&ListParams::default()).await.unwrap().items;
        if machines.is_empty() { Ok(()) } else { Err(format!("{} Machines are left", machines.len())) }
    }
}

/// Returns the conditions that do not hold.
fn shown(conditions: &[Condition]) -> String {
    let missing = conditions.iter().filter(|it| !it.holds());
    missing.map(|it| format!("\n  {} {:?} {}: {}", it.kind, it.status, it.reason, it.message)).collect()
}
