//! Test harness: starts etcd, the servers and the clients, and collects the records.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::etcd::EtcdCluster;
use crate::random::Random;
use crate::record::{Records, Selection, WriteOutcome, WriteRecord};
use crate::replica::Replica;
use crate::writers::{GADGETS, RunContext};
use crate::{InjectedBug, client, observer, readers, watchers, writers};

/// Parameters of a run.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// Path of the server program `history-replica`.
    pub server: PathBuf,
    /// Seed that repeats the random choices, but not the moments at which they are made.
    pub seed: u64,
    /// Duration of the run.
    pub lasts: Duration,
    /// True if etcd has three members, whose leader is killed, a server is killed and history is compacted.
    /// False for a run without disruptions.
    pub disruptions: bool,
    /// Bug of the first server.
    pub bug: Option<InjectedBug>,
}

const WRITERS: usize = 4;
const READERS: usize = 3;
const WATCHERS: usize = 6;

/// Longest time for the last write, after all disruptions of etcd.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs all clients, and collects their records.
///
/// # Errors
/// Returns an error if the test environment does not work.
pub async fn run(plan: &RunPlan) -> anyhow::Result<Records> {
    let mut random = Random::new(plan.seed);
    let logs = tempfile::tempdir()?;
    let etcd = EtcdCluster::start(if plan.disruptions { 3 } else { 1 }).await?;
    let servers = servers(plan, &etcd, logs.path()).await?;
    let ports = [servers[0].port(), servers[1].port()];
    let stop = CancellationToken::new();
    let context = RunContext { begun: Instant::now(), ports, stop: stop.clone() };
    let (announce, last) = watch::channel(0);
    let mut watching = JoinSet::new();
    for me in 0..WATCHERS {
        let selection = if me % 2 == 0 { Selection::All } else { Selection::Odd };
        watching.spawn(watchers::run(context.clone(), random.split(), me, selection, last.clone()));
    }
    let progress = observer::Progress::default();
    watching.spawn(observer::run(etcd.ports(), Arc::clone(&progress), last.clone()));
    let (writes, reads) = (Arc::default(), Arc::default());
    let mut working = JoinSet::new();
    for me in 0..WRITERS {
        working.spawn(writers::run(context.clone(), random.split(), me, Arc::clone(&writes)));
    }
    for me in 0..READERS {
        working.spawn(readers::run(context.clone(), random.split(), me, Arc::clone(&reads)));
    }
    let disruptions = Disruptions { etcd, servers, progress, random, until: context.begun + plan.lasts };
    let _kept = if plan.disruptions { disruptions.inject().await? } else { disruptions.wait().await };
    stop.cancel();
    working.join_all().await;
    let last = finish(&context, &writes).await?;
    announce.send_replace(last);
    let watchers = watching.join_all().await;
    let (writes, reads) = (take_records(&writes).await, take_records(&reads).await);
    Ok(Records { writes, reads, watchers, last })
}

async fn take_records<T>(records: &Arc<Mutex<Vec<T>>>) -> Vec<T> {
    std::mem::take(&mut *records.lock().await)
}

async fn servers(plan: &RunPlan, etcd: &EtcdCluster, logs: &Path) -> anyhow::Result<[Replica; 2]> {
    let endpoints = etcd.endpoints();
    let first = Replica::start(&plan.server, &endpoints, plan.bug, logs.join("first")).await?;
    let second = Replica::start(&plan.server, &endpoints, None, logs.join("second")).await?;
    Ok([first, second])
}

/// Writes the last object, which all watchers select, and after which nothing changes.
async fn finish(context: &RunContext, writes: &Arc<Mutex<Vec<WriteRecord>>>) -> anyhow::Result<u64> {
    let last = writers::gadget("last", "last");
    let begun = Instant::now();
    loop {
        for port in context.ports {
            if let Ok((201, object)) = client::send(port, "POST", GADGETS, Some(&last)).await {
                let (revision, content) =
                    writers::content(&object).context("the object of the last write is incomplete")?;
                let outcome = WriteOutcome::Stored(revision, content);
                let write = WriteRecord { key: "last".to_owned(), ended: context.begun.elapsed(), outcome };
                writes.lock().await.push(write);
                return Ok(revision);
            }
            // A write without a response may have stored it.
            let path = format!("{GADGETS}/last");
            if let Ok((200, object)) = client::send(port, "GET", &path, None).await {
                return Ok(writers::content(&object)
                    .context("the object of the last write is incomplete")?
                    .0);
            }
        }
        anyhow::ensure!(begun.elapsed() < LAST_WRITE_TIMEOUT, "the last object cannot be written");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Disruptions during the run.
struct Disruptions {
    etcd: EtcdCluster,
    servers: [Replica; 2],
    progress: observer::Progress,
    random: Random,
    until: Instant,
}

impl Disruptions {
    /// Waits until the end of the run, without disruptions.
    async fn wait(self) -> Self {
        tokio::time::sleep_until(self.until.into()).await;
        self
    }

    /// Causes each kind of disruption in turn, repeatedly.
    async fn inject(mut self) -> anyhow::Result<Self> {
        loop {
            for step in 0..4 {
                tokio::time::sleep(self.random.between(600, 1800)).await;
                if Instant::now() >= self.until {
                    return Ok(self);
                }
                match step {
                    0 => self.kill_leader().await?,
                    1 => self.kill_server(0).await?,
                    2 => self.compact().await,
                    _ => self.kill_server(1).await?,
                }
            }
        }
    }

    async fn kill_leader(&mut self) -> anyhow::Result<()> {
        let Some(leader) = self.etcd.leader().await else { return Ok(()) };
        self.etcd.kill(leader)?;
        tokio::time::sleep(self.random.between(500, 2500)).await;
        self.etcd.restart(leader)
    }

    async fn kill_server(&mut self, index: usize) -> anyhow::Result<()> {
        let pause = self.random.between(100, 1500);
        let Some(server) = self.servers.get_mut(index) else { return Ok(()) };
        server.kill()?;
        tokio::time::sleep(pause).await;
        server.restart()
    }

    /// Compacts the history that the observer has received. The state before the next change is kept, because etcd
    /// needs it for the previous value. During the election of a leader this fails, and is tried again later.
    async fn compact(&self) {
        let observed = self.progress.load(Ordering::Relaxed) / observer::REVISIONS_PER_TRANSACTION;
        let _ = self.etcd.compact(observed.saturating_sub(1)).await;
    }
}
