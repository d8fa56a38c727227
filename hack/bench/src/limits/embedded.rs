//! Writes to Capstan's own store by itself: create if absent, as a server's create is, each durable when it is
//! answered. Beside etcd's transactions it tells what the store does, and beside the server's creates what the API
//! around it costs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use serde_json::{Value, json};
use storage_contract::{Key, Store};
use storage_embedded::EmbeddedStore;

use crate::measured::Latencies;
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
    /// The name of a directory in it, so that runs do not meet
    #[arg(long)]
    run: String,
    /// Writes in flight
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// How long
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Creates keys in a new store until the time is over, and takes it away.
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
