//! Command `cargo xtask fuzz`: decoders against inputs that libFuzzer derives from the committed corpus.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;

use crate::suites::Suites;
use crate::{prerequisites, run};

/// Compiler flags that instrument the code for libFuzzer: those of cargo-fuzz that stable Rust accepts.
const COVERAGE: [&str; 5] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Largest input that the engine generates. Some targets repeat it. Unit: bytes.
const LARGEST: usize = 8192;

/// Time after which the engine stops at an input. Each target enforces a shorter limit itself. Unit: seconds.
const LONGEST: u32 = 25;

/// Memory above which the engine stops at an input. Each target enforces a lower limit itself. Unit: megabytes.
const MEMORY: u32 = 3072;

/// Longest search for a planted error. Unit: seconds.
const PLANTED: u32 = 30;

/// Fuzzes all decoders with inputs that are derived from a corpus.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Time to fuzz each target, in seconds
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// Seed of the random generator
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Fuzz only the target with this name
    #[arg(long)]
    only: Option<String>,
}

/// Builds the targets, checks that the engine finds the planted errors, and then fuzzes all targets.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (mut suites, started) = (Suites::new("fuzz"), Instant::now());
    let fuzzer = Fuzzer::build()?;
    suites.add("build", started.elapsed());
    let started = Instant::now();
    let targets = fuzzer.targets(arguments.only.as_deref())?;
    for target in PLANTED_ERRORS.into_iter().filter(|_| arguments.only.is_none()) {
        fuzzer.must_be_found(target, arguments.seed)?;
    }
    let found = fuzzer.search_all(&targets, (arguments.seconds, arguments.seed))?;
    suites.add("search", started.elapsed());
    let budgets = suites.finish();
    if found.is_empty() { budgets } else { bail!("fuzzing found errors in: {}", found.join(", ")) }
}

/// Targets with a planted error, one of each type.
const PLANTED_ERRORS: [&str; 4] = ["planted-panic", "planted-memory", "planted-time", "planted-answer"];

/// Built fuzz targets, with the directories of their inputs and outputs.
struct Fuzzer {
    program: PathBuf,
    suite: PathBuf,
    scratch: PathBuf,
}

/// Result of a search.
struct Search {
    /// Description of the error, if one was found.
    finding: Option<String>,
    /// Input that causes the error.
    input: Option<PathBuf>,
    summary: String,
    seconds: f64,
}

impl Fuzzer {
    fn build() -> anyhow::Result<Self> {
        prerequisites::build()?;
        prerequisites::compiler()?;
        // A target directory of its own: other flags would otherwise rebuild everything each time.
        let scratch = run::target()?.join("fuzz");
        let triple = run::host()?;
        let arguments = ["build", "--quiet", "--locked", "--profile", "fuzz", "--package", "tests-fuzz"];
        let mut command = run::cargo(&arguments)?;
        command.args(["--features", "engine", "--target", &triple, "--target-dir"]).arg(&scratch);
        run::shown(command.env("RUSTFLAGS", COVERAGE.join(" ")))?;
        let program = scratch.join(triple).join("fuzz/fuzz");
        Ok(Self { program, suite: run::root()?.join("tests/fuzz"), scratch })
    }

