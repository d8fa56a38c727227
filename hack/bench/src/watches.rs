//! Watch benchmark: one writer, many watches. It measures the time from a write until the last watch has it.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::client::{Client, LoadTarget, request};
use crate::latencies::Latencies;
use crate::operations::{make_namespace, revision};
use crate::process::Processes;
use bench_kinds::BenchKind;

/// Watches on one connection: fewer than the streams that servers permit on one.
const PER_CONNECTION: usize = 50;

/// Longest time until all watches have an update.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: LoadTarget,
    #[command(flatten)]
    processes: Processes,
    /// Kind of the objects
    #[arg(long, default_value = "machine")]
    kind: BenchKind,
    /// Namespace of the object; it must have no other writer
    #[arg(long, default_value = "watched")]
    namespace: String,
    /// Number of watches
    #[arg(long, default_value_t = 100)]
    watchers: usize,
    /// Number of updates, each sent when all watches have the one before
    #[arg(long, default_value_t = 1000)]
    updates: usize,
    /// Seconds after which no update is started
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
}

/// Number of events that all watches together have received, and the wake-up of the writer.
#[derive(Debug, Default)]
struct Received {
    events: AtomicU64,
    /// Number of events that wakes the writer.
    expected: AtomicU64,
    enough: Notify,
}

/// Opens the watches, writes the updates, and returns the latencies.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let Arguments { target, kind, namespace, .. } = arguments;
    let mut writer = Client::connect(target).await?;
    make_namespace(&mut writer, target, namespace).await?;
    let name = format!("watched-{}", std::process::id());
    let object = kind.object(namespace, &name);
    let collection = kind.collection(namespace);
    let json = "application/json";
    let created = request(target, Method::POST, &collection, Some((json, object)), json)?;
    let created = writer.expect(created).await?;
    let mut revision = revision(&created).context("a response without resourceVersion")?.to_owned();
    let received = Arc::new(Received::default());
    watch(arguments, &revision, &received).await?;

    let memory = arguments.processes.memory("server")?;
    let before = arguments.processes.read()?;
    let (mut last, mut answered) = (Latencies::default(), Latencies::default());
    let started = Instant::now();
    for iteration in 1..=arguments.updates {
        if started.elapsed().as_secs_f64() > arguments.seconds {
            break;
        }
        let expected = u64::try_from(iteration * arguments.watchers)?;
        received.expected.store(expected, Ordering::SeqCst);
        let body = kind.with_status(namespace, &name, &revision, u64::try_from(iteration)?);
        let path = kind.status(namespace, &name);
        let write = request(target, Method::PUT, &path, Some((json, body)), json)?;
        let sent = Instant::now();
        let all_received = tokio::time::timeout(DELIVERY_TIMEOUT, received.enough.notified());
        let (response, all_received) = tokio::join!(
            async { writer.expect(write).await.map(|response| (response, sent.elapsed())) },
            async { all_received.await.map(|()| sent.elapsed()) }
        );
        let (response, latency) = response?;
        answered.add(latency);
        last.add(all_received.with_context(|| format!("update {iteration} has not reached all watches"))?);
        revision = crate::operations::revision(&response).context("no resourceVersion")?.to_owned();
    }
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    writer.expect(request(target, Method::DELETE, &format!("{collection}/{name}"), None, json)?).await?;
    Ok(json!({
        "watchers": arguments.watchers, "seconds": seconds, "used": used, "last": last.summary(),
        "answered": answered.summary(), "memoryBefore": memory, "memory": arguments.processes.memory("server")?}))
}

/// Opens all watches.
async fn watch(arguments: &Arguments, revision: &str, received: &Arc<Received>) -> anyhow::Result<()> {
    let Arguments { target, kind, namespace, watchers, .. } = arguments;
    let path = format!("{}?watch=true&resourceVersion={revision}", kind.collection(namespace));
    let mut client = Client::connect(target).await?;
    for number in 0..*watchers {
        if number % PER_CONNECTION == 0 {
            client = Client::connect(target).await?;
        }
        let response = client.send(request(target, Method::GET, &path, None, "application/json")?).await?;
        let status = response.status();
        ensure!(status.is_success(), "watch {path}: {status}");
        tokio::spawn(count(response.into_body(), received.clone()));
    }
    Ok(())
}

/// Counts events: each ends with the only line feed in it.
async fn count(mut body: Incoming, received: Arc<Received>) -> anyhow::Result<()> {
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        let lines = u64::try_from(memchr::memchr_iter(b'\n', &data).count())?;
        let events = received.events.fetch_add(lines, Ordering::SeqCst) + lines;
        if lines > 0 && events == received.expected.load(Ordering::SeqCst) {
            received.enough.notify_one();
        }
    }
    bail!("a watch ended")
}
