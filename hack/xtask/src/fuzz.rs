//! `cargo xtask fuzz`: what clients may send, made by libFuzzer from the committed corpus.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;

use crate::suites::Suites;
use crate::{prerequisites, run};

/// What makes code count where it goes, which the engine looks at: what cargo-fuzz passes, on stable.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Largest input the engine makes; repetitions make more of it. Unit: bytes.
const LARGEST: usize = 8192;

/// The engine gives up on an input after so long; what a target may take is judged by itself, and less.
/// Unit: seconds.
const LONGEST: u32 = 25;

/// The engine gives up when so much is taken at once; likewise. Unit: megabytes.
const MEMORY: u32 = 3072;

/// Longest search for a planted fault. Unit: seconds.
const PLANTED: u32 = 30;

/// Fuzzing.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// How long to look at each target, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Where chance begins: another number makes other inputs
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Only the target of this name
    #[arg(long)]
    only: Option<String>,
}

/// Builds the targets, has the engine prove itself on planted faults, and looks for others.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (mut suites, started) = (Suites::new("fuzz"), Instant::now());
    let laboratory = Laboratory::build()?;
    suites.add("build", started.elapsed());
    let started = Instant::now();
    let targets = laboratory.targets(arguments.only.as_deref())?;
    for target in PLANTED_FAULTS.into_iter().filter(|_| arguments.only.is_none()) {
        laboratory.must_be_found(target, arguments.seed)?;
    }
    let mut found = Vec::new();
    for target in targets {
        let search = laboratory.search(&target, (arguments.seconds, arguments.seed))?;
        match search.finding {
            None => eprintln!("ok      {target}: {} ({:.1} s)", search.summary, search.seconds),
            Some(finding) => {
                eprintln!(
                    "FOUND   {target}: {finding}\n{}",
                    laboratory.remedy(&target, search.input.as_deref())
                );
                found.push(target);
            }
        }
    }
    suites.add("search", started.elapsed());
    let budgets = suites.finish();
    if found.is_empty() { budgets } else { bail!("something is wrong with: {}", found.join(", ")) }
}

/// Faults made on purpose, one of each sort.
const PLANTED_FAULTS: [&str; 4] = ["planted-panic", "planted-memory", "planted-time", "planted-answer"];

/// The targets, built, and where what is made of them lies.
struct Laboratory {
    program: PathBuf,
    suite: PathBuf,
    scratch: PathBuf,
}

/// What came of a search.
struct Search {
    /// What is wrong, if something is.
    finding: Option<String>,
    /// The input it is wrong with.
    input: Option<PathBuf>,
    summary: String,
    seconds: f64,
}

impl Laboratory {
    fn build() -> anyhow::Result<Self> {
        prerequisites::build()?;
        prerequisites::compiler()?;
        // Of its own: everything is built otherwise, and should not be built anew each time.
        let scratch = run::target()?.join("fuzz");
        let triple = run::host()?;
        let arguments = ["build", "--quiet", "--locked", "--profile", "fuzz", "--package", "tests-fuzz"];
        let mut command = run::cargo(&arguments)?;
        command.args(["--features", "engine", "--target", &triple, "--target-dir"]).arg(&scratch);
        run::shown(command.env("RUSTFLAGS", COVERAGE.join(" ")))?;
        let program = scratch.join(triple).join("fuzz/fuzz");
        Ok(Self { program, suite: run::root()?.join("tests/fuzz"), scratch })
    }

