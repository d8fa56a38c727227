//! Command `cargo xtask test`: runs every test program of the workspace, side by side, with a budget for each suite.

pub(crate) mod programs;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;

use crate::prerequisites;
use crate::suites::Suites;
use programs::Program;

/// Number of programs that run at the same time. Most tests wait for a server, a timer or an etcd, so one more than the
/// cores.
const SIDE_BY_SIDE: usize = 3;

/// Programs that run after all others, one at a time: `guest` measures the time to a response while parts of the server
/// are unavailable, and `corpus` has one thread, which waits for minutes beside the threads of the scenarios.
const ALONE: [(&str, &str); 2] = [("tests-fuzz", "corpus"), ("apiserver-server", "guest")];

/// Number of scenarios of one program that run at the same time: each has a server and a cloud of its own, and mostly
/// waits.
const SCENARIOS: &str = "6";

/// Number of tests of `guest` that run at the same time. Three use half a core, because they mostly wait.
const GUESTS: &str = "8";

/// Number of tests of the store on etcd that run at the same time. Each has etcds of its own, and waits for their starts,
/// their disk and their timers. By default, there would be one for each core.
const ETCDS: &str = "4";

/// Number of failed programs whose failed tests run a second time, alone. Side by side, three programs and their servers
/// may make one wait longer than it can bear; more than this is no accident.
const REPEATED: usize = 2;

/// Long suites, which run only with `--all`.
const LONG: [&str; 3] = ["tests-history", "tests-scenarios", "tests-fuzz"];

/// Package whose tests wait for minutes and need no core. They start first, beside the scenarios, which need both.
const WAITING: &str = "storage-etcd";

/// Long programs of minutes, the longest first. They start before the others of the long suites, so that none of them runs
/// when all others have ended.
const LONGEST: [&str; 5] = ["whole_cluster", "crashes", "templates", "operations", "faults"];

/// Runs the tests that need only cargo, etcd, moto, promtool and Swift.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Run the long proofs, too: histories with injected errors, scenarios with every step cut, the fuzz corpus
    #[arg(long)]
    all: bool,
    /// Only suites whose name contains this text
    #[arg(long, default_value = "")]
    only: String,
}

