//! Informer benchmark: many informers that start at once, with WatchList.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::time::Instant;

use anyhow::{bail, ensure};
use clap::Args;
use futures::future::try_join_all;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::client::{Client, LoadTarget, request};
use crate::latencies::Latencies;
use crate::process::Processes;
use bench_kinds::BenchKind;

/// Informers on one connection, as in one program.
const PER_CONNECTION: usize = 10;

/// Annotation that only the bookmark after the initial events has.
const END: &[u8] = b"k8s.io/initial-events-end";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: LoadTarget,
    #[command(flatten)]
    processes: Processes,
    /// Kind of the objects
    #[arg(long, default_value = "machine")]
    kind: BenchKind,
    /// Namespace of the objects
    #[arg(long)]
    namespace: String,
    /// Number of informers
    #[arg(long, default_value_t = 100)]
    informers: usize,
}

/// Starts all informers, and measures the time until each one has all objects.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let mut clients = Vec::new();
    for _ in 0..arguments.informers.div_ceil(PER_CONNECTION) {
        clients.push(Client::connect(&arguments.target).await?);
    }
    let path = format!(
        "{}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        arguments.kind.collection(&arguments.namespace)
    );
    arguments.processes.reset_peak();
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

/// Reads a watch up to the bookmark that ends the initial events.
async fn synchronize(
    mut client: Client,
    target: LoadTarget,
    path: String,
) -> anyhow::Result<(std::time::Duration, usize)> {
    let started = Instant::now();
    let response = client.send(request(&target, Method::GET, &path, None, "application/json")?).await?;
    ensure!(response.status().is_success(), "{path}: {}", response.status());
    let (mut body, mut bytes, mut tail) = (response.into_body(), 0, Vec::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        bytes += data.len();
        // The annotation may lie across two frames. It is in the last event, so near the end of the received
        // bytes.
        let from = data.len().saturating_sub(4096);
        tail.extend_from_slice(&data[from..]);
        if tail.windows(END.len()).any(|window| window == END) {
            return Ok((started.elapsed(), bytes));
        }
        let keep = tail.len().saturating_sub(END.len());
        tail.drain(..keep);
    }
    bail!("the watch ended before its initial events were complete")
}
