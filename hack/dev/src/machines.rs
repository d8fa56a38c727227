//! Machines of the cluster, their actions, and the topology that they follow.

use anyhow::{Context, bail};
use apiserver_types::{
    Cluster, Machine, MachineDeployment, MachineDeploymentTopology, MachineOperation, OperationPhase,
    StepState, Topology,
};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// Label with the name of the Cluster of an object.
const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";

/// Label of the Machines of a control plane.
const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Machines of one cluster.
pub(crate) struct Machines {
    client: Client,
    namespace: String,
    cluster: String,
}

/// Machine with its server and its Node.
#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) node: String,
    pub(crate) server: String,
}

impl Worker {
    fn of(machine: &Machine) -> Option<Self> {
        let status = machine.status.clone().unwrap_or_default();
        let provider_id = machine.spec.provider_id.as_deref()?;
        Some(Self {
            name: machine.name_any(),
            node: status.node_ref?.name,
            server: provider_id.rsplit('/').next()?.to_owned(),
        })
    }
}

impl Machines {
    pub(crate) fn new(client: &Client, namespace: &str, cluster: &str) -> Self {
        Self { client: client.clone(), namespace: namespace.to_owned(), cluster: cluster.to_owned() }
    }

    fn api(&self) -> Api<Machine> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn of_cluster(&self) -> ListParams {
        ListParams::default().labels(&format!("{CLUSTER_LABEL}={}", self.cluster))
    }

    /// Returns all Machines.
    pub(crate) async fn list(&self) -> anyhow::Result<Vec<Machine>> {
        Ok(self.api().list(&self.of_cluster()).await?.items)
    }

    /// Returns the number of all Machines.
    pub(crate) async fn count(&self) -> anyhow::Result<usize> {
        Ok(self.list().await?.len())
    }

    /// Returns the workers by name. A Machine without a Node is not among them.
    pub(crate) async fn workers(&self) -> anyhow::Result<Vec<Worker>> {
        let machines = self.list().await?;
        let workers = machines.iter().filter(|it| !it.labels().contains_key(CONTROL_PLANE_LABEL));
        let mut workers: Vec<Worker> = workers.filter_map(Worker::of).collect();
        workers.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(workers)
    }

    /// Returns the first MachineDeployment and its number of replicas.
    pub(crate) async fn deployment(&self) -> anyhow::Result<(String, i32)> {
        let api: Api<MachineDeployment> = Api::namespaced(self.client.clone(), &self.namespace);
        let deployments = api.list(&self.of_cluster()).await?.items;
        let first = deployments.first().context("the cluster has no MachineDeployment")?;
        Ok((first.name_any(), first.spec.replicas.unwrap_or(1)))
    }

    fn clusters(&self) -> Api<Cluster> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Returns the topology of the Cluster, if it has one.
    pub(crate) async fn topology(&self) -> anyhow::Result<Option<Topology>> {
        Ok(self.clusters().get(&self.cluster).await?.spec.topology)
    }

    /// Returns the topology of the example.
    pub(crate) async fn topology_of_example(&self) -> anyhow::Result<Topology> {
        let found = self.topology().await?;
        found.with_context(|| {
            format!("Cluster {} is from an older version of this command: start with --fresh", self.cluster)
        })
    }

    /// Changes the topology of the Cluster.
    async fn change(&self, topology: Value) -> anyhow::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"topology": topology}}));
        let changed = self.clusters().patch(&self.cluster, &PatchParams::default(), &patch).await;
        changed.map(|_| ()).with_context(|| format!("Cluster {} cannot be changed", self.cluster))
    }

    /// Sets the number of Machines of the first worker group.
    pub(crate) async fn scale(&self, replicas: i32) -> anyhow::Result<()> {
        let topology = self.topology_of_example().await?;
        let mut groups = topology.workers.and_then(|it| it.machine_deployments).unwrap_or_default();
        let first = groups.first_mut().context("the topology has no worker group")?;
        first.replicas = Some(replicas);
        // A merge patch replaces a list as a whole.
        self.change(json!({"workers": {"machineDeployments": groups}})).await
    }

    /// Sets the Kubernetes version of the cluster.
    pub(crate) async fn upgrade(&self, version: &str) -> anyhow::Result<()> {
        self.change(json!({"version": version})).await
    }

    /// Requests the deletion of a Machine.
    pub(crate) async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.api().delete(name, &DeleteParams::background()).await?;
        Ok(())
    }

    /// Calls an action, and returns the name of the operation that it creates.
    pub(crate) async fn act(&self, machine: &str, action: &str, body: &Value) -> anyhow::Result<String> {
        let namespace = &self.namespace;
        let path =
            format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines/{machine}/{action}");
        let request = http::Request::post(path).header("content-type", "application/json");
        let created: MachineOperation = self.client.request(request.body(serde_json::to_vec(body)?)?).await?;
        Ok(created.name_any())
    }

    /// Returns what an operation waits for, and nothing once it is Complete.
    pub(crate) async fn incomplete(&self, operation: &str) -> anyhow::Result<Vec<String>> {
        let api: Api<MachineOperation> = Api::namespaced(self.client.clone(), &self.namespace);
        let current = api.get(operation).await?;
        match current.status.as_ref().and_then(|status| status.phase) {
            Some(OperationPhase::Complete) => Ok(Vec::new()),
            Some(OperationPhase::Failed | OperationPhase::Cancelled) => {
                bail!("{operation}: {}", messages(&current))
            }
            Some(OperationPhase::Pending | OperationPhase::Running) | None => {
                Ok(vec![format!("{operation}: {}", messages(&current))])
            }
        }
    }

    /// Returns the names of the steps of an operation that are done.
    pub(crate) async fn steps_done(&self, operation: &str) -> anyhow::Result<Vec<String>> {
        let api: Api<MachineOperation> = Api::namespaced(self.client.clone(), &self.namespace);
        let steps = api.get(operation).await?.status.unwrap_or_default().steps.unwrap_or_default();
        let done = steps.into_iter().filter(|step| step.state == StepState::Done);
        Ok(done.map(|step| step.name).collect())
    }
}

/// Returns the first worker group of a topology.
pub(crate) fn first_group(topology: &Topology) -> anyhow::Result<&MachineDeploymentTopology> {
    let groups = topology.workers.as_ref().and_then(|it| it.machine_deployments.as_ref());
    groups.and_then(|groups| groups.first()).context("the topology has no worker group")
}

fn messages(operation: &MachineOperation) -> String {
    let status = operation.status.clone().unwrap_or_default();
    let conditions = status.conditions.iter().flatten().map(|it| format!("{}: {}", it.kind, it.message));
    let steps = status.steps.iter().flatten().filter(|step| step.state == StepState::Running);
    let steps = steps.map(|step| format!("{}: {}", step.name, step.message.clone().unwrap_or_default()));
    conditions.chain(steps).collect::<Vec<_>>().join("; ")
}
