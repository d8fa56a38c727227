//! Population of a namespace with objects for a measurement.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::Args;
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, LoadTarget, request};
use crate::copy;
use crate::operations::{make_namespace, revision};
use bench_kinds::BenchKind;

/// Longest time until a server has observed the writes to its etcd.
const OBSERVATION_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: LoadTarget,
    /// Kind of the objects
    #[arg(long, default_value = "machine")]
    kind: BenchKind,
    /// Namespace of the objects; it is created if it is absent
    #[arg(long)]
    namespace: String,
    /// Number of objects, each with a status
    #[arg(long)]
    count: usize,
    /// Requests in flight
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Create one object through the server, and copy it in this etcd: this takes seconds instead of minutes
    #[arg(long)]
    etcd: Option<String>,
}

/// Creates the objects, and writes their status.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let started = Instant::now();
    let mut client = Client::connect(&arguments.target).await?;
    make_namespace(&mut client, &arguments.target, &arguments.namespace).await?;
    let next = AtomicUsize::new(0);
    let by_request = if arguments.etcd.is_some() { 1 } else { arguments.count };
    try_join_all((0..arguments.in_flight).map(|_| fill(arguments, by_request, client.clone(), &next)))
        .await?;
    if let Some(etcd) = &arguments.etcd {
        let (namespace, first) = (&arguments.namespace, name(0));
        copy::copies(etcd, namespace, &first, 1..arguments.count, name, arguments.in_flight).await?;
        wait_for_last(arguments, &mut client).await?;
    }
    Ok(json!({"count": arguments.count, "seconds": started.elapsed().as_secs_f64()}))
}

fn name(number: usize) -> String {
    format!("machine-{number}")
}

/// Waits until the server has observed the last object.
async fn wait_for_last(arguments: &Arguments, client: &mut Client) -> anyhow::Result<()> {
    let Arguments { target, kind, namespace, count, .. } = arguments;
    let path = format!("{}/{}?resourceVersion=0", kind.collection(namespace), name(count.saturating_sub(1)));
    let end = Instant::now() + OBSERVATION_TIMEOUT;
    while !client
        .exchange(request(target, Method::GET, &path, None, "application/json")?)
        .await?
        .0
        .is_success()
    {
        ensure!(Instant::now() < end, "{path}: not observed within {} s", OBSERVATION_TIMEOUT.as_secs());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

async fn fill(
    arguments: &Arguments,
    count: usize,
    mut client: Client,
    next: &AtomicUsize,
) -> anyhow::Result<()> {
    let Arguments { target, kind, namespace, .. } = arguments;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(());
        }
        let name = name(number);
        let object = kind.object(namespace, &name);
        let json = "application/json";
        let path = kind.collection(namespace);
        let created =
            client.expect(request(target, Method::POST, &path, Some((json, object)), json)?).await?;
        let status = kind.with_status(namespace, &name, revision(&created).unwrap_or_default(), 1);
        let path = kind.status(namespace, &name);
        client.expect(request(target, Method::PUT, &path, Some((json, status)), json)?).await?;
    }
}
