//! Measurement of one number of clusters.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use apiserver_types::Cluster;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::cloud::{self, Request};
use super::manifest::NewCluster;
use super::neighbours::{self, Neighbour};
use super::processes::{Capstan, CloudProcess};
use super::timeline::{Stage, Timeline, Watched};
use super::{waits, watch_cache};
use crate::process::{Processes, load_average};

/// Name of the clusters, each in a namespace of its own.
const NAME: &str = "bench";

/// Clusters whose objects are sent at the same time.
const IN_FLIGHT: usize = 4;

/// Interval of looks at the timeline. Times come from the watches, so it delays nothing that is reported.
const POLL: Duration = Duration::from_millis(100);

/// Looks between two lines about the progress.
const LOOKS_PER_LINE: u32 = 100;

/// Number of unfinished objects that a line names.
const NAMED: usize = 3;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Binary of the server
    #[arg(long)]
    capstan: PathBuf,
    /// Number of clusters
    #[arg(long)]
    clusters: usize,
    /// Control plane Machines of each cluster
    #[arg(long, default_value_t = 3)]
    control_plane: usize,
    /// Workers of each cluster
    #[arg(long, default_value_t = 10)]
    workers: usize,
    #[command(flatten)]
    cloud: cloud::Arguments,
    /// Duration of the rest that is measured, in seconds; 0 measures none
    #[arg(long, default_value_t = 600)]
    rest: u64,
    /// Time from the end of the creation to the begin of the rest, in seconds
    #[arg(long, default_value_t = 90)]
    settle: u64,
    /// Longest time for the creation, and for the deletion, in seconds
    #[arg(long, default_value_t = 3600)]
    patience: u64,
    /// Delete all clusters at the end, and measure that, too
    #[arg(long)]
    delete: bool,
    /// Cluster that misbehaves beside the others
    #[arg(long)]
    neighbour: Option<Neighbour>,
}

/// Running processes, and what was observed of them.
struct Scene<'a> {
    arguments: &'a Arguments,
    capstan: Capstan,
    cloud: CloudProcess,
    processes: Processes,
    watched: Watched,
    clusters: Vec<NewCluster>,
}

/// Measures the clusters with a new server and a new cloud.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    super::install_crypto();
    let directory = tempfile::tempdir()?;
    let cloud = CloudProcess::start(&arguments.cloud).await?;
    let capstan = Capstan::start(&arguments.capstan, directory.path()).await?;
    let processes = Processes::of(&[("server", capstan.pid()), ("cloud", cloud.pid())]);
    let clouds_yaml = cloud.credentials["normal"].as_str().unwrap_or_default();
    let clusters = (1..=arguments.clusters).map(|number| NewCluster {
        namespace: format!("c-{number:04}"),
        control_plane: arguments.control_plane,
        workers: arguments.workers,
        clouds_yaml: clouds_yaml.to_owned(),
    });
    let clusters = clusters.collect();
    let (watched, watches) = Watched::begin(&capstan.client);
    let mut scene = Scene { arguments, capstan, cloud, processes, watched, clusters };
    let measured = Box::pin(scene.measure()).await;
    drop(watches);
    let Scene { capstan, cloud, .. } = scene;
    if measured.is_err() {
        let kept = directory.keep();
        eprintln!("the log of the server is in {}", kept.display());
    }
    capstan.stop().await?;
    cloud.stop().await?;
    measured
}

