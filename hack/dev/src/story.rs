//! Story of a cluster: it is created, its workers are scaled and rebooted, it is upgraded, and a worker is deleted. Each
//! step is checked.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use apiserver_cli::Tree;
use kube::ResourceExt;
use serde_json::json;

use crate::machines::{self, Machines, Worker};
use crate::tree::{Goal, Scene};
use crate::workload::{Workload, kubectl_get_nodes};

/// Number of workers in the example.
const WORKERS: i32 = 3;

/// Kubernetes version after the upgrade. The cloud has an image with it.
const NEWEST: &str = "v1.33.1";

/// A story, and what it has done so far.
pub(crate) struct Story<'a, 'b> {
    scene: &'a mut Scene<'b>,
    machines: Machines,
    begun: Instant,
}

/// Writes a line to standard output.
pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

impl<'a, 'b> Story<'a, 'b> {
    pub(crate) fn new(scene: &'a mut Scene<'b>) -> Self {
        let machines = Machines::new(&scene.client, &scene.namespace, &scene.cluster);
        Self { scene, machines, begun: Instant::now() }
    }

    fn begin(&mut self, title: &str) -> anyhow::Result<()> {
        self.begun = Instant::now();
        say(&format!("\n=== {title}"))
    }

    fn end(&self, result: &str) -> anyhow::Result<()> {
        say(&format!("--- {result}: {:.1} s", self.begun.elapsed().as_secs_f32()))
    }

    /// Waits until the cluster is complete, and writes its kubeconfig.
    pub(crate) async fn create(&mut self, kubeconfig: &Path, shown: &str) -> anyhow::Result<Workload> {
        self.begin(&format!("create Cluster {}/{}", self.scene.namespace, self.scene.cluster))?;
        let workload = Box::pin(self.scene.until_ready(&Goal::default())).await?;
        workload.write_kubeconfig(kubeconfig)?;
        let count = self.machines.count().await?;
        self.end(&format!("{count} Machines, and {count} Nodes are Ready"))?;
        match kubectl_get_nodes(kubeconfig).await? {
            Some(table) => say(&format!("\n$ kubectl --kubeconfig {shown} get nodes\n{table}"))?,
            None => say(&format!("kubectl is not installed. The kubeconfig of the cluster is {shown}"))?,
        }
        Ok(workload)
    }

    /// Scales the workers from three to four.
    pub(crate) async fn scale(&mut self) -> anyhow::Result<()> {
        let topology = self.machines.topology_of_example().await?;
        let group = machines::first_group(&topology)?;
        let (name, replicas) = (&group.name, group.replicas.unwrap_or(1));
        if replicas != WORKERS {
            self.begin(&format!("scale worker group {name} to {WORKERS}, as at the start"))?;
            Box::pin(self.scale_to(replicas, WORKERS)).await?;
        }
        self.begin(&format!("scale worker group {name} to {}", WORKERS + 1))?;
        Box::pin(self.scale_to(WORKERS, WORKERS + 1)).await
    }

    async fn scale_to(&mut self, from: i32, to: i32) -> anyhow::Result<()> {
        let others = self.machines.count().await?.saturating_sub(usize::try_from(from)?);
        self.machines.scale(to).await?;
        let goal = Goal { machines: Some(others + usize::try_from(to)?), ..Goal::default() };
        Box::pin(self.scene.until_ready(&goal)).await?;
        self.end(&format!("{to} workers are Ready"))
    }

    /// Returns a worker.
    async fn choose(&self) -> anyhow::Result<Worker> {
        let workers = self.machines.workers().await?;
        workers.first().cloned().context("the cluster has no worker")
    }