    /// Returns the names of the targets, which are those of their corpora. A test compares the two.
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
            Some(only) => bail!("there is no target {only:?}; the targets are: {}", names.join(", ")),
        }
    }

    /// Runs the engine on all targets, as many at a time as there are cores: it has one thread. Prints each result, and
    /// returns the targets with errors.
    fn search_all(&self, targets: &[String], time_and_seed: (u32, u32)) -> anyhow::Result<Vec<String>> {
        let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            for _ in 0..cores {
                scope.spawn(|| {
                    while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let search = self.search(target, time_and_seed);
                        let result = search.map(|search| self.report(target, search));
                        results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                    }
                });
            }
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let found: anyhow::Result<Vec<Option<String>>> = results.into_iter().collect();
        Ok(found?.into_iter().flatten().collect())
    }

    /// Prints the result of a search. Returns the target, if it has an error.
    fn report(&self, target: &str, search: Search) -> Option<String> {
        let Some(finding) = search.finding else {
            eprintln!("ok      {target}: {} ({:.1} s)", search.summary, search.seconds);
            return None;
        };
        eprintln!("FOUND   {target}: {finding}\n{}", self.remedy(target, search.input.as_deref()));
        Some(target.to_owned())
    }

    /// Runs the engine on a target and its corpus, for the given seconds and with the given seed.
    fn search(&self, target: &str, (seconds, seed): (u32, u32)) -> anyhow::Result<Search> {
        let generated = self.empty_directory("made", target)?;
        let found = self.empty_directory("found", target)?;
        let started = Instant::now();
        let mut command = self.engine(target);
        command.arg(format!("-max_total_time={seconds}")).arg(format!("-seed={seed}"));
        command.arg(format!("-artifact_prefix={}/", found.display()));
        command.arg(format!("-dict={}", self.suite.join("dictionary").display()));
        command.arg(format!("-max_len={LARGEST}")).arg(format!("-timeout={LONGEST}"));
        command.arg(format!("-rss_limit_mb={MEMORY}")).arg("-print_final_stats=1");
        command.arg(&generated).arg(self.suite.join("corpus").join(corpus_of(target)));
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
            None => {
                bail!("{target}: not found in {PLANTED} s, so a search without findings proves nothing")
            }
        }
        Ok(())
    }

    fn empty_directory(&self, set: &str, target: &str) -> anyhow::Result<PathBuf> {
        let directory = self.scratch.join(set).join(target);
        if directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        Ok(directory)
    }

    /// Returns the commands to reproduce, minimize and keep a finding.
    fn remedy(&self, target: &str, input: Option<&Path>) -> String {
        let Some(input) = input else { return "        no input was kept".to_owned() };
        let name = input.file_name().unwrap_or_default().to_string_lossy();
        format!(
            "        input:     {input}\n        again:     CAPSTAN_FUZZ_TARGET={target} cargo run --package tests-fuzz -- \
             {input}\n        smaller:   CAPSTAN_FUZZ_TARGET={target} {program} -minimize_crash=1 -runs=10000 \
             {input}\n        log:       {log}\n        after the fix: cp {input} tests/fuzz/corpus/{target}/{name}",
            input = input.display(),
            program = self.program.display(),
            log = input.with_file_name("log").display(),
        )
    }
}

/// Returns the name of a target's corpus. The targets with planted errors share one.
fn corpus_of(target: &str) -> &str {
    if target.starts_with("planted-") { "planted" } else { target }
}

fn inputs(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?;
    Ok(entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?)
}

/// Returns the error message of the engine or the target, if there is one.
fn finding(output: &Output) -> Option<String> {
    if output.status.success() {
        return None;
    }
    let log = String::from_utf8_lossy(&output.stderr);
    let markers = ["FOUND: ", "panicked at", "overflowed its stack", "ERROR: libFuzzer"];
    let line = markers.iter().find_map(|marker| log.lines().find(|line| line.contains(marker)));
    let text = line.map_or_else(|| format!("it ended with {}", output.status), str::to_owned);
    Some(text.trim_start_matches("FOUND: ").chars().take(1000).collect())
}

/// Returns the number of inputs and the seed of a search.
fn summary(output: &Output) -> String {
    let log = String::from_utf8_lossy(&output.stderr);
    let after = |prefix: &str| {
        let line = log.lines().find_map(|line| line.trim().strip_prefix(prefix));
        line.unwrap_or_default().trim().to_owned()
    };
    format!("{} inputs, seed {}", after("stat::number_of_executed_units:"), after("INFO: Seed:"))
}
