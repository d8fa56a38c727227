//! Wait until a server is ready.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use crate::client::{Client, LoadTarget, request};

/// Interval between two attempts: the measured time is too long by this at most.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: LoadTarget,
    /// Path that must return success
    #[arg(long, default_value = "/readyz")]
    path: String,
    /// Longest to wait, in seconds
    #[arg(long, default_value_t = 300)]
    patience: u64,
    /// Process of the server: the wait fails when it has exited
    #[arg(long)]
    process: Option<u32>,
}

/// Polls until the response is a success, and returns the time that it took, in seconds.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<Value> {
    let started = Instant::now();
    while !is_ready(arguments).await.unwrap_or(false) {
        if arguments.process.is_some_and(has_exited) {
            bail!("{}: the server has exited", arguments.target.server);
        }
        if started.elapsed() > Duration::from_secs(arguments.patience) {
            bail!(
                "{} {}: not ready within {} s",
                arguments.target.server,
                arguments.path,
                arguments.patience
            );
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(json!({"seconds": started.elapsed().as_secs_f64()}))
}

/// Returns true if a process is gone, or dead and not yet reaped by its parent.
fn has_exited(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name before it is in brackets and may contain blanks.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

async fn is_ready(arguments: &Arguments) -> anyhow::Result<bool> {
    let mut client = Client::connect(&arguments.target).await?;
    let request = request(&arguments.target, Method::GET, &arguments.path, None, "*/*")?;
    Ok(client.exchange(request).await?.0.is_success())
}
