//! `cargo xtask bench`: Capstan beside a kube-apiserver with CRDs and a Go server of the aggregated kind.

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
use testbed::House;

/// Measures Capstan beside a real kube-apiserver with CRDs, a Go server of the aggregated kind, etcd itself and
/// bytes from memory, all on this machine.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Less of everything: under five minutes once all is built, and nothing of 100,000 objects
    #[arg(long)]
    quick: bool,
    /// How often everything is measured in turn [default: 3, with --quick 1]
    #[arg(long)]
    rounds: Option<usize>,
    /// Only phases with this in their name: operations, watches, lists, fairness, growth, restarts
    #[arg(long, default_value = "")]
    only: String,
    /// Only these servers: kube-apiserver, sample-apiserver, capstan, capstan-embedded
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,
    /// Where the report goes [default: docs/benchmarks, with --quick target/benchmarks]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Only count the instructions of the hot paths, and fail if they are over a tenth more than those that are kept
    #[arg(long)]
    guard: bool,
    /// With --guard: keep the numbers that are counted now
    #[arg(long, requires = "guard")]
    keep: bool,
    /// Draw the report of earlier results anew, and measure nothing
    #[arg(long)]
    report: bool,
}

/// How much is measured.
struct Extent {
    rounds: usize,
    /// Seconds of each operation.
    seconds: f64,
    /// Sizes of namespaces that are listed.
    sizes: &'static [usize],
    /// Seconds for which another list is begun.
    list_seconds: f64,
    /// Numbers of watchers.
    watchers: &'static [usize],
    updates: usize,
    /// Seconds for which another update is begun.
    watch_seconds: f64,
    /// Numbers of watchers over which the cost of a change is drawn.
    growing_watchers: &'static [usize],
    /// Whether the largest lists are read by many in every form, or only whole.
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

/// The guard alone, as one of the checks.
pub(crate) fn guard() -> anyhow::Result<()> {
    guard::run(false)
}

/// Builds, starts, measures, and draws the report.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    if arguments.guard {
        return guard::run(arguments.keep);
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
        let mut house = House::build(&arguments.servers, &run::target()?.join("release/capstan"))?;
        let measured = phases::all(&mut house, &extent, &arguments.only, &mut results);
        // What was measured before something failed is worth keeping.
        results.write(&data)?;
        measured.with_context(|| format!("logs are in {}", house.keep_logs()))?;
    }
    let mut report = std::process::Command::new(run::target()?.join("release/bench"));
    run::shown(report.arg("report").arg("--results").arg(&data).arg("--out").arg(&out))?;
    eprintln!("the report is {}", out.join("api-server.md").display());
    Ok(())
}
