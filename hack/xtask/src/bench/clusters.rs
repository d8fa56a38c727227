//! Measurement of many clusters of hollow nodes: sizes, upstream's own manifest, and neighbours that misbehave.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;

use super::results::Results;
use crate::run;

/// Numbers of clusters of the whole measurement.
const WHOLE: &str = "1,20,100,500";

/// Numbers of clusters with which upstream's controllers were measured.
const PEER: [usize; 2] = [1, 5];

/// Clusters beside which a neighbour misbehaves.
const BESIDE: usize = 20;

#[derive(Debug, Args)]
#[group(id = "cluster-options")]
pub(super) struct Arguments {
    /// Measure Capstan with these numbers of clusters, and not its API server alone
    #[arg(long, value_name = "NUMBERS", num_args = 0..=1, default_missing_value = WHOLE)]
    clusters: Option<Sizes>,
    /// With --clusters: duration of the rest, in seconds; two passes over each object take 600
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "clusters")]
    rest: u64,
    /// With --clusters: longest time of each creation, and of each deletion, in seconds; what is not ready then is counted
    #[arg(long, value_name = "SECONDS", default_value_t = 1800, requires = "clusters")]
    patience: u64,
}

/// Numbers of clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sizes(Vec<usize>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes = text.split(',').map(|size| size.trim().parse::<usize>());
        let sizes = sizes.collect::<Result<Vec<_>, _>>();
        sizes.map(Self).map_err(|error| format!("numbers with commas between them are expected: {error}"))
    }
}

/// One measurement, in a process of its own with a server and a cloud of its own.
struct Run {
    phase: &'static str,
    /// Other clusters than usual; empty if there are none.
    variant: &'static str,
    arguments: Vec<String>,
}

impl Arguments {
    /// Returns true if clusters are measured.
    pub(super) fn is_chosen(&self) -> bool {
        self.clusters.is_some()
    }

    /// Returns true if everything is measured.
    fn is_whole(&self, only: &str) -> bool {
        only.is_empty()
            && self.clusters.as_ref().is_some_and(|sizes| WHOLE.parse::<Sizes>().as_ref() == Ok(sizes))
    }

    /// Measures the clusters, and writes `clusters.md`.
    pub(super) fn run(&self, only: &str, report: bool, out: Option<&PathBuf>) -> anyhow::Result<()> {
        let release = ["build", "--quiet", "--locked", "--release", "-p", "apiserver-server", "-p", "bench"];
        run::shown(&mut run::cargo(&release)?)?;
        let out = match out {
            Some(out) => out.clone(),
            None if self.is_whole(only) || report => run::root()?.join("docs/benchmarks"),
            None => run::target()?.join("benchmarks"),
        };
        std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
        let data = out.join("clusters.json");
        if !report {
            let mut results = Results::new(!self.is_whole(only), 1);
            let measured = self.measure(only, &mut results);
            // Results from before a failure are written, too.
            results.write(&data)?;
            measured?;
        }
        let mut report = Command::new(run::target()?.join("release/bench"));
        run::shown(report.arg("cluster-report").arg("--results").arg(&data).arg("--out").arg(&out))?;
        eprintln!("the report is {}", out.join("clusters.md").display());
        Ok(())
    }

    fn measure(&self, only: &str, results: &mut Results) -> anyhow::Result<()> {
        let runs: Vec<Run> = self.runs().into_iter().filter(|run| run.phase.contains(only)).collect();
        if runs.is_empty() {
            bail!("no phase has a name with {only:?}; there are sizes, peer, neighbours");
        }
        for run in runs {
            let begun = Instant::now();
            let row = run.measure()?;
            eprintln!(
                "ok      {} {} {} ({:.0} s)",
                run.phase,
                run.arguments.join(" "),
                run.variant,
                begun.elapsed().as_secs_f64()
            );
            results.add(run.phase, "capstan", 0, row);
        }
        Ok(())
    }

    fn runs(&self) -> Vec<Run> {
        let of = |phase, variant, clusters: usize, rest: u64, more: &[&str]| {
            let mut arguments = vec!["--clusters".to_owned(), clusters.to_string()];
            arguments.extend(["--rest".to_owned(), rest.to_string()]);
            arguments.extend(["--patience".to_owned(), self.patience.to_string()]);
            arguments.extend(more.iter().map(|it| (*it).to_owned()));
            Run { phase, variant, arguments }
        };
        let sizes = self.clusters.iter().flat_map(|sizes| &sizes.0);
        let mut runs: Vec<Run> = sizes.map(|size| of("sizes", "", *size, self.rest, &["--delete"])).collect();
        // The times of the cloud are those with which upstream's controllers were measured.
        let peer = ["--control-plane", "1", "--delete", "--node", "500", "--delete-time", "300"];
        for clusters in PEER {
            runs.push(of("peer", "", clusters, self.rest, &[&peer[..], &["--boot", "300"]].concat()));
        }
        let real = [&peer[..], &["--boot", "30000", "--latency", "50"]].concat();
        runs.push(of("peer", "real", 1, 0, &real));
        runs.push(of("neighbours", "none", BESIDE, 0, &[]));
        for neighbour in ["slow", "silent", "failing", "huge"] {
            runs.push(of("neighbours", neighbour, BESIDE, 0, &["--neighbour", neighbour]));
        }
        runs
    }
}

impl Run {
    fn measure(&self) -> anyhow::Result<Value> {
        let release = run::target()?.join("release");
        let mut command = Command::new(release.join("bench"));
        command.arg("clusters").arg("--capstan").arg(release.join("capstan")).args(&self.arguments);
        // The measurement stops its own processes, and writes its progress to standard error.
        command.stdin(Stdio::null());
        let mut row: Value = serde_json::from_str(&run::output(&mut command)?)?;
        row["variant"] = self.variant.into();
        Ok(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_clusters_are_separated_by_commas() {
        assert_eq!("1,20".parse(), Ok(Sizes(vec![1, 20])));
        assert!("1;20".parse::<Sizes>().is_err());
    }
}
