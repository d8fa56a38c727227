//! Story of a cluster: it is created, and its workers are scaled, rebooted, upgraded and deleted. Each step is checked.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, ensure};
use apiserver_cli::Tree;
use serde_json::json;

use crate::machines::{Machines, Worker};
use crate::tree::{Goal, Scene};
use crate::workload::{Workload, kubectl_get_nodes};

/// Number of workers in the example.
const WORKERS: i32 = 3;

/// A story, and what it has done so far.
pub(crate) struct Story<'a, 'b> {
    scene: &'a mut Scene<'b>,
    machines: Machines,
    begun: Instant,
    /// Names of Machines that earlier steps have changed.
    touched: Vec<String>,
}

/// Writes a line to standard output.
pub(crate) fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

impl<'a, 'b> Story<'a, 'b> {
    pub(crate) fn new(scene: &'a mut Scene<'b>) -> Self {
        let machines = Machines::new(&scene.client, &scene.namespace, &scene.cluster);
        Self { scene, machines, begun: Instant::now(), touched: Vec::new() }
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
        let (deployment, replicas) = self.machines.deployment().await?;
        if replicas != WORKERS {
            self.begin(&format!("scale MachineDeployment {deployment} to {WORKERS}, as at the start"))?;
            Box::pin(self.scale_to(&deployment, replicas, WORKERS)).await?;
        }
        self.begin(&format!("scale MachineDeployment {deployment} to {}", WORKERS + 1))?;
        Box::pin(self.scale_to(&deployment, WORKERS, WORKERS + 1)).await
    }

    async fn scale_to(&mut self, deployment: &str, from: i32, to: i32) -> anyhow::Result<()> {
        let others = self.machines.count().await?.saturating_sub(usize::try_from(from)?);
        self.machines.scale(deployment, to).await?;
        let goal = Goal { machines: Some(others + usize::try_from(to)?), gone: None };
        Box::pin(self.scene.until_ready(&goal)).await?;
        self.end(&format!("{to} workers are Ready"))
    }

    /// Returns a worker that no earlier step has changed. One for which `prefers` returns true comes first.
    async fn choose(&mut self, prefers: impl Fn(&Worker) -> bool) -> anyhow::Result<Worker> {
        let mut workers = self.machines.workers().await?;
        workers.retain(|worker| !self.touched.contains(&worker.name));
        let preferred = workers.iter().find(|worker| prefers(worker)).or_else(|| workers.first());
        let chosen = preferred.context("no worker is left")?.clone();
        self.touched.push(chosen.name.clone());
        Ok(chosen)
    }

    /// Reboots a worker. Its Node must be drained before.
    pub(crate) async fn reboot(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let worker = self.choose(|_| true).await?;
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

    /// Upgrades a worker to the version of the control plane.
    pub(crate) async fn upgrade(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let to = self.machines.control_plane_version().await?;
        let worker = self.choose(|worker| worker.version != to).await?;
        ensure!(worker.version != to, "all workers have version {to} already; start with --fresh");
        self.begin(&format!("upgrade Machine {} from {} to {to}", worker.name, worker.version))?;
        let (calls, _) = self.state_of(&worker, "rebuild")?;
        let operation = self.machines.act(&worker.name, "upgrade", &json!({"version": to})).await?;
        let machines = &self.machines;
        Box::pin(self.scene.until(async |_| machines.incomplete(&operation).await)).await?;
        self.check_steps(&operation).await?;
        let (made, _) = self.state_of(&worker, "rebuild")?;
        ensure!(
            made == calls + 1,
            "Nova received {} rebuilds of {} instead of one",
            made - calls,
            worker.server
        );
        let after = self.machines.worker(&worker.name).await?;
        ensure!(after.version == to, "Machine {} has version {} instead of {to}", worker.name, after.version);
        ensure!(after.server == worker.server, "Machine {} has another server now", worker.name);
        Box::pin(self.scene.until_ready(&Goal::default())).await?;
        let node = workload.node(&after.node).await?;
        ensure!(node.version == to, "the kubelet of Node {} has version {}", node.name, node.version);
        ensure!(node.is_schedulable, "Node {} is still cordoned", node.name);
        self.end(&format!(
            "{operation} is Complete; Nova rebuilt the server, and the Node joined again with {to}"
        ))
    }

    /// Deletes a Machine. Its MachineSet must create another one.
    pub(crate) async fn delete(&mut self, workload: &Workload) -> anyhow::Result<()> {
        let to = self.machines.control_plane_version().await?;
        // One that an earlier run has upgraded, so that the next run finds workers that it can upgrade.
        let worker = self.choose(|worker| worker.version == to).await?;
        self.begin(&format!("delete Machine {}", worker.name))?;
        let count = self.machines.count().await?;
        self.machines.delete(&worker.name).await?;
        let goal = Goal { machines: Some(count), gone: Some(worker.name.clone()) };
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
