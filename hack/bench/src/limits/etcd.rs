//! Write limit of etcd itself: transactions that create if absent and update if unchanged, like a server's.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use etcd_client::{Client, Compare, CompareOp, KvClient, Txn, TxnOp};
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::StoreWrite;
use crate::latencies::Latencies;
use crate::process::Processes;

/// Keys of each worker that updates; with several keys, etcd changes several of its pages, as for a server's
/// objects.
const KEYS: usize = 32;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// URL of etcd
    #[arg(long)]
    endpoint: String,
    #[command(flatten)]
    processes: Processes,
    /// Kind of write to measure
    #[arg(long, default_value = "create")]
    operation: StoreWrite,
    /// Bytes of a value
    #[arg(long, default_value_t = 1550)]
    size: usize,
    /// Part of the keys, so that runs do not conflict
    #[arg(long)]
    run: String,
    /// Transactions in flight
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Writes keys until the time is over, and deletes them.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let client = Client::connect([&arguments.endpoint], None).await?;
    let mut workers: Vec<StoreWriter<'_>> = (0..arguments.in_flight)
        .map(|number| StoreWriter { arguments, kv: client.kv_client(), number, revisions: Vec::new() })
        .collect();
    if arguments.operation == StoreWrite::Update {
        try_join_all(workers.iter_mut().map(StoreWriter::fill)).await?;
    }
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(arguments.seconds);
    let all = try_join_all(workers.iter_mut().map(|worker| worker.repeat(end))).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let mut latencies = Latencies::default();
    all.into_iter().for_each(|each| latencies.append(each));
    let options = etcd_client::DeleteOptions::new().with_prefix();
    client.kv_client().delete(format!("/limit/{}/", arguments.run), Some(options)).await?;
    Ok(json!({
        "operation": arguments.operation.name(), "size": arguments.size, "inFlight": arguments.in_flight,
        "seconds": seconds, "count": latencies.count(), "latency": latencies.summary(), "used": used}))
}

/// One of the concurrent writers.
struct StoreWriter<'a> {
    arguments: &'a Arguments,
    kv: KvClient,
    number: usize,
    /// Revisions of its keys.
    revisions: Vec<i64>,
}

impl StoreWriter<'_> {
    async fn fill(&mut self) -> anyhow::Result<()> {
        for _ in 0..KEYS {
            self.create().await?;
        }
        Ok(())
    }

    async fn repeat(&mut self, end: Instant) -> anyhow::Result<Latencies> {
        let mut latencies = Latencies::default();
        while Instant::now() < end {
            let started = Instant::now();
            match self.arguments.operation {
                StoreWrite::Create => self.create().await?,
                StoreWrite::Update => self.update(latencies.count() % KEYS).await?,
            }
            latencies.add(started.elapsed());
        }
        Ok(latencies)
    }

    async fn create(&mut self) -> anyhow::Result<()> {
        let revision = self.write(self.revisions.len(), 0).await?;
        self.revisions.push(revision);
        Ok(())
    }

    async fn update(&mut self, index: usize) -> anyhow::Result<()> {
        let known = *self.revisions.get(index).context("there are too few keys")?;
        let revision = self.write(index, known).await?;
        self.revisions[index] = revision;
        Ok(())
    }

    /// Writes a key that has this revision, and returns its new revision.
    async fn write(&mut self, index: usize, revision: i64) -> anyhow::Result<i64> {
        let Arguments { run, size, .. } = self.arguments;
        let key = format!("/limit/{run}/{}-{index}", self.number);
        let guard = Compare::mod_revision(key.as_str(), CompareOp::Equal, revision);
        let put = TxnOp::put(key, vec![b'x'; *size], None);
        let response = self.kv.txn(Txn::new().when([guard]).and_then([put])).await?;
        ensure!(response.succeeded(), "a key is not at revision {revision}");
        Ok(response.header().context("a response without a header")?.revision())
    }
}
