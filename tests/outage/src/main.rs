//! Load and observer of `cargo xtask e2e --only outage`: whole clusters on a simulated OpenStack, users of both
//! endpoints, watchers, and the verdict on all that they observed.
//!
//! The caller kills and starts the processes. It sends one command per line: `clients`, `roll`, `mark TEXT` and `end`.
//! The program prints one line when a command is done, and its report after `end`. It knows Capstan only as a client.

mod call;
mod clients;
mod cloud;
mod cluster;
mod lease;
mod record;
mod verdict;
mod watchers;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::Parser;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use clients::Identity;
use cloud::Cloud;
use cluster::Cluster;
use record::{Recorder, Rollout};
use verdict::CloudState;

/// Time in which watchers receive the last events.
const DELIVERY: Duration = Duration::from_secs(15);

/// Load and observer of an outage
#[derive(Debug, Parser)]
struct Arguments {
    /// Address of the simulated OpenStack
    #[arg(long)]
    cloud: SocketAddr,
    /// Directory for the configuration of the issuer, and its token
    #[arg(long)]
    home: PathBuf,
    /// Manifest of a Cluster; can be repeated, and the workers of the first one are rolled
    #[arg(long = "manifest", required = true)]
    manifests: Vec<PathBuf>,
    /// Pause of each client between two calls, in milliseconds
    #[arg(long, default_value_t = 200)]
    pace: u64,
    /// Kubeconfig of an administrator on the direct endpoint
    #[arg(long)]
    admin: PathBuf,
    /// User as NAME:REALM:TASKS:KUBECONFIG, with REALM own, denied, host or aggregated, and a number of writers and of
    /// readers; can be repeated
    #[arg(long = "identity")]
    identities: Vec<Identity>,
}

fn main() -> ExitCode {
    // This cannot fail: no other provider is installed before.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let arguments = Arguments::parse();
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a line for the caller.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let mut commands = commands();
    let cloud = Cloud::start(arguments.cloud, &arguments.home).await?;
    say("cloud")?;
    expect(&mut commands, "clients").await?;
    let recorder = Recorder::start();
    let (clusters, cluster) = create(&arguments, &cloud).await?;
    let first = servers(&clusters).await?.len();
    let (stop, quiet) = (CancellationToken::new(), CancellationToken::new());
    let (mut users, mut observers) = (JoinSet::new(), JoinSet::new());
    let pace = Duration::from_millis(arguments.pace);
    clients::start(&arguments.identities, pace, &recorder, &stop, &mut users).await?;
    watchers::start(&arguments.identities, &recorder, &quiet, &mut observers).await?;
    lease::start(&arguments.admin, &recorder, &stop, &mut users).await?;
    say("clients")?;
    let mut rollout = JoinSet::new();
    while let Some(command) = commands.recv().await {
        match command.split_once(' ').unwrap_or((&command, "")) {
            ("roll", _) => {
                let (cluster, recorder) = (cluster.clone(), recorder.clone());
                rollout.spawn(async move { roll(&cluster, &recorder).await });
                say("roll")?;
            }
            ("mark", text) => {
                recorder.mark(text);
                say("mark")?;
            }
            ("end", _) => break,
            _ => bail!("unknown command {command:?}"),
        }
    }
    let mut rolled = 0;
    while let Some(ended) = rollout.join_next().await {
        rolled += ended??;
    }
    stop.cancel();
    finish(users).await?;
    tokio::time::sleep(DELIVERY).await;
    quiet.cancel();
    finish(observers).await?;
    let state = CloudState {
        created: cloud.creations(),
        wanted: first + rolled,
        servers: cloud.servers(),
        named: servers(&clusters).await?.into_iter().collect(),
        doubled: cloud.doubled(),
    };
    let report = verdict::judge(&recorder.take(), &state);
    say(&report.text)?;
    ensure!(report.violations.is_empty(), "{}", report.violations.join("\n"));
    cloud.shutdown().await
}

/// Creates all clusters, and waits until they are complete. Returns them, and the one whose workers are rolled.
async fn create(arguments: &Arguments, cloud: &Cloud) -> anyhow::Result<(Vec<Cluster>, Cluster)> {
    let mut clusters = Vec::new();
    for manifest in &arguments.manifests {
        clusters.push(Cluster::create(&arguments.admin, manifest).await?);
    }
    for cluster in &clusters {
        cluster.wait().await.with_context(|| cloud.boot_errors())?;
    }
    let rolled = clusters.first().context("there is no manifest")?.clone();
    Ok((clusters, rolled))
}

/// Returns the ids of the servers of all Machines.
async fn servers(clusters: &[Cluster]) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for cluster in clusters {
        all.extend(cluster.servers().await?);
    }
    Ok(all)
}

/// Rolls all workers once, and records the duration. Returns the number of workers. The caller gets a line about an error, too:
/// it waits for the end of the rollout.
async fn roll(cluster: &Cluster, recorder: &Recorder) -> anyhow::Result<usize> {
    let begun = recorder.now();
    let workers = match cluster.roll().await {
        Ok(workers) => workers,
        Err(error) => {
            say(&format!("the rollout has failed: {error:#}"))?;
            return Err(error);
        }
    };
    let ended = recorder.now();
    recorder.mark(&format!("rolled {workers} workers in {:.0} s", ended.saturating_sub(begun).as_secs_f64()));
    recorder.lock().rollouts.push(Rollout { begun, ended, workers });
    say("rolled")?;
    Ok(workers)
}

/// Waits for the end of all tasks.
async fn finish(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Reads the commands of the caller.
fn commands() -> UnboundedReceiver<String> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

async fn expect(commands: &mut UnboundedReceiver<String>, expected: &str) -> anyhow::Result<()> {
    let line = commands.recv().await;
    ensure!(line.as_deref() == Some(expected), "{line:?} instead of {expected:?}");
    Ok(())
}