    /// The names of the targets: those of their corpora, which a test compares.
    fn targets(&self, only: Option<&str>) -> anyhow::Result<Vec<String>> {
        let corpus = self.suite.join("corpus");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&corpus).with_context(|| corpus.display().to_string())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        names.retain(|name| name != "planted");
        match only {
            None => Ok(names),
            Some(only) if names.iter().any(|name| name == only) => Ok(vec![only.to_owned()]),
            Some(only) => bail!("there is no target {only:?}; there are: {}", names.join(", ")),
        }
    }

    /// Has the engine look for a fault, beginning with the target's corpus, for so many seconds and with this seed.
    fn search(&self, target: &str, (seconds, seed): (u32, u32)) -> anyhow::Result<Search> {
        let made = self.fresh("made", target)?;
        let found = self.fresh("found", target)?;
        let started = Instant::now();
        let mut command = self.engine(target);
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-seed={seed}"));
        command.arg(format!("-artifact_prefix={}/", found.display()));
        command.arg(format!("-dict={}", self.suite.join("dictionary").display()));
        command.arg(format!("-max_len={LARGEST}")).arg(format!("-timeout={LONGEST}"));
        command.arg(format!("-rss_limit_mb={MEMORY}")).arg("-print_final_stats=1");
        command.arg(&made).arg(self.suite.join("corpus").join(corpus_of(target)));
        let output = command.stdin(Stdio::null()).output();
        let output = output.with_context(|| format!("{}: cannot be run", self.program.display()))?;
        let log = found.join("log");
        std::fs::write(&log, &output.stderr)?;
        let input = inputs(&found)?.into_iter().find(|path| *path != log);
        let seconds = started.elapsed().as_secs_f64();
        Ok(Search { finding: finding(&output), input, summary: summary(&output), seconds })
    }

    fn engine(&self, target: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.env("CAPSTAN_FUZZ_TARGET", target);
        command
    }

    fn must_be_found(&self, target: &str, seed: u32) -> anyhow::Result<()> {
        let search = self.search(target, (PLANTED, seed))?;
        match search.finding {
            Some(_) => eprintln!("ok      {target} was found ({:.1} s)", search.seconds),
            None => bail!("{target} was not found in {PLANTED} s: what is not found means nothing"),
        }
        Ok(())
    }

    fn fresh(&self, what: &str, target: &str) -> anyhow::Result<PathBuf> {
        let directory = self.scratch.join(what).join(target);
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(directory)
    }

    /// What to do about a finding.
    fn remedy(&self, target: &str, input: Option<&Path>) -> String {
        let Some(input) = input else { return "        no input was kept".to_owned() };
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        format!(
            "        input:     {input}\n        again:     CAPSTAN_FUZZ_TARGET={target} cargo run --package tests-fuzz -- \
             {input}\n        smaller:   CAPSTAN_FUZZ_TARGET={target} {program} -minimize_crash=1 -runs=10000 \
             {input}\n        log:       {log}\n        once mended: cp {input} tests/fuzz/corpus/{target}/{name}",
            input = input.display(),
            program = self.program.display(),
            log = input.with_file_name("log").display(),
        )
    }
}

/// Where a target's seeds are: the planted ones share theirs.
fn corpus_of(target: &str) -> &str {
    if target.starts_with("planted-") { "planted" } else { target }
}

fn inputs(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?;
    Ok(entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?)
}

/// What the engine said is wrong, in its or the target's words.
fn finding(output: &Output) -> Option<String> {
    if output.status.success() {
        return None;
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let telling = ["FOUND: ", "panicked at", "overflowed its stack", "ERROR: libFuzzer"];
    let told = telling.iter().find_map(|telling| log.lines().find(|line| line.contains(telling)));
    let text = told.map_or_else(|| format!("it ended with {}", output.status), str::to_owned);
    Some(text.trim_start_matches("FOUND: ").chars().take(1000).collect())
}

/// How much was tried, and with which seed.
fn summary(output: &Output) -> String {
    let log = String::from_utf8_lossy(&output.stderr);
    let after = |mark: &str| {
        let line = log.lines().find_map(|line| line.trim().strip_prefix(mark));
        line.unwrap_or_default().trim().to_owned()
    };
    format!("{} inputs, seed {}", after("stat::number_of_executed_units:"), after("INFO: Seed:"))
}