/// Builds and runs the test programs.
///
/// # Errors
/// Names the programs that failed; what they printed comes first.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    prerequisites::build()?;
    let environment = [
        ("CAPSTAN_ETCD_DISTRIBUTION", prerequisites::distribution_etcd()?),
        ("CAPSTAN_ETCD_CURRENT", prerequisites::current_etcd()?),
        ("CAPSTAN_ETCDUTL", prerequisites::etcdutl()?),
        ("CAPSTAN_MOTO", prerequisites::moto()?),
        ("CAPSTAN_FAKETIME", prerequisites::faketime()?),
    ];
    prerequisites::swift()?;
    prerequisites::promtool()?;
    let (mut suites, started) = (Suites::new("test"), Instant::now());
    let mut programs = programs::build()?.programs;
    suites.add("build", started.elapsed());
    eprintln!("ok      build ({:.1} s)", started.elapsed().as_secs_f64());
    programs.retain(|program| {
        let is_long = LONG.contains(&program.package.as_str());
        (arguments.all || !is_long) && program.package.contains(&arguments.only)
    });
    // The longest first: then none is begun when all others have ended.
    programs.sort_by_key(|program| {
        let package = program.package.as_str();
        let place = LONGEST.iter().position(|name| *name == program.name).unwrap_or(LONGEST.len());
        (package != WAITING, !LONG.contains(&package), place)
    });
    let is_alone = |program: &Program| ALONE.contains(&(program.package.as_str(), program.name.as_str()));
    let (alone, programs): (Vec<Program>, Vec<Program>) = programs.into_iter().partition(is_alone);
    let results = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE {
            scope.spawn(|| {
                while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(program, &[], &environment);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.extend(alone.iter().map(|program| one(program, &[], &environment)));
    let programs: Vec<Program> = programs.into_iter().chain(alone).collect();
    let repeated = repeat(&programs, &mut results, &environment);
    summary(suites, results, &repeated)
}

/// Runs failed tests once more, when nothing else runs. Returns those that passed then: they depend on the load of the
/// machine or on chance, and the summary names them.
fn repeat(
    programs: &[Program],
    results: &mut [anyhow::Result<Run>],
    environment: &[(&str, std::path::PathBuf)],
) -> Vec<String> {
    let failed = |result: &anyhow::Result<Run>| result.as_ref().is_ok_and(|run| !run.succeeded);
    if results.iter().filter(|result| failed(result)).count() > REPEATED {
        return Vec::new();
    }
    let mut passed = Vec::new();
    for result in results.iter_mut().filter(|result| failed(result)) {
        let Ok(run) = result else { continue };
        let is_it = |program: &&Program| program.package == run.package && program.name == run.name;
        let Some(program) = programs.iter().find(is_it) else { continue };
        eprintln!("again   {} {}: {}", run.package, run.name, run.failed.join(", "));
        match one(program, &run.failed, environment) {
            Ok(again) => {
                if again.succeeded {
                    passed.push(format!("{} {} {}", run.package, run.name, run.failed.join(", ")));
                }
                run.taken += again.taken;
                // A program that did not name what failed ran whole, and its first numbers say little.
                run.passed = again.passed + if run.failed.is_empty() { 0 } else { run.passed };
                (run.failed, run.succeeded) = (again.failed, again.succeeded);
            }
            Err(error) => *result = Err(error),
        }
    }
    passed
}

/// One program that has run.
struct Run {
    package: String,
    name: String,
    taken: Duration,
    passed: usize,
    /// Names of the failed tests. Empty if the program ended without naming them.
    failed: Vec<String>,
    succeeded: bool,
}

/// Runs a program, or only its tests of these names.
fn one(
    program: &Program,
    only: &[String],
    environment: &[(&str, std::path::PathBuf)],
) -> anyhow::Result<Run> {
    let started = Instant::now();
    let mut command = program.command();
    if !only.is_empty() {
        command.arg("--exact").args(only);
    }
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    match (program.package.as_str(), program.name.as_str()) {
        ("tests-scenarios", _) => command.args(["--test-threads", SCENARIOS]),
        ("apiserver-server", "guest") => command.args(["--test-threads", GUESTS]),
        (WAITING, "etcd") => command.args(["--test-threads", ETCDS]),
        _ => &mut command,
    };
    let output =
        command.output().with_context(|| format!("{} cannot be run", program.executable.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = passed(&text);
    let run = Run {
        package: program.package.clone(),
        name: program.name.clone(),
        taken: started.elapsed(),
        passed,
        failed: failed(&text),
        succeeded: output.status.success(),
    };
    let verdict = if run.succeeded { "ok     " } else { "FAILED " };
    if !run.succeeded {
        let error = String::from_utf8_lossy(&output.stderr);
        eprintln!("{text}{error}{} ended with {}", program.executable.display(), output.status);
    }
    if run.passed > 0 || !run.succeeded {
        let seconds = run.taken.as_secs_f64();
        eprintln!("{verdict} {} {}: {passed} passed ({seconds:.1} s)", run.package, run.name);
    }
    Ok(run)
}

/// Number of passed tests in the output of a program.
fn passed(text: &str) -> usize {
    let line = text.lines().rev().find(|line| line.starts_with("test result:")).unwrap_or_default();
    let before = line.split(" passed").next().unwrap_or_default();
    before.split_whitespace().next_back().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Names of the failed tests in the output of a program.
fn failed(text: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?.to_owned());
    text.lines().filter_map(name).collect()
}

fn summary(mut suites: Suites, results: Vec<anyhow::Result<Run>>, repeated: &[String]) -> anyhow::Result<()> {
    let mut taken = BTreeMap::<String, Duration>::new();
    let (mut passed, mut failed, mut broken) = (0, 0, Vec::new());
    for result in results {
        let run = result?;
        *taken.entry(run.package.clone()).or_default() += run.taken;
        passed += run.passed;
        // A program that ends without saying how many failed has failed once.
        failed += if run.succeeded { 0 } else { run.failed.len().max(1) };
        if !run.succeeded {
            broken.push(format!("{} {}", run.package, run.name));
        }
    }
    for (package, taken) in taken {
        suites.add(&package, taken);
    }
    let budgets = suites.finish();
    writeln!(std::io::stdout(), "{passed} passed, {failed} failed")?;
    if !repeated.is_empty() {
        writeln!(std::io::stdout(), "passed only when repeated alone: {}", repeated.join("; "))?;
    }
    if !broken.is_empty() {
        bail!("failed: {}", broken.join("; "));
    }
    budgets
}

#[cfg(test)]
mod tests {
    use super::{failed, passed};

    const OUTPUT: &str = "running 3 tests\n\
        test outage::b has been running for over 60 seconds\n\
        test outage::a ... ok\n\
        test outage::b ... FAILED\n\
        test c ... ok\n\n\
        test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";

    #[test]
    fn the_output_of_a_program_says_how_many_tests_passed_and_which_failed() {
        assert_eq!(passed(OUTPUT), 2);
        assert_eq!(failed(OUTPUT), ["outage::b"]);
    }
}
