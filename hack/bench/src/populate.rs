//! Fills a namespace.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use clap::Args;
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Target, request};
use crate::kind::Kind;
use crate::operations::{make_namespace, revision};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Of which kind
    #[arg(long, default_value = "machine")]
    kind: Kind,
    /// Where; it is made if it is not there
    #[arg(long)]
    namespace: String,
    /// How many objects, each with a status
    #[arg(long)]
    count: usize,
    /// Requests in flight
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
}

/// Creates the objects and writes their status.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let started = Instant::now();
    let mut client = Client::connect(&arguments.target).await?;
    make_namespace(&mut client, &arguments.target, &arguments.namespace).await?;
    let next = AtomicUsize::new(0);
    try_join_all((0..arguments.in_flight).map(|_| fill(arguments, client.clone(), &next))).await?;
    Ok(json!({"count": arguments.count, "seconds": started.elapsed().as_secs_f64()}))
}

async fn fill(arguments: &Arguments, mut client: Client, next: &AtomicUsize) -> anyhow::Result<()> {
    let Arguments { target, kind, namespace, .. } = arguments;
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= arguments.count {
            return Ok(());
        }
        let name = format!("machine-{number}");
        let object = Bytes::from(kind.object(namespace, &name).to_string());
        let json = "application/json";
        let path = kind.collection(namespace);
        let made = client.expect(request(target, Method::POST, &path, Some((json, object)), json)?).await?;
        let status = kind.with_status(namespace, &name, revision(&made).unwrap_or_default(), 1);
        let path = kind.status(namespace, &name);
        client.expect(request(target, Method::PUT, &path, Some((json, status)), json)?).await?;
    }
}