impl Scene<'_> {
    async fn measure(&mut self) -> anyhow::Result<Value> {
        let Arguments { clusters, control_plane, workers, .. } = self.arguments;
        let mut row = json!({
            "clusters": clusters, "controlPlane": control_plane, "workers": workers, "machines": self.machines(),
            "memoryBefore": self.processes.memory("server")?,
        });
        row["creation"] = self.create().await?;
        if self.arguments.rest > 0 {
            row["rest"] = self.rest().await?;
        }
        if self.arguments.delete {
            row["deletion"] = self.delete().await?;
        }
        Ok(row)
    }

    fn machines(&self) -> usize {
        self.clusters.iter().map(NewCluster::machines).sum()
    }

    /// Creates all clusters, and waits until all of their Machines are Ready and they are Available.
    async fn create(&mut self) -> anyhow::Result<Value> {
        let mut neighbour = self.arguments.neighbour;
        if let Some((neighbour, like)) = neighbour.zip(self.clusters.first()) {
            neighbour.cluster(like, &self.cloud).create(&self.capstan.client).await?;
        }
        let before = self.processes.read()?;
        let (watched, client) = (&self.watched, &self.capstan.client);
        let begun = watched.now();
        let creations = self.clusters.iter().map(|cluster| async move {
            watched.applied(&cluster.namespace);
            cluster.create(client).await
        });
        stream::iter(creations).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await?;
        let applied = watched.now();
        let end = Instant::now() + Duration::from_secs(self.arguments.patience);
        let mut looks = 0_u32;
        loop {
            let missing = self.missing();
            if missing.is_empty() || Instant::now() > end {
                break;
            }
            if let Some(request) = neighbour.and_then(|it| it.request(&self.watched.lock())) {
                self.cloud.ask(&request).await?;
                neighbour = None;
            }
            if looks.is_multiple_of(LOOKS_PER_LINE) {
                progress(&self.watched, &missing);
            }
            looks += 1;
            tokio::time::sleep(POLL).await;
        }
        let used = self.processes.since(&before)?;
        self.created(begun, applied, &used).await
    }

    /// Returns the names of the clusters and Machines that are not ready.
    fn missing(&self) -> Vec<String> {
        let timeline = self.watched.lock();
        let mut missing = Vec::new();
        let mut counts: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
        for (name, machine) in &timeline.machines {
            *counts.entry(machine.namespace.as_str()).or_default() += 1;
            if !machine.is_ready && machine.namespace != neighbours::NAMESPACE {
                missing.push(name.clone());
            }
        }
        for cluster in &self.clusters {
            let namespace = cluster.namespace.as_str();
            let is_available = timeline.clusters.get(namespace).is_some_and(|it| it.is_ready);
            let count = counts.get(namespace).copied().unwrap_or_default();
            if !is_available || count != cluster.machines() {
                missing.push(namespace.to_owned());
            }
        }
        missing
    }

    async fn created(&mut self, begun: Duration, applied: Duration, used: &Value) -> anyhow::Result<Value> {
        let calls = self.cloud.ask(&Request::TakeCalls).await?;
        let missing = self.missing().len();
        let timeline = others(&self.watched.lock());
        let clusters = || timeline.clusters.values();
        let control_plane = || timeline.machines.values().filter(|it| it.control_plane);
        let last = clusters().filter_map(|it| it.stages.at(Stage::Available)).max();
        let machines = timeline.machines.values();
        Ok(json!({
            "missing": missing,
            "seconds": last.map(|last| last.saturating_sub(begun).as_secs_f64()),
            "applied": applied.saturating_sub(begun).as_secs_f64(),
            "infrastructure": waits::first_and_last(clusters(), Stage::Infrastructure, begun),
            "controlPlaneServers": waits::first_and_last(control_plane(), Stage::Infrastructure, begun),
            "initialized": waits::first_and_last(clusters(), Stage::Initialized, begun),
            "running": waits::first_and_last(machines, Stage::Running, begun),
            "machineReady": waits::machines(&timeline),
            "waits": waits::all(&timeline),
            "calls": calls,
            "used": used,
            "memory": self.processes.memory("server")?,
            "load": load_average(),
        }))
    }

    /// Measures the rest: what is needed for clusters in which nothing happens.
    async fn rest(&mut self) -> anyhow::Result<Value> {
        let Arguments { settle, rest, .. } = self.arguments;
        eprintln!("settle  {settle} s, then {rest} s of rest");
        tokio::time::sleep(Duration::from_secs(*settle)).await;
        let before = self.processes.read()?;
        self.cloud.ask(&Request::TakeCalls).await?;
        tokio::time::sleep(Duration::from_secs(*rest)).await;
        let used = self.processes.since(&before)?;
        let calls = self.cloud.ask(&Request::TakeCalls).await?;
        let memory = self.processes.memory("server")?;
        Ok(json!({
            "seconds": rest,
            "calls": calls,
            "used": used,
            "memory": memory,
            "watchCache": watch_cache::read(&self.capstan.client).await?,
            "cloudMemory": self.processes.memory("cloud")?,
            "missing": self.missing().len(),
            "load": load_average(),
        }))
    }

    /// Deletes all clusters, and waits until nothing is left of them.
    async fn delete(&mut self) -> anyhow::Result<Value> {
        let before = self.processes.read()?;
        self.cloud.ask(&Request::TakeCalls).await?;
        let begun = Instant::now();
        let client = &self.capstan.client;
        let deletions = self.clusters.iter().map(|cluster| async move {
            let api: Api<Cluster> = Api::namespaced(client.clone(), &cluster.namespace);
            api.delete(NAME, &DeleteParams::background()).await.with_context(|| cluster.namespace.clone())
        });
        stream::iter(deletions).buffer_unordered(IN_FLIGHT).try_collect::<Vec<_>>().await?;
        let end = begun + Duration::from_secs(self.arguments.patience);
        let mut looks = 0_u32;
        loop {
            let left: Vec<String> = others(&self.watched.lock()).clusters.into_keys().collect();
            if left.is_empty() || Instant::now() > end {
                break;
            }
            if looks.is_multiple_of(LOOKS_PER_LINE) {
                progress(&self.watched, &left);
            }
            looks += 1;
            tokio::time::sleep(POLL).await;
        }
        let seconds = begun.elapsed().as_secs_f64();
        let used = self.processes.since(&before)?;
        Ok(json!({
            "seconds": seconds,
            "missing": others(&self.watched.lock()).clusters.len(),
            "resources": self.cloud.ask(&Request::Resources).await?,
            "calls": self.cloud.ask(&Request::TakeCalls).await?,
            "used": used,
        }))
    }
}

/// Returns the timeline without the neighbour.
fn others(timeline: &Timeline) -> Timeline {
    let mut others = timeline.clone();
    others.clusters.remove(neighbours::NAMESPACE);
    others.machines.retain(|_, machine| machine.namespace != neighbours::NAMESPACE);
    others
}

fn progress(watched: &Watched, missing: &[String]) {
    let named = missing.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    eprintln!("{:>5} s {} objects are awaited: {named}", watched.now().as_secs(), missing.len());
}
