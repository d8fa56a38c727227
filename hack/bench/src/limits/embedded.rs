//! Write limit of the embedded store itself: creates of absent keys, like a server's creates, each durable when it
//! returns.
//!
//! Compared with etcd's transactions it shows the store's speed, and compared with the server's creates the
//! cost of the API around it.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use serde_json::{Value, json};
use storage_contract::{Key, Store};
use storage_embedded::EmbeddedStore;

use crate::latencies::Latencies;
use crate::process::Processes;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// An empty directory on the disk that is measured
    #[arg(long)]
    directory: PathBuf,
    #[command(flatten)]
    processes: Processes,
    /// Bytes of a value
    #[arg(long, default_value_t = 1550)]
    size: usize,
    /// Name of a subdirectory, so that runs do not conflict
    #[arg(long)]
    run: String,
    /// Writes in flight
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// Seconds of the measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Creates keys in a new store until the time is over, and removes the store.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let directory = arguments.directory.join(&arguments.run);
    let path = directory.join("store.redb");
    let store = Arc::new(EmbeddedStore::open(&path)?);
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let writers = (0..arguments.in_flight).map(|number| {
        let (store, end) = (Arc::clone(&store), started + Duration::from_secs_f64(arguments.seconds));
        let value = Bytes::from(vec![b'x'; arguments.size]);
        async move { tokio::spawn(create(store, value, number, end)).await? }
    });
    let all = try_join_all(writers).await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let mut latencies = Latencies::default();
    all.into_iter().for_each(|each| latencies.append(each));
    drop(store);
    std::fs::remove_dir_all(&directory)?;
    Ok(json!({
        "operation": "create", "inFlight": arguments.in_flight, "seconds": seconds,
        "count": latencies.count(), "latency": latencies.summary(), "used": used}))
}

async fn create(
    store: Arc<EmbeddedStore>,
    value: Bytes,
    number: usize,
    end: Instant,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while Instant::now() < end {
        let key = Key::new(format!("/limit/{number}-{}", latencies.count()))?;
        let started = Instant::now();
        store.create(&key, value.clone()).await?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}
