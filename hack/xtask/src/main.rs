//! `cargo xtask`: the one tool of this repository.

mod bench;
mod check;
mod conformance;
mod dev;
mod e2e;
mod fuzz;
mod language;
mod layers;
mod modules;
mod prerequisites;
mod run;
mod suites;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The one tool of this repository. Each command installs what it needs first, or names it.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start Capstan with a simulated OpenStack and a cluster of three machines
    Dev(dev::Arguments),
    /// Compare with a real kube-apiserver, record its answers, or serve for somebody else's requests
    Conformance(conformance::Arguments),
    /// Run the tests that need only cargo and etcd; with --all, the long proofs, too
    Test(test::Arguments),
    /// Print how long each suite took when it last ran, beside its budget
    Times,
    /// Try what clients may send, made by machine from a corpus
    Fuzz(fuzz::Arguments),
    /// Run the tests behind a real kube-apiserver and in a real OpenStack
    E2e(e2e::Arguments),
    /// Measure Capstan beside a kube-apiserver with CRDs, and draw the report
    Bench(bench::Arguments),
    /// Check form, lints, docs, layers, dependencies and generated files
    Check,
    /// Write the generated files anew
    Generate,
}

fn generate() -> anyhow::Result<()> {
    layers::generate()?;
    modules::generate()?;
    language::generate()
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Dev(arguments) => dev::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Test(arguments) => test::run(&arguments),
        Command::Times => suites::times(),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::E2e(arguments) => e2e::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Check => check::run(),
        Command::Generate => generate(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
