//! Many informers that start at once, with WatchList.

use std::time::Instant;

use anyhow::{bail, ensure};
use clap::Args;
use futures::future::try_join_all;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::client::{Client, Target, request};
use crate::measured::Latencies;
use crate::process::Processes;
use bench_kinds::Kind;

/// Informers that share a connection: one program's.
const PER_CONNECTION: usize = 10;

/// What the bookmark that ends the initial events has, and nothing else.
const END: &[u8] = b"k8s.io/initial-events-end";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    processes: Processes,
    /// Of which kind
    #[arg(long, default_value = "machine")]
    kind: Kind,
    /// Of which namespace
    #[arg(long)]
    namespace: String,
    /// How many
    #[arg(long, default_value_t = 100)]
    informers: usize,
}

/// Starts them all, and tells how long each took until it had everything.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let mut clients = Vec::new();
    for _ in 0..arguments.informers.div_ceil(PER_CONNECTION) {
        clients.push(Client::connect(&arguments.target).await?);
    }
    let path = format!(
        "{}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        arguments.kind.collection(&arguments.namespace)
    );
    arguments.processes.forget_peak();
    let memory = arguments.processes.memory("server")?;
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let informers = (0..arguments.informers).map(|number| {
        let (client, target, path) =
            (clients[number % clients.len()].clone(), arguments.target.clone(), path.clone());
        async move { tokio::spawn(synchronize(client, target, path)).await? }
    });
    let sizes = try_join_all(informers).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let (mut latencies, mut bytes) = (Latencies::default(), 0);
    for (latency, size) in sizes {
        latencies.add(latency);
        bytes += size;
    }
    Ok(json!({
        "informers": arguments.informers, "seconds": seconds, "bytes": bytes, "latency": latencies.summary(),
        "used": used, "memoryBefore": memory, "memory": arguments.processes.memory("server")?}))
}

/// Until the bookmark that says that everything has come.
async fn synchronize(
    mut client: Client,
    target: Target,
    path: String,
) -> anyhow::Result<(std::time::Duration, usize)> {
    let started = Instant::now();
    let response = client.send(request(&target, Method::GET, &path, None, "application/json")?).await?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    let (mut body, mut bytes, mut tail) = (response.into_body(), 0, Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        bytes += data.len();
        // The mark may lie across two frames; it is in the last event, so near the end of what came.
        let from = data.len().saturating_sub(4096);
        tail.extend_from_slice(&data[from..]);
        if tail.windows(END.len()).any(|window| window == END) {
            return Ok((started.elapsed(), bytes));
        }
        let keep = tail.len().saturating_sub(END.len());
        tail.drain(..keep);
    }
    bail!("the watch ended before everything had come")
}
