//! The run.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::etcd::Etcd;
use crate::random::Random;
use crate::record::{Outcome, Records, Selection, Write};
use crate::replica::Replica;
use crate::writers::{GADGETS, Scene};
use crate::{Fault, client, observer, readers, watchers, writers};

/// What is to happen.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The program that serves: `history-replica`.
    pub server: PathBuf,
    /// Repeats the choices of everybody, though not the moments at which they are made.
    pub seed: u64,
    /// How long they work.
    pub lasts: Duration,
    /// Whether etcd has three members, whose leader is killed, a server is killed, and history is
    /// compacted. Without, all is well.
    pub trouble: bool,
    /// The bug of the first server.
    pub fault: Option<Fault>,
}

const WRITERS: usize = 4;
const READERS: usize = 3;
const WATCHERS: usize = 6;

/// Longest the last write may take, after everything that was done to etcd.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets everybody work, and collects what they were told.
///
/// # Errors
/// When the laboratory itself does not work.
pub async fn run(plan: &Plan) -> anyhow::Result<Records> {
    let mut random = Random::new(plan.seed);
    let logs = tempfile::tempdir()?;
    let etcd = Etcd::start(if plan.trouble { 3 } else { 1 }).await?;
    let servers = servers(plan, &etcd, logs.path()).await?;
    let ports = [servers[0].port(), servers[1].port()];
    let stop = CancellationToken::new();
    let scene = Scene { begun: Instant::now(), ports, stop: stop.clone() };
    let (said, last) = watch::channel(0);
    let mut watching = JoinSet::new();
    for me in 0..WATCHERS {
        let selection = if me % 2 == 0 { Selection::All } else { Selection::Odd };
        watching.spawn(watchers::run(scene.clone(), random.split(), me, selection, last.clone()));
    }
    let seen = observer::Progress::default();
    watching.spawn(observer::run(etcd.ports(), Arc::clone(&seen), last.clone()));
    let (writes, reads) = (Arc::default(), Arc::default());
    let mut working = JoinSet::new();
    for me in 0..WRITERS {
        working.spawn(writers::run(scene.clone(), random.split(), me, Arc::clone(&writes)));
    }
    for me in 0..READERS {
        working.spawn(readers::run(scene.clone(), random.split(), me, Arc::clone(&reads)));
    }
    let trouble = Trouble { etcd, servers, seen, random, until: scene.begun + plan.lasts };
    let _kept = if plan.trouble { trouble.make().await? } else { trouble.spare().await };
    stop.cancel();
    working.join_all().await;
    let last = finish(&scene, &writes).await?;
    said.send_replace(last);
    let watchers = watching.join_all().await;
    let (writes, reads) = (taken(&writes).await, taken(&reads).await);
    Ok(Records { writes, reads, watchers, last })
}

async fn taken<T>(records: &Arc<Mutex<Vec<T>>>) -> Vec<T> {
    std::mem::take(&mut *records.lock().await)
}

async fn servers(plan: &Plan, etcd: &Etcd, logs: &Path) -> anyhow::Result<[Replica; 2]> {
    let endpoints = etcd.endpoints();
    let first = Replica::start(&plan.server, &endpoints, plan.fault, logs.join("first")).await?;
    let second = Replica::start(&plan.server, &endpoints, None, logs.join("second")).await?;
    Ok([first, second])
}

/// One last write, selected by everybody, after which nothing comes.
async fn finish(scene: &Scene, writes: &Arc<Mutex<Vec<Write>>>) -> anyhow::Result<u64> {
    let last = writers::gadget("last", "last");
    let begun = Instant::now();
    loop {
        for port in scene.ports {
            if let Ok((201, object)) = client::send(port, "POST", GADGETS, Some(&last)).await {
                let (revision, content) = writers::content(&object).context("the last write is not whole")?;
                let outcome = Outcome::Stored(revision, content);
                let write = Write { key: "last".to_owned(), ended: scene.begun.elapsed(), outcome };
                writes.lock().await.push(write);
                return Ok(revision);
            }
            // It may have been stored by a write that was not answered.
            let path = format!("{GADGETS}/last");
            if let Ok((200, object)) = client::send(port, "GET", &path, None).await {
                return Ok(writers::content(&object).context("the last write is not whole")?.0);
            }
        }
        anyhow::ensure!(begun.elapsed() < PATIENCE, "nothing can be written any more");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What goes wrong meanwhile.
struct Trouble {
    etcd: Etcd,
    servers: [Replica; 2],
    seen: observer::Progress,
    random: Random,
    until: Instant,
}

impl Trouble {
    /// None: it only passes the time.
    async fn spare(self) -> Self {
        tokio::time::sleep_until(self.until.into()).await;
        self
    }

    /// Each kind of it in turn, again and again.
    async fn make(mut self) -> anyhow::Result<Self> {
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

    /// All that etcd itself has told; the state before the next change is kept, because etcd tells
    /// what was before from that. While a leader is elected nobody compacts; there will be another time.
    async fn compact(&self) {
        let seen = self.seen.load(Ordering::Relaxed) / observer::EACH;
        let _ = self.etcd.compact(seen.saturating_sub(1)).await;
    }
}
