//! Transactions of etcd itself: create if absent, as a server's create is.

use std::time::{Duration, Instant};

use clap::Args;
use etcd_client::{Client, Compare, CompareOp, Txn, TxnOp};
use futures::future::try_join_all;
use serde_json::{Value, json};

use crate::measured::Latencies;
use crate::process::Processes;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// URL of etcd
    #[arg(long)]
    endpoint: String,
    #[command(flatten)]
    processes: Processes,
    /// Bytes of a value
    #[arg(long, default_value_t = 2600)]
    size: usize,
    /// Put into the keys, so that runs do not meet
    #[arg(long)]
    run: String,
    /// Transactions in flight
    #[arg(long, default_value_t = 16)]
    in_flight: usize,
    /// How long
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

/// Creates keys until the time is over, and takes them away.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let client = Client::connect([&arguments.endpoint], None).await?;
    let before = arguments.processes.read()?;
    let started = Instant::now();
    let all = try_join_all((0..arguments.in_flight).map(|number| create(arguments, client.clone(), number)))
        .await?;
    let seconds = started.elapsed().as_secs_f64();
    let used = arguments.processes.since(&before)?;
    let mut latencies = Latencies::default();
    all.into_iter().for_each(|each| latencies.append(each));
    let options = etcd_client::DeleteOptions::new().with_prefix();
    client.kv_client().delete(format!("/limit/{}/", arguments.run), Some(options)).await?;
    Ok(json!({
        "operation": "create", "inFlight": arguments.in_flight, "seconds": seconds,
        "count": latencies.count(), "latency": latencies.summary(), "used": used}))
}

async fn create(arguments: &Arguments, client: Client, number: usize) -> anyhow::Result<Latencies> {
    let (mut client, value) = (client.kv_client(), vec![b'x'; arguments.size]);
    let mut latencies = Latencies::default();
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    while Instant::now() < end {
        let key = format!("/limit/{}/{number}-{}", arguments.run, latencies.count());
        let absent = Compare::mod_revision(key.as_str(), CompareOp::Equal, 0);
        let put = TxnOp::put(key, value.as_slice(), None);
        let started = Instant::now();
        client.txn(Txn::new().when([absent]).and_then([put])).await?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}
