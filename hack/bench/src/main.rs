//! Program `bench`: load generators for API servers, each run in a process of its own, and the report of the results.
//! `cargo xtask bench` builds it and runs it against each server in a round.

mod client;
mod clusters;
mod copy;
mod fairness;
mod informers;
mod latencies;
mod limits;
mod lists;
mod operations;
mod populate;
mod process;
mod ready;
mod report;
mod watches;

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::Value;

/// Loads an API server and prints the measured numbers as JSON
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create, get, status update, merge patch, apply and delete, one after the other
    Operations(operations::Arguments),
    /// Fill a namespace with objects that have a status
    Populate(populate::Arguments),
    /// List a namespace in every format that clients use
    Lists(lists::Arguments),
    /// Open many watches, and measure the time from a write until the last watch has it
    Watches(watches::Arguments),
    /// Start many informers at once
    Informers(informers::Arguments),
    /// Wait until a server is ready
    Ready(ready::Arguments),
    /// Run transactions of etcd itself, with values of the size of an object
    Etcd(limits::etcd::Arguments),
    /// Run writes to Capstan's embedded store itself, with values of the same size
    Embedded(limits::embedded::Arguments),
    /// Measure how long one user waits while two others send many requests
    Fairness(fairness::Arguments),
    /// Serve bytes from memory through the same TLS and HTTP, as the limit for reads
    Floor(limits::floor::Arguments),
    /// Create clusters of hollow nodes, let them rest, and delete them
    Clusters(clusters::Arguments),
    /// Serve a simulated cloud with hollow nodes, for `clusters`
    Cloud(clusters::cloud::Arguments),
    /// Write tables and plots of the results
    Report(report::Arguments),
    /// Write tables and plots of the results of `clusters`
    ClusterReport(report::Arguments),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(result) => {
            let _ = writeln!(std::io::stdout(), "{result}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command with the number of threads that takes the least processor time from the servers.
fn run(command: Command) -> anyhow::Result<Value> {
    use tokio::runtime::Builder;
    let mut builder = match command {
        // These commands send few requests and receive much data, or are servers.
        Command::Lists(_)
        | Command::Informers(_)
        | Command::Fairness(_)
        | Command::Floor(_)
        | Command::Cloud(_) => Builder::new_multi_thread(),
        // Here a handover between threads costs more than the work itself. One thread is never saturated: the
        // report shows its CPU time.
        _ => Builder::new_current_thread(),
    };
    builder.enable_all().build()?.block_on(dispatch(command))
}

async fn dispatch(command: Command) -> anyhow::Result<Value> {
    match command {
        Command::Operations(arguments) => operations::run(&arguments).await,
        Command::Populate(arguments) => populate::run(&arguments).await,
        Command::Lists(arguments) => lists::run(&arguments).await,
        Command::Watches(arguments) => watches::run(&arguments).await,
        Command::Informers(arguments) => informers::run(&arguments).await,
        Command::Ready(arguments) => ready::run(&arguments).await,
        Command::Etcd(arguments) => limits::etcd::run(&arguments).await,
        Command::Embedded(arguments) => limits::embedded::run(&arguments).await,
        Command::Fairness(arguments) => fairness::run(&arguments).await,
        Command::Floor(arguments) => limits::floor::run(&arguments).await,
        Command::Clusters(arguments) => Box::pin(clusters::run(&arguments)).await,
        Command::Cloud(arguments) => Box::pin(clusters::cloud::run(&arguments)).await,
        Command::Report(arguments) => report::run(&arguments),
        Command::ClusterReport(arguments) => report::clusters(&arguments),
    }
}