    /// Reboots a worker. Its Node must be drained before.
    pub(crate) async fn reboot(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let worker = self.choose().await?;
        self.begin(&format!("reboot Machine {}", worker.name))?;
        workload.run_pod(&worker.node).await?;
        let before = workload.node(&worker.node).await?;
        let (calls, boots) = self.state_of(&worker, "reboot")?;
        let operation = self.machines.act(&worker.name, "reboot", &json!({"type": "Soft"})).await?;
        let (mut is_cordoned, mut is_empty) = (false, false);
        let machines = &self.machines;
        let observe = async |_: &Tree| {
            let node = workload.node(&worker.node).await?;
            if node.boot_id == before.boot_id && !node.is_schedulable {
                is_cordoned = true;
                is_empty |= !workload.has_pod().await?;
            }
            machines.incomplete(&operation).await
        };
        Box::pin(self.scene.until(observe)).await?;
        ensure!(is_cordoned, "Node {} was not cordoned before the reboot", worker.node);
        ensure!(is_empty, "the pod on Node {} was not evicted before the reboot", worker.node);
        self.check_steps(&operation).await?;
        let (made, booted) = self.state_of(&worker, "reboot")?;
        ensure!(
            made == calls + 1,
            "Nova received {} reboots of {} instead of one",
            made - calls,
            worker.server
        );
        ensure!(
            booted == boots + 1,
            "server {} booted {} times instead of once",
            worker.server,
            booted - boots
        );
        let after = workload.node(&worker.node).await?;
        ensure!(after.boot_id != before.boot_id, "Node {} has not booted", worker.node);
        Box::pin(self.scene.until_ready(&Goal::default())).await?;
        self.end(&format!("{operation} is Complete; the Node was drained and Nova rebooted the server once"))
    }

    /// Upgrades the whole cluster by one field of its topology.
    pub(crate) async fn upgrade(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let from = self.machines.topology_of_example().await?.version;
        if from == NEWEST {
            return say(&format!(
                "\nThe cluster has version {NEWEST} already. --fresh starts again with an older one."
            ));
        }
        self.begin(&format!("upgrade Cluster {} from {from} to {NEWEST}", self.scene.cluster))?;
        let before = self.machines.list().await?;
        self.machines.upgrade(NEWEST).await?;
        let goal = Goal { machines: Some(before.len()), version: Some(NEWEST.to_owned()), ..Goal::default() };
        Box::pin(self.scene.until_ready(&goal)).await?;
        let after = self.machines.list().await?;
        let kept = before.iter().find(|old| after.iter().any(|new| new.uid() == old.uid()));
        ensure!(
            kept.is_none(),
            "Machine {} was not replaced",
            kept.map(ResourceExt::name_any).unwrap_or_default()
        );
        for node in workload.nodes().await?.values() {
            ensure!(node.version == NEWEST, "the kubelet of Node {} has version {}", node.name, node.version);
        }
        self.end(&format!(
            "all {} Machines were replaced, first the control plane, then the workers",
            after.len()
        ))
    }

    /// Deletes a Machine. Its MachineSet must create another one.
    pub(crate) async fn delete(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let worker = self.choose().await?;
        self.begin(&format!("delete Machine {}", worker.name))?;
        let count = self.machines.count().await?;
        self.machines.delete(&worker.name).await?;
        let goal = Goal { machines: Some(count), gone: Some(worker.name.clone()), ..Goal::default() };
        Box::pin(self.scene.until_ready(&goal)).await?;
        ensure!(self.scene.cloud.server(&worker.server).is_none(), "server {} still exists", worker.server);
        let nodes = workload.nodes().await?;
        ensure!(!nodes.contains_key(&worker.node), "Node {} still exists", worker.node);
        self.end("its server and its Node are gone, and another Machine has replaced it")
    }

    /// Returns the number of calls of an action on a worker's server, and the number of its boots.
    fn state_of(&self, worker: &Worker, action: &str) -> anyhow::Result<(usize, usize)> {
        let server = self.scene.cloud.server(&worker.server);
        let server = server.with_context(|| format!("server {} does not exist", worker.server))?;
        Ok((self.scene.cloud.calls(&worker.server, action), server.boots))
    }

    async fn check_steps(&self, operation: &str) -> anyhow::Result<()> {
        let done = self.machines.steps_done(operation).await?;
        for step in ["DrainNode", "UncordonNode"] {
            ensure!(done.iter().any(|it| it == step), "{operation}: step {step} is not among {done:?}");
        }
        Ok(())
    }
}
