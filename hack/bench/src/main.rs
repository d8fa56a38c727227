//! `bench`: what loads an API server, in a process of its own, and what draws the report.
//! `cargo xtask bench` builds it and runs it against every server in turn.

mod client;
mod copy;
mod fairness;
mod informers;
mod limits;
mod lists;
mod measured;
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

/// Loads an API server and prints what was measured, as JSON.
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
    /// List a namespace in all the ways that clients do
    Lists(lists::Arguments),
    /// Watch with many, and measure from a write until the last has it
    Watches(watches::Arguments),
    /// Start many informers at once
    Informers(informers::Arguments),
    /// Wait until a server is ready
    Ready(ready::Arguments),
    /// Transactions of etcd itself, of the size of an object
    Etcd(limits::etcd::Arguments),
    /// Writes to Capstan's own store by itself, of the same size
    Embedded(limits::embedded::Arguments),
    /// What a user waits for while two others ask for much
    Fairness(fairness::Arguments),
    /// Serve bytes from memory through the same TLS and HTTP, as the limit for reads
    Floor(limits::floor::Arguments),
    /// Draw tables and pictures of results
    Report(report::Arguments),
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

/// Runs a command on threads of the number that takes least from the servers.
fn run(command: Command) -> anyhow::Result<Value> {
    use tokio::runtime::Builder;
    let mut builder = match command {
        // They ask for little and take in much, or are servers.
        Command::Lists(_) | Command::Informers(_) | Command::Fairness(_) | Command::Floor(_) => {
            Builder::new_multi_thread()
        }
        // What is handed from one thread to another here costs more than is done with it. One is never full of work:
        // the report tells how much there was.
        _ => Builder::new_current_thread(),
    };
    builder.enable_all().build()?.block_on(carry_out(command))
}

async fn carry_out(command: Command) -> anyhow::Result<Value> {
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
        Command::Report(arguments) => report::run(&arguments),
    }
}
