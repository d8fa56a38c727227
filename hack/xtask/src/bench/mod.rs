//! Command `cargo xtask bench`: measures Capstan, a kube-apiserver with CRDs and an aggregated server in Go.

mod backups;
mod clusters;
mod growth;
mod guard;
mod lists;
mod phases;
mod results;
mod servers;
mod testbed;

use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use crate::{prerequisites, run};
use results::Results;
use testbed::Testbed;

/// Measures Capstan and, for comparison, a real kube-apiserver with CRDs, an aggregated server in Go, etcd itself and a
/// server that returns bytes from memory, all on this machine.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Measure less: under five minutes after the build, and no lists of 100,000 objects
    #[arg(long)]
    quick: bool,
    /// Number of rounds, each of which measures every server [default: 3, with --quick 1]
    #[arg(long)]
    rounds: Option<usize>,
    /// Run only phases whose name contains this text: operations, watches, lists, fairness, growth, backups, restarts;
    /// with --clusters sizes, peer, neighbours
    #[arg(long, default_value = "")]
    only: String,
    /// Measure only these servers: kube-apiserver, sample-apiserver, capstan, capstan-embedded
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,
    /// Directory for the report [default: docs/benchmarks, with --quick target/benchmarks]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only count the instructions of the hot paths, and fail if a path takes over 10 % more than recorded
    #[arg(long)]
    guard: bool,
    /// With --guard: record the numbers that are counted now
    #[arg(long, requires = "guard")]
    keep: bool,
    /// Write the report from earlier results, and measure nothing
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    clusters: clusters::Arguments,
}

/// Extent of a measurement.
struct Extent {
    rounds: usize,
    /// Duration of each operation. Unit: seconds.
    seconds: f64,
    /// Sizes of namespaces that are listed.
    sizes: &'static [usize],
    /// Time during which further lists are started. Unit: seconds.
    list_seconds: f64,
    /// Numbers of watchers.
    watchers: &'static [usize],
    updates: usize,
    /// Time during which further updates are started. Unit: seconds.
    watch_seconds: f64,
    /// Numbers of watchers for the growth of the cost of a change.
    growing_watchers: &'static [usize],
    /// True if several readers read the largest lists in every form, and not only whole.
    every_form: bool,
}

const QUICK: Extent = Extent {
    rounds: 1,
    seconds: 0.7,
    sizes: &[1_000, 10_000],
    list_seconds: 0.2,
    watchers: &[100],
    updates: 200,
    watch_seconds: 3.0,
    growing_watchers: &[1, 10, 100, 1_000],
    every_form: false,
};

const WHOLE: Extent = Extent {
    rounds: 3,
    seconds: 2.0,
    sizes: &[1_000, 10_000, 100_000],
    list_seconds: 1.0,
    watchers: &[100, 1_000],
    updates: 1_000,
    watch_seconds: 20.0,
    growing_watchers: &[1, 10, 100, 1_000, 5_000],
    every_form: true,
};

/// Builds and starts the servers, measures them and writes the report.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    if arguments.guard {
        return guard::run(arguments.keep);
    }
    if arguments.clusters.is_chosen() {
        return arguments.clusters.run(&arguments.only, arguments.report, arguments.out.as_ref());
    }
    prerequisites::lab()?;
    let release = ["build", "--quiet", "--locked", "--release", "-p", "apiserver-server", "-p", "bench"];
    run::shown(&mut run::cargo(&release)?)?;
    let quick = || run::target().map(|target| target.join("benchmarks"));
    let out = match (&arguments.out, arguments.quick) {
        (Some(out), _) => out.clone(),
        (None, true) => quick()?,
        (None, false) => run::root()?.join("docs/benchmarks"),
    };
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let data = out.join("api-server.json");
    if !arguments.report {
        let mut extent = if arguments.quick { QUICK } else { WHOLE };
        extent.rounds = arguments.rounds.unwrap_or(extent.rounds);
        let mut results = Results::new(arguments.quick, extent.rounds);
        let mut testbed = Testbed::build(&arguments.servers, &run::target()?.join("release/capstan"))?;
        let measured = phases::all(&mut testbed, &extent, &arguments.only, &mut results);
        // Results from before a failure are written, too.
        results.write(&data)?;
        measured.with_context(|| format!("logs are in {}", testbed.keep_logs()))?;
    }
    let mut report = std::process::Command::new(run::target()?.join("release/bench"));
    run::shown(report.arg("report").arg("--results").arg(&data).arg("--out").arg(&out))?;
    eprintln!("the report is {}", out.join("api-server.md").display());
    Ok(())
}
