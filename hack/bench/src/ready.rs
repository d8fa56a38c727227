//! Waits for a server.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, Target, request};

/// Between two attempts: what is measured is at most this much too long.
const PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// What must be answered with success
    #[arg(long, default_value = "/readyz")]
    path: String,
    /// Longest to wait, in seconds
    #[arg(long, default_value_t = 300)]
    patience: u64,
    /// The server's process: there is nothing to wait for when it has ended
    #[arg(long)]
    process: Option<u32>,
}

/// Asks until the answer is success; how long that took, in seconds.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let started = Instant::now();
    while !answers(arguments).await.unwrap_or(false) {
        if arguments.process.is_some_and(has_ended) {
            bail!("{}: the server has ended", arguments.target.server);
        }
        if started.elapsed() > Duration::from_secs(arguments.patience) {
            bail!(
                "{} {}: not ready within {} s",
                arguments.target.server,
                arguments.path,
                arguments.patience
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(json!({"seconds": started.elapsed().as_secs_f64()}))
}

/// Whether a process is gone, or dead and not yet taken away by whoever started it.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it is in brackets and may hold blanks.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

async fn answers(arguments: &Arguments) -> anyhow::Result<bool> {
    let mut client = Client::connect(&arguments.target).await?;
    let request = request(&arguments.target, Method::GET, &arguments.path, None, "*/*")?;
    Ok(client.ask(request).await?.0.is_success())
}
